package main

import (
	"fmt"
	"strings"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

var clientChecks = []check{
	{"clients: typed, in JSON", func(w *world) (string, error) { return typedClient(w, rest.ContentConfig{}) }},
	{"clients: typed, in protobuf where the server has it", func(w *world) (string, error) {
		return typedClient(w, rest.ContentConfig{ContentType: protobuf, AcceptContentTypes: protobufOrJSON})
	}},
	{"clients: typed, in protobuf alone", func(w *world) (string, error) {
		said, err := typedClient(w, rest.ContentConfig{ContentType: protobuf, AcceptContentTypes: protobuf})
		if err == nil && strings.Contains(said, "json") {
			err = fmt.Errorf("there was an answer in %s", said)
		}
		return said, err
	}},
	{"clients: dynamic", dynamicClient},
	{"clients: metadata", metadataClient},
	{"clients: typed errors", typedErrors},
}

func typedClient(w *world, content rest.ContentConfig) (string, error) {
	config := rest.CopyConfig(w.wired)
	config.ContentConfig = content
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	services := typed.CoreV1().Services(w.namespace)
	w.seen.types = map[string]bool{}
	events, err := services.Watch(w.ctx, meta.ListOptions{})
	if err != nil {
		return "", err
	}
	defer events.Stop()
	service := &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: "web", Labels: map[string]string{"a": "b"}},
		Spec:       core.ServiceSpec{ClusterIP: core.ClusterIPNone, Selector: map[string]string{"app": "web"}, Ports: []core.ServicePort{{Name: "http", Port: 80}}},
	}
	created, err := services.Create(w.ctx, service, meta.CreateOptions{})
	if err != nil {
		return "", err
	}
	if created.UID == "" || created.CreationTimestamp.IsZero() || created.Spec.Ports[0].Protocol != core.ProtocolTCP {
		return "", fmt.Errorf("created: %v", created)
	}
	created.Spec.Ports[0].Port = 8080
	updated, err := services.Update(w.ctx, created, meta.UpdateOptions{})
	if err != nil {
		return "", err
	}
	if updated.Spec.Ports[0].Port != 8080 || updated.UID != created.UID {
		return "", fmt.Errorf("updated: %v", updated)
	}
	updated.Status.Conditions = []meta.Condition{{Type: "Well", Status: meta.ConditionTrue, Reason: "Because", LastTransitionTime: meta.Now()}}
	if _, err := services.UpdateStatus(w.ctx, updated, meta.UpdateOptions{}); err != nil {
		return "", err
	}
	list, err := services.List(w.ctx, meta.ListOptions{LabelSelector: "a in (b, c)"})
	if err != nil || len(list.Items) != 1 || len(list.Items[0].Status.Conditions) != 1 {
		return "", fmt.Errorf("listed: %v %v", list, err)
	}
	if err := services.Delete(w.ctx, "web", meta.DeleteOptions{Preconditions: meta.NewUIDPreconditions(string(created.UID))}); err != nil {
		return "", err
	}
	for _, expected := range []string{"ADDED", "MODIFIED", "MODIFIED", "DELETED"} {
		event, err := w.next(events)
		if err != nil {
			return "", err
		}
		if _, ok := event.Object.(*core.Service); !ok || string(event.Type) != expected {
			return "", fmt.Errorf("%s where %s was to come: %v", event.Type, expected, event.Object)
		}
	}
	return "answers in " + w.seen.answered(), nil
}

func dynamicClient(w *world) (string, error) {
	client, err := w.dynamic()
	if err != nil {
		return "", err
	}
	objects := client.Resource(configMaps).Namespace(w.namespace)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "any-"}, "data": map[string]any{"a": "1"},
	}}
	created, err := objects.Create(w.ctx, object, meta.CreateOptions{})
	if err != nil {
		return "", err
	}
	if len(created.GetName()) != len("any-")+5 || created.GetKind() != "ConfigMap" {
		return "", fmt.Errorf("created: %v", created)
	}
	if err := unstructured.SetNestedField(created.Object, "2", "data", "a"); err != nil {
		return "", err
	}
	if _, err := objects.Update(w.ctx, created, meta.UpdateOptions{DryRun: []string{meta.DryRunAll}}); err != nil {
		return "", err
	}
	got, err := objects.Get(w.ctx, created.GetName(), meta.GetOptions{})
	if value, _, _ := unstructured.NestedString(got.Object, "data", "a"); err != nil || value != "1" {
		return "", fmt.Errorf("after a dry run: %v %v", got, err)
	}
	patched, err := objects.Patch(w.ctx, created.GetName(), types.MergePatchType, []byte(`{"data":{"a":"3"}}`), meta.PatchOptions{})
	if value, _, _ := unstructured.NestedString(patched.Object, "data", "a"); err != nil || value != "3" {
		return "", fmt.Errorf("patched: %v %v", patched, err)
	}
	list, err := objects.List(w.ctx, meta.ListOptions{})
	if err != nil || list.GetKind() != "ConfigMapList" {
		return "", fmt.Errorf("listed: %v %v", list, err)
	}
	return "", objects.Delete(w.ctx, created.GetName(), meta.DeleteOptions{})
}

func metadataClient(w *world) (string, error) {
	if _, err := w.some("a", someObjects); err != nil {
		return "", err
	}
	client, err := w.metadata()
	if err != nil {
		return "", err
	}
	objects := client.Resource(configMaps).Namespace(w.namespace)
	list, err := objects.List(w.ctx, meta.ListOptions{Limit: 3})
	if err != nil || len(list.Items) != 3 || list.Continue == "" || list.Items[0].UID == "" {
		return "", fmt.Errorf("listed: %v %v", list, err)
	}
	one, err := objects.Get(w.ctx, "a000", meta.GetOptions{})
	if err != nil || one.Name != "a000" {
		return "", fmt.Errorf("got: %v %v", one, err)
	}
	events, err := objects.Watch(w.ctx, meta.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return "", err
	}
	defer events.Stop()
	patched, err := objects.Patch(w.ctx, "a000", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), meta.PatchOptions{})
	if err != nil || patched.Annotations["a"] != "b" {
		return "", fmt.Errorf("patched: %v %v", patched, err)
	}
	event, err := w.next(events)
	if err != nil {
		return "", err
	}
	if told, ok := event.Object.(*meta.PartialObjectMetadata); !ok || told.Annotations["a"] != "b" {
		return "", fmt.Errorf("%s %v", event.Type, event.Object)
	}
	return "", objects.DeleteCollection(w.ctx, meta.DeleteOptions{}, meta.ListOptions{})
}

func typedErrors(w *world) (string, error) {
	objects := w.typed.CoreV1().ConfigMaps(w.namespace)
	created, err := objects.Create(w.ctx, configMap("there", nil), meta.CreateOptions{})
	if err != nil {
		return "", err
	}
	old := created.DeepCopy()
	created.Data = map[string]string{"a": "1"}
	if _, err := objects.Update(w.ctx, created, meta.UpdateOptions{}); err != nil {
		return "", err
	}
	_, missing := objects.Get(w.ctx, "nowhere", meta.GetOptions{})
	_, again := objects.Create(w.ctx, configMap("there", nil), meta.CreateOptions{})
	old.Data = map[string]string{"a": "2"}
	_, conflict := objects.Update(w.ctx, old, meta.UpdateOptions{})
	_, invalid := objects.Create(w.ctx, configMap("Not a name", nil), meta.CreateOptions{})
	_, elsewhere := w.typed.CoreV1().ConfigMaps("no-such-namespace").Create(w.ctx, configMap("a", nil), meta.CreateOptions{})
	_, selector := objects.List(w.ctx, meta.ListOptions{FieldSelector: "data.a=1"})
	stale := objects.Delete(w.ctx, "there", meta.DeleteOptions{Preconditions: &meta.Preconditions{ResourceVersion: &old.ResourceVersion}})
	for what, right := range map[string]bool{
		"not found":             apierrors.IsNotFound(missing),
		"already there":         apierrors.IsAlreadyExists(again),
		"conflict":              apierrors.IsConflict(conflict),
		"invalid":               apierrors.IsInvalid(invalid),
		"no such namespace":     apierrors.IsNotFound(elsewhere),
		"unknown field":         apierrors.IsBadRequest(selector),
		"delete of another one": apierrors.IsConflict(stale),
	} {
		if !right {
			return "", fmt.Errorf("%s: %v", what, []error{missing, again, conflict, invalid, elsewhere, selector, stale})
		}
	}
	return "", nil
}
