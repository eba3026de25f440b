package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

const (
	// markAnnotation says which write made an object what it is.
	markAnnotation = "mark"
	// lastName is the object that is written last, so that those who follow know that they have seen everything.
	lastName      = "the-end"
	lastNamespace = "soak-0"
)

var endpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}

// follower is an informer and the file in which it is written down what its watches said.
type follower struct {
	name     string
	informer cache.SharedIndexInformer
	book     *book
	tale     *tale
}

// book is what was heard, a line each:
//
//	item KEY REVISION MARK      of a list, or of the events that a watch begins with
//	listed REVISION             the items since the last such line were everything at that revision
//	ADDED|MODIFIED|DELETED KEY REVISION MARK
//	BOOKMARK REVISION
//	cached KEY REVISION MARK    of the cache, at the end
type book struct {
	mutex    sync.Mutex
	file     *os.File
	out      *bufio.Writer
	resource string
	// gathered are the items of a list that is not complete yet.
	gathered []string
}

func (b *book) entry(word string, object metav1.Object) string {
	return fmt.Sprintf("%s %s/%s/%s %s %s\n", word, b.resource, object.GetNamespace(), object.GetName(),
		object.GetResourceVersion(), mark(object))
}

// mark is the mark of the write that made an object; no number if the rest of the object is of another write.
func mark(object metav1.Object) string {
	mark := object.GetAnnotations()[markAnnotation]
	if mark == "" {
		return "-"
	}
	if rest, known := payload(object); known && rest != mark {
		return fmt.Sprintf("%s!%q", mark, rest)
	}
	return mark
}

// payload is the mark in what the object is about, if that is known.
func payload(object metav1.Object) (string, bool) {
	switch object := object.(type) {
	case *core.ConfigMap:
		return object.Data[markAnnotation], true
	case *core.Secret:
		return string(object.Data[markAnnotation]), true
	case *coordination.Lease:
		if object.Spec.HolderIdentity == nil {
			return "", true
		}
		return *object.Spec.HolderIdentity, true
	case *discovery.EndpointSlice:
		if len(object.Endpoints) != 1 || object.Endpoints[0].Hostname == nil {
			return "", true
		}
		return strings.TrimPrefix(*object.Endpoints[0].Hostname, "h"), true
	case *unstructured.Unstructured:
		data, _, _ := unstructured.NestedString(object.Object, "data", markAnnotation)
		return data, true
	}
	return "", false
}

func (b *book) listed(revision string) {
	for _, line := range b.gathered {
		_, _ = b.out.WriteString(line)
	}
	b.gathered = nil
	_, _ = fmt.Fprintf(b.out, "listed %s\n", revision)
}

// list writes down a page of a list.
func (b *book) list(options metav1.ListOptions, list runtime.Object) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if options.Continue == "" {
		b.gathered = nil
	}
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		b.gathered = append(b.gathered, b.entry("item", item.(metav1.Object)))
		return nil
	})
	if page, ok := list.(metav1.ListInterface); ok && page.GetContinue() == "" {
		b.listed(page.GetResourceVersion())
	}
}

// heard writes down an event; initial says whether it is one of those that a watch begins with.
func (b *book) heard(event watch.Event, initial *bool) {
	object, ok := event.Object.(metav1.Object)
	if !ok {
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	switch {
	case event.Type == watch.Bookmark && *initial && object.GetAnnotations()[initialEventsEnd] == "true":
		*initial = false
		b.listed(object.GetResourceVersion())
	case event.Type == watch.Bookmark:
		_, _ = fmt.Fprintf(b.out, "BOOKMARK %s\n", object.GetResourceVersion())
	case *initial:
		b.gathered = append(b.gathered, b.entry("item", object))
	default:
		_, _ = b.out.WriteString(b.entry(string(event.Type), object))
	}
}

// overheard is the watch, with every event that its reader took written down.
func (b *book) overheard(inner watch.Interface, initial bool) watch.Interface {
	b.mutex.Lock()
	b.gathered = nil
	b.mutex.Unlock()
	out := &overheard{Interface: inner, events: make(chan watch.Event), stopped: make(chan struct{})}
	go func() {
		defer close(out.events)
		for event := range inner.ResultChan() {
			select {
			case out.events <- event:
				b.heard(event, &initial)
			case <-out.stopped:
				return
			}
		}
	}()
	return out
}

type overheard struct {
	watch.Interface
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

func (o *overheard) ResultChan() <-chan watch.Event { return o.events }

func (o *overheard) Stop() {
	o.once.Do(func() { close(o.stopped) })
	o.Interface.Stop()
}

// lists and watches are the two halves of a client.
type (
	lists   func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watches func(context.Context, metav1.ListOptions) (watch.Interface, error)
)

// typedFollower is an informer on a typed client.
func typedFollower[L runtime.Object](folder, how string, resource schema.GroupVersionResource, example runtime.Object, typed any, of interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}) (*follower, error) {
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return of.List(ctx, o) }
	return newFollower(folder, how, resource, example, typed, list, of.Watch)
}

func newFollower(folder, how string, resource schema.GroupVersionResource, example runtime.Object, client any, list lists, begin watches) (*follower, error) {
	name := how + "-" + resource.Resource
	file, err := os.Create(filepath.Join(folder, name+".book"))
	if err != nil {
		return nil, err
	}
	b := &book{file: file, out: bufio.NewWriter(file), resource: resource.Resource}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			found, err := list(ctx, options)
			if err == nil {
				b.list(options, found)
			}
			return found, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			begun, err := begin(ctx, options)
			if err != nil {
				return nil, err
			}
			return b.overheard(begun, options.SendInitialEvents != nil && *options.SendInitialEvents), nil
		},
	}
	f := &follower{name: name, book: b, tale: &tale{at: map[string]uint64{}}}
	f.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, client), example, 0, cache.Indexers{})
	_, err = f.informer.AddEventHandler(f.tale)
	return f, err
}

// follow has informers of several kinds follow everything until there is a line on stdin, and then what is last.
func follow(given order, h *host) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config := configuration(given, given.Wire)
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	// One that takes nothing but protobuf, so that events come in it.
	config = configuration(given, given.Wire)
	config.AcceptContentTypes = protobuf
	strict, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	bare, err := metadata.NewForConfig(plain(config))
	if err != nil {
		return err
	}
	free, err := dynamic.NewForConfig(plain(config))
	if err != nil {
		return err
	}
	var followers []*follower
	join := func(f *follower, problem error) {
		followers = append(followers, f)
		err = errors.Join(err, problem)
	}
	join(typedFollower(given.Follow, "go-typed", configMaps, &core.ConfigMap{}, typed, typed.CoreV1().ConfigMaps("")))
	join(typedFollower(given.Follow, "go-typed", secrets, &core.Secret{}, typed, typed.CoreV1().Secrets("")))
	join(typedFollower(given.Follow, "go-typed", leases, &coordination.Lease{}, typed, typed.CoordinationV1().Leases("")))
	join(typedFollower(given.Follow, "go-typed", endpointSlices, &discovery.EndpointSlice{}, typed, typed.DiscoveryV1().EndpointSlices("")))
	join(typedFollower(given.Follow, "go-protobuf", configMaps, &core.ConfigMap{}, strict, strict.CoreV1().ConfigMaps("")))
	join(typedFollower(given.Follow, "go-protobuf", leases, &coordination.Lease{}, strict, strict.CoordinationV1().Leases("")))
	for _, resource := range []schema.GroupVersionResource{configMaps, secrets, leases, endpointSlices} {
		of := bare.Resource(resource)
		join(newFollower(given.Follow, "go-metadata", resource, &metav1.PartialObjectMetadata{}, bare,
			func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return of.List(ctx, o) }, of.Watch))
	}
	of := free.Resource(configMaps)
	join(newFollower(given.Follow, "go-dynamic", configMaps, &unstructured.Unstructured{}, free,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return of.List(ctx, o) }, of.Watch))
	if err != nil {
		return err
	}
	for _, f := range followers {
		go f.informer.RunWithContext(ctx)
	}
	for _, f := range followers {
		if !cache.WaitForCacheSync(ctx.Done(), f.informer.HasSynced) {
			return fmt.Errorf("%s never had everything", f.name)
		}
	}
	h.tell(map[string]any{"following": len(followers)})
	if _, err := h.in.ReadString('\n'); err != nil {
		return err
	}
	for _, f := range followers {
		wrong := f.finish(patience)
		h.tell(verdict{Case: f.name, OK: wrong == "", Said: wrong})
	}
	cancel()
	return nil
}

// finish waits until what is last has come, and writes down what is in the cache. Says what is wrong, if something is.
func (f *follower) finish(within time.Duration) string {
	deadline := time.Now().Add(within)
	for {
		if _, found, _ := f.informer.GetStore().GetByKey(lastNamespace + "/" + lastName); found {
			break
		}
		if time.Now().After(deadline) {
			return "what was written last never came"
		}
		time.Sleep(betweenLooks)
	}
	f.book.mutex.Lock()
	defer f.book.mutex.Unlock()
	for _, object := range f.informer.GetStore().List() {
		_, _ = f.book.out.WriteString(f.book.entry("cached", object.(metav1.Object)))
	}
	var wrong []string
	if err := f.book.out.Flush(); err != nil {
		wrong = append(wrong, err.Error())
	}
	f.tale.mutex.Lock()
	defer f.tale.mutex.Unlock()
	if f.tale.wrong != "" {
		wrong = append(wrong, f.tale.wrong)
	}
	return strings.Join(wrong, "; ")
}
