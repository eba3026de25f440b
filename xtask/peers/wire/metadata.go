package main

import (
	"context"
	"log"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// metadataClient reads metadata alone. That client would take JSON too, so what it takes is cut.
func metadataClient(ctx context.Context, config *rest.Config) {
	config = metadata.ConfigFor(config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return tripper(func(request *http.Request) (*http.Response, error) {
			request = request.Clone(ctx)
			first, _, _ := strings.Cut(request.Header.Get("Accept"), ",")
			request.Header.Set("Accept", first)
			return inner.RoundTrip(request)
		})
	})
	all, err := metadata.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	maps := all.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	about := steps("metadata")
	list, err := maps.List(ctx, metav1.ListOptions{})
	about.shows("list of nothing", list, err)
	if err != nil {
		return
	}
	from := metav1.ListOptions{ResourceVersion: list.ResourceVersion}
	watching, err := maps.Watch(ctx, from)
	if err != nil {
		about.shows("watch", nil, err)
		return
	}
	defer watching.Stop()
	direct, err := rest.HTTPClientFor(config)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"m", "n"} {
		body := []byte(`{"metadata":{"name":"` + name + `","labels":{"a":"b"}},"data":{"k":"v"}}`)
		path := "/api/v1/namespaces/" + namespace + "/configmaps"
		raw{direct, config.Host}.send(ctx, "POST", path, "application/json", "", body)
	}
	one, err := maps.Get(ctx, "m", metav1.GetOptions{})
	about.shows("get", one, err)
	list, err = maps.List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	about.shows("list", list, err)
	list, err = maps.List(ctx, metav1.ListOptions{LabelSelector: "a=b", Limit: 1})
	about.shows("page", list, err)
	one, err = maps.Get(ctx, "none", metav1.GetOptions{})
	about.shows("get what is not there", one, err)
	patch := []byte(`{"metadata":{"annotations":{"k":"v"}}}`)
	one, err = maps.Patch(ctx, "m", types.MergePatchType, patch, metav1.PatchOptions{})
	about.shows("patch", one, err)
	about.does("delete", maps.Delete(ctx, "m", metav1.DeleteOptions{}))
	follow("metadata: event", watching, "n")
	about.does("delete all", maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
}
