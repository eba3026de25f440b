package main

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// client is what all typed clients have.
type client[T meta.Object] interface {
	Create(context.Context, T, meta.CreateOptions) (T, error)
	Update(context.Context, T, meta.UpdateOptions) (T, error)
	Delete(context.Context, string, meta.DeleteOptions) error
	Get(context.Context, string, meta.GetOptions) (T, error)
}

// put brings an object about as it is, whether it was there or not; or has it gone.
func put[T meta.Object](w *world, gone bool, object T, objects client[T]) error {
	if gone {
		err := objects.Delete(w.ctx, object.GetName(), meta.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	_, err := objects.Create(w.ctx, object, meta.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	// Some kinds cannot be written without saying on top of what.
	there, err := objects.Get(w.ctx, object.GetName(), meta.GetOptions{})
	if err != nil {
		return err
	}
	object.SetResourceVersion(there.GetResourceVersion())
	_, err = objects.Update(w.ctx, object, meta.UpdateOptions{})
	return err
}
