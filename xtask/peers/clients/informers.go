package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

var informerChecks = []check{
	{"informers: typed ones of a factory follow over cuts and replicas", typedInformers},
	{"informers: dynamic ones follow over cuts and replicas", dynamicInformers},
	{"informers: metadata ones follow over cuts and replicas", metadataInformers},
	{"informers: a field selector lets in what matches, and lets go what no longer does", selectingInformers},
}

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	leases     = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

const (
	followedWrites = 250
	followedNames  = 30
	cutEvery       = 25
)

// watchListOn is whether client-go was told to list by watching, as it does by itself.
func watchListOn() bool { return os.Getenv("KUBE_FEATURE_WatchListClient") != "false" }

func typedInformers(w *world) (string, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(w.typed, 0, informers.WithNamespace(w.namespace))
	followed := map[string]cache.SharedIndexInformer{
		"configmaps": factory.Core().V1().ConfigMaps().Informer(),
		"secrets":    factory.Core().V1().Secrets().Informer(),
		"leases":     factory.Coordination().V1().Leases().Informer(),
	}
	return w.followed(followed, factory.Start)
}

func dynamicInformers(w *world) (string, error) {
	client, err := w.dynamic()
	if err != nil {
		return "", err
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, w.namespace, nil)
	followed := map[string]cache.SharedIndexInformer{
		"configmaps": factory.ForResource(configMaps).Informer(),
		"secrets":    factory.ForResource(secrets).Informer(),
		"leases":     factory.ForResource(leases).Informer(),
	}
	return w.followed(followed, factory.Start)
}

func metadataInformers(w *world) (string, error) {
	client, err := w.metadata()
	if err != nil {
		return "", err
	}
	factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, w.namespace, nil)
	followed := map[string]cache.SharedIndexInformer{
		"configmaps": factory.ForResource(configMaps).Informer(),
		"secrets":    factory.ForResource(secrets).Informer(),
		"leases":     factory.ForResource(leases).Informer(),
	}
	return w.followed(followed, factory.Start)
}

// followed writes to all replicas while the wire is cut and led from one to another, and holds the caches against the server.
func (w *world) followed(followed map[string]cache.SharedIndexInformer, start func(<-chan struct{})) (string, error) {
	var tales []*tale
	for _, informer := range followed {
		t := &tale{at: map[string]uint64{}}
		tales = append(tales, t)
		if _, err := informer.AddEventHandler(t); err != nil {
			return "", err
		}
	}
	if err := w.write(10); err != nil {
		return "", err
	}
	start(w.ctx.Done())
	for name, informer := range followed {
		if !cache.WaitForCacheSync(w.ctx.Done(), informer.HasSynced) {
			return "", fmt.Errorf("the informer of %s never had everything", name)
		}
	}
	if err := w.write(followedWrites); err != nil {
		return "", err
	}
	for name, informer := range followed {
		if err := w.until("the cache of "+name+" to be what the server has", func() (bool, error) {
			return w.equal(name, informer.GetStore())
		}); err != nil {
			return "", err
		}
	}
	events := 0
	for _, t := range tales {
		t.mutex.Lock()
		events += t.events
		wrong := t.wrong
		t.mutex.Unlock()
		if wrong != "" {
			return "", fmt.Errorf("a handler was told a wrong tale: %s", wrong)
		}
	}
	w.seen.mutex.Lock()
	defer w.seen.mutex.Unlock()
	if on := w.seen.watchList > 0; on != watchListOn() {
		return "", fmt.Errorf("listing by watching: %t, and it should be %t", on, watchListOn())
	}
	return fmt.Sprintf("%d events; %d watches began with what there is, %d went on, %d lists",
		events, w.seen.watchList, w.seen.watches, w.seen.lists), nil
}

// write creates, updates and deletes objects of three kinds at random on all replicas, and has the wire cut now and then.
func (w *world) write(writes int) error {
	for n := range writes {
		client, err := w.on(n)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("n%d", rand.IntN(followedNames))
		object := meta.ObjectMeta{Name: name, Labels: map[string]string{"write": fmt.Sprint(n)}}
		deleted := rand.IntN(4) == 0
		switch rand.IntN(3) {
		case 0:
			objects := client.CoreV1().ConfigMaps(w.namespace)
			err = put(w, deleted, &core.ConfigMap{ObjectMeta: object}, objects)
		case 1:
			objects := client.CoreV1().Secrets(w.namespace)
			err = put(w, deleted, &core.Secret{ObjectMeta: object}, objects)
		default:
			objects := client.CoordinationV1().Leases(w.namespace)
			err = put(w, deleted, &coordination.Lease{ObjectMeta: object}, objects)
		}
		if err != nil {
			return err
		}
		if n%cutEvery == cutEvery-1 {
			what := []string{"cut", "switch"}[n/cutEvery%2]
			if err := w.host.ask(what); err != nil {
				return err
			}
		}
	}
	return nil
}

// equal says whether a cache has the objects and revisions that a list of the server has.
func (w *world) equal(resource string, store cache.Store) (bool, error) {
	kind := map[string]schema.GroupVersionResource{"configmaps": configMaps, "secrets": secrets, "leases": leases}[resource]
	client, err := w.dynamic()
	if err != nil {
		return false, err
	}
	list, err := client.Resource(kind).Namespace(w.namespace).List(w.ctx, meta.ListOptions{})
	if err != nil {
		return false, err
	}
	cached := store.List()
	if len(cached) != len(list.Items) {
		return false, fmt.Errorf("%d in the cache, %d in the list", len(cached), len(list.Items))
	}
	for _, item := range list.Items {
		object, found, err := store.GetByKey(w.namespace + "/" + item.GetName())
		if err != nil || !found {
			return false, fmt.Errorf("%s is not in the cache: %v", item.GetName(), err)
		}
		if has := object.(meta.Object).GetResourceVersion(); has != item.GetResourceVersion() {
			return false, fmt.Errorf("%s is cached at %s, listed at %s", item.GetName(), has, item.GetResourceVersion())
		}
	}
	return true, nil
}

// tale is what a handler is told: objects come, change and go, and revisions of an object only grow.
type tale struct {
	mutex  sync.Mutex
	at     map[string]uint64
	events int
	wrong  string
}

func (t *tale) OnAdd(object any, _ bool) { t.told(object, false, false) }

func (t *tale) OnUpdate(_, object any) { t.told(object, true, false) }

func (t *tale) OnDelete(object any) { t.told(object, true, true) }

func (t *tale) told(object any, known, gone bool) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	o := object.(meta.Object)
	now := revision(o.GetResourceVersion())
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.events++
	key := o.GetNamespace() + "/" + o.GetName()
	before, there := t.at[key]
	switch {
	case there != known:
		t.wrong = fmt.Sprintf("%s was there: %t, and the event says %t", key, there, known)
	case now < before:
		t.wrong = fmt.Sprintf("%s went from %d to %d", key, before, now)
	}
	t.at[key] = now
	if gone {
		delete(t.at, key)
	}
}

func selectingInformers(w *world) (string, error) {
	named := informers.NewSharedInformerFactoryWithOptions(w.typed, 0, informers.WithNamespace(w.namespace),
		informers.WithTweakListOptions(func(o *meta.ListOptions) { o.FieldSelector = "metadata.name=one" }))
	typed := informers.NewSharedInformerFactoryWithOptions(w.typed, 0, informers.WithNamespace(w.namespace),
		informers.WithTweakListOptions(func(o *meta.ListOptions) { o.FieldSelector = "type=kind/a" }))
	labelled := informers.NewSharedInformerFactoryWithOptions(w.typed, 0, informers.WithNamespace(w.namespace),
		informers.WithTweakListOptions(func(o *meta.ListOptions) { o.LabelSelector = "side=left" }))
	one, ofKind, left := named.Core().V1().ConfigMaps().Informer(), typed.Core().V1().Secrets().Informer(), labelled.Core().V1().ConfigMaps().Informer()
	for _, factory := range []informers.SharedInformerFactory{named, typed, labelled} {
		factory.Start(w.ctx.Done())
		factory.WaitForCacheSync(w.ctx.Done())
	}
	maps, hidden := w.typed.CoreV1().ConfigMaps(w.namespace), w.typed.CoreV1().Secrets(w.namespace)
	for _, name := range []string{"one", "two"} {
		object := configMap(name, nil)
		object.Labels = map[string]string{"side": "left"}
		if _, err := maps.Create(w.ctx, object, meta.CreateOptions{}); err != nil {
			return "", err
		}
		secret := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: name}, Type: core.SecretType("kind/" + map[string]string{"one": "a", "two": "b"}[name])}
		if _, err := hidden.Create(w.ctx, secret, meta.CreateOptions{}); err != nil {
			return "", err
		}
	}
	holds := func(store cache.Store, names ...string) func() (bool, error) {
		return func() (bool, error) {
			for _, name := range names {
				if _, found, _ := store.GetByKey(w.namespace + "/" + name); !found {
					return false, fmt.Errorf("no %s", name)
				}
			}
			return len(store.List()) == len(names), fmt.Errorf("%d in the cache", len(store.List()))
		}
	}
	if err := w.until("both with the label", holds(left.GetStore(), "one", "two")); err != nil {
		return "", err
	}
	object := configMap("two", nil)
	object.Labels = map[string]string{"side": "right"}
	if _, err := maps.Update(w.ctx, object, meta.UpdateOptions{}); err != nil {
		return "", err
	}
	for what, holds := range map[string]func() (bool, error){
		"one by its name":             holds(one.GetStore(), "one"),
		"one by its type":             holds(ofKind.GetStore(), "one"),
		"the one that kept its label": holds(left.GetStore(), "one"),
	} {
		if err := w.until(what, holds); err != nil {
			return "", err
		}
	}
	// What is not followed must stay so for a moment.
	time.Sleep(betweenLooks)
	if len(one.GetStore().List())+len(ofKind.GetStore().List()) != 2 {
		return "", fmt.Errorf("something got in that was not selected")
	}
	return "", nil
}
