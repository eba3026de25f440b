package main

import (
	"context"
	"errors"
	"fmt"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

var pagingChecks = []check{
	{"paging: pages are of one revision, whichever replica gives them", pages},
	{"paging: the pager sees each object once", pagerSeesAll},
	{"paging: a token that is forgotten is a 410, with a token to go on, and the pager recovers", expiredToken},
}

const (
	pagedObjects = 25
	pageSize     = 10
)

func pages(w *world) (string, error) {
	if _, err := w.some("a", pagedObjects); err != nil {
		return "", err
	}
	var token, at string
	for page, expected := range []int{10, 10, 5} {
		client, err := w.on(page)
		if err != nil {
			return "", err
		}
		objects := client.CoreV1().ConfigMaps(w.namespace)
		list, err := objects.List(w.ctx, meta.ListOptions{Limit: pageSize, Continue: token})
		if err != nil {
			return "", err
		}
		if page == 0 {
			at = list.ResourceVersion
		}
		left := int64(pagedObjects - pageSize*(page+1))
		rightLeft := left <= 0 && list.RemainingItemCount == nil || list.RemainingItemCount != nil && *list.RemainingItemCount == left
		if len(list.Items) != expected || list.ResourceVersion != at || (list.Continue == "") != (left <= 0) || !rightLeft {
			return "", fmt.Errorf("page %d: %d objects at %s, first page at %s, %v left", page, len(list.Items), list.ResourceVersion, at, list.RemainingItemCount)
		}
		if first := list.Items[0].Name; first != fmt.Sprintf("a%03d", page*pageSize) {
			return "", fmt.Errorf("page %d begins with %s", page, first)
		}
		token = list.Continue
		// What comes after the first page began is not in those that follow.
		if err := objects.Delete(w.ctx, fmt.Sprintf("a%03d", 11+page), meta.DeleteOptions{}); err != nil {
			return "", err
		}
		if _, err := objects.Create(w.ctx, configMap(fmt.Sprintf("a012-%d", page), nil), meta.CreateOptions{}); err != nil {
			return "", err
		}
	}
	return "", nil
}

func pagerSeesAll(w *world) (string, error) {
	if _, err := w.some("a", pagedObjects); err != nil {
		return "", err
	}
	seen := map[string]int{}
	p := pager.New(func(ctx context.Context, options meta.ListOptions) (runtime.Object, error) {
		return w.typed.CoreV1().ConfigMaps(w.namespace).List(ctx, options)
	})
	p.PageSize = 3
	err := p.EachListItem(w.ctx, meta.ListOptions{}, func(object runtime.Object) error {
		seen[object.(*core.ConfigMap).Name]++
		return nil
	})
	for name, times := range seen {
		if times != 1 {
			return "", fmt.Errorf("%s came %d times", name, times)
		}
	}
	if err == nil && len(seen) != pagedObjects {
		err = fmt.Errorf("%d objects came", len(seen))
	}
	return "", err
}

func expiredToken(w *world) (string, error) {
	if _, err := w.some("a", pagedObjects); err != nil {
		return "", err
	}
	objects := w.typed.CoreV1().ConfigMaps(w.namespace)
	first, err := objects.List(w.ctx, meta.ListOptions{Limit: pageSize})
	if err != nil {
		return "", err
	}
	if err := w.forget(); err != nil {
		return "", err
	}
	_, err = objects.List(w.ctx, meta.ListOptions{Limit: pageSize, Continue: first.Continue})
	if err == nil && !w.control {
		return "", errors.New("the token was good although its revision is forgotten")
	}
	if err == nil {
		return "", notRun("the token was still good: what is forgotten below the server is still in its memory")
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsResourceExpired(err) || status.Status().ListMeta.Continue == "" {
		return "", fmt.Errorf("the list says %v", err)
	}
	rest, err := objects.List(w.ctx, meta.ListOptions{Limit: pagedObjects, Continue: status.Status().ListMeta.Continue})
	if err != nil {
		return "", err
	}
	if len(rest.Items) != pagedObjects-pageSize || rest.Items[0].Name != fmt.Sprintf("a%03d", pageSize) {
		return "", fmt.Errorf("going on without consistency: %d objects", len(rest.Items))
	}
	asked := 0
	p := pager.New(func(ctx context.Context, options meta.ListOptions) (runtime.Object, error) {
		asked++
		if asked == 2 {
			options.Continue = first.Continue
		}
		return objects.List(ctx, options)
	})
	p.PageSize = pageSize
	whole, _, err := p.List(w.ctx, meta.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("the pager does not recover: %w", err)
	}
	if list, ok := whole.(*core.ConfigMapList); !ok || len(list.Items) != pagedObjects || asked != 3 {
		return "", fmt.Errorf("the pager recovered with %T after %d requests", whole, asked)
	}
	return "", nil
}
