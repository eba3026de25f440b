package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"sort"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	networkingbeta "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	namespace = "wire"
	label     = "judge"
	patience  = 20 * time.Second
)

// markedFirst says whether one of the two servers marks such an object in a write of its own also when it goes at once:
// kube-apiserver does so with Pods, and ours with ranges of Services, so that nothing is given out of one that goes.
func markedFirst(object runtime.Object) bool {
	switch object.(type) {
	case *core.Pod, *networking.ServiceCIDR, *networkingbeta.ServiceCIDR:
		return true
	}
	return false
}

// now is how everything is deleted: Pods would wait for somebody to stop them.
var now = int64(0)

var labelled = metav1.ListOptions{LabelSelector: label + "=wire"}

// client is what all typed clients have.
type client[T object, L runtime.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
}

// collection is what most of them have.
type collection interface {
	DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
}

// object is a pointer to an object.
type object interface {
	runtime.Object
	metav1.Object
}

// kinds walks through every built-in kind.
func kinds(ctx context.Context, all *kubernetes.Clientset) {
	space := &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := all.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	account := &core.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := all.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !errors.IsAlreadyExists(err) {
		log.Fatal(err)
	}
	here := func(o object) { o.SetNamespace(namespace) }
	everywhere := func(object) {}
	names := []string{"a", "b", "c", "d"}

	walk(ctx, "ConfigMap", all.CoreV1().ConfigMaps(namespace), here, names, func() *core.ConfigMap {
		return &core.ConfigMap{Data: map[string]string{"k": "v", "empty": ""}, BinaryData: map[string][]byte{"b": {0, 255}}}
	}, `{"data":{"k":"patched"}}`)
	walk(ctx, "Secret", all.CoreV1().Secrets(namespace), here, names, func() *core.Secret {
		return &core.Secret{Data: map[string][]byte{"k": []byte("v"), "none": {}}, StringData: map[string]string{"s": "t"}}
	}, `{"data":{"k":"cGF0Y2hlZA=="}}`)
	walk(ctx, "ServiceAccount", all.CoreV1().ServiceAccounts(namespace), here, names, func() *core.ServiceAccount {
		no := false
		return &core.ServiceAccount{AutomountServiceAccountToken: &no, Secrets: []core.ObjectReference{{Name: "s"}}}
	}, `{"automountServiceAccountToken":true}`)
	walk(ctx, "Namespace", all.CoreV1().Namespaces(), everywhere, []string{"na", "nb", "nc", "nd"}, func() *core.Namespace {
		return &core.Namespace{}
	}, `{"metadata":{"annotations":{"k":"v"}}}`)
	walk(ctx, "Node", all.CoreV1().Nodes(), everywhere, names, func() *core.Node {
		return &core.Node{Spec: core.NodeSpec{PodCIDR: "10.1.0.0/24", PodCIDRs: []string{"10.1.0.0/24"}, ProviderID: "p"}}
	}, `{"spec":{"unschedulable":true}}`)
	walk(ctx, "Pod", all.CoreV1().Pods(namespace), here, names, func() *core.Pod {
		no := false
		return &core.Pod{Spec: core.PodSpec{
			AutomountServiceAccountToken: &no,
			Containers:                   []core.Container{{Name: "c", Image: "i", Ports: []core.ContainerPort{{ContainerPort: 80}}}},
		}}
	}, `{"metadata":{"annotations":{"k":"v"}}}`)
	walk(ctx, "Service", all.CoreV1().Services(namespace), here, names, func() *core.Service {
		return &core.Service{Spec: core.ServiceSpec{
			ClusterIP: "None", Selector: map[string]string{"a": "b"}, Ports: []core.ServicePort{{Name: "p", Port: 80}},
		}}
	}, `{"spec":{"publishNotReadyAddresses":true}}`)
	walk(ctx, "Service with an address", all.CoreV1().Services(namespace), here, names, func() *core.Service {
		return &core.Service{Spec: core.ServiceSpec{
			Selector: map[string]string{"a": "b"}, Ports: []core.ServicePort{{Name: "p", Port: 80}},
		}}
	}, `{"spec":{"sessionAffinity":"ClientIP"}}`)
	walk(ctx, "Service with a port of nodes", all.CoreV1().Services(namespace), here, names, func() *core.Service {
		return &core.Service{Spec: core.ServiceSpec{
			Type: core.ServiceTypeLoadBalancer, Ports: []core.ServicePort{{Name: "p", Port: 80}, {Name: "q", Port: 81}},
		}}
	}, `{"spec":{"type":"NodePort"}}`)
	walk(ctx, "Endpoints", all.CoreV1().Endpoints(namespace), here, names, func() *core.Endpoints {
		return &core.Endpoints{Subsets: []core.EndpointSubset{{
			Addresses: []core.EndpointAddress{{IP: "10.0.0.1"}}, Ports: []core.EndpointPort{{Port: 80}},
		}}}
	}, `{"metadata":{"annotations":{"k":"v"}}}`)
	walk(ctx, "Event", all.CoreV1().Events(namespace), here, names, func() *core.Event {
		return &core.Event{
			InvolvedObject: core.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "p"}, Reason: "R", Message: "m",
			Type: "Normal", Count: 2, FirstTimestamp: metav1.Unix(1700000000, 0), LastTimestamp: metav1.Unix(1700000001, 0),
		}
	}, `{"count":3}`)
	walk(ctx, "Event of events.k8s.io", all.EventsV1().Events(namespace), here, []string{"e", "f", "g", "h"}, func() *events.Event {
		return &events.Event{
			EventTime: metav1.NewMicroTime(time.Unix(1700000000, 123456000)), ReportingController: "a.b/c", Type: "Normal",
			ReportingInstance: "i", Action: "a", Reason: "r", Note: "n", Regarding: core.ObjectReference{Namespace: namespace},
		}
	}, `{"metadata":{"annotations":{"k":"v"}}}`)
	walk(ctx, "Lease", all.CoordinationV1().Leases(namespace), here, names, func() *coordination.Lease {
		holder, seconds, at := "h", int32(15), metav1.NewMicroTime(time.Unix(1700000000, 123456000))
		return &coordination.Lease{Spec: coordination.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at,
		}}
	}, `{"spec":{"leaseTransitions":1}}`)
	walk(ctx, "EndpointSlice", all.DiscoveryV1().EndpointSlices(namespace), here, names, func() *discovery.EndpointSlice {
		yes, port := true, int32(80)
		return &discovery.EndpointSlice{
			AddressType: discovery.AddressTypeIPv4,
			Endpoints: []discovery.Endpoint{{
				Addresses: []string{"10.0.0.1"}, Conditions: discovery.EndpointConditions{Ready: &yes},
			}},
			Ports: []discovery.EndpointPort{{Port: &port}},
		}
	}, `{"metadata":{"annotations":{"k":"v"}}}`)
	walk(ctx, "ServiceCIDR", all.NetworkingV1().ServiceCIDRs(), everywhere, names, func() *networking.ServiceCIDR {
		return &networking.ServiceCIDR{Spec: networking.ServiceCIDRSpec{CIDRs: []string{"192.168.0.0/24"}}}
	}, `{"metadata":{"annotations":{"k":"v"}}}`)
	walk(ctx, "ServiceCIDR of v1beta1", all.NetworkingV1beta1().ServiceCIDRs(), everywhere, []string{"e", "f", "g", "h"},
		func() *networkingbeta.ServiceCIDR {
			return &networkingbeta.ServiceCIDR{Spec: networkingbeta.ServiceCIDRSpec{CIDRs: []string{"192.168.1.0/24"}}}
		}, `{"metadata":{"annotations":{"k":"v"}}}`)
	addresses := []string{"10.9.0.1", "10.9.0.2", "10.9.0.3", "10.9.0.4"}
	walk(ctx, "IPAddress", all.NetworkingV1().IPAddresses(), everywhere, addresses, func() *networking.IPAddress {
		parent := &networking.ParentReference{Resource: "services", Namespace: "x", Name: "y"}
		return &networking.IPAddress{Spec: networking.IPAddressSpec{ParentRef: parent}}
	}, `{"metadata":{"annotations":{"k":"v"}}}`)
	more := []string{"10.9.1.1", "10.9.1.2", "10.9.1.3", "10.9.1.4"}
	walk(ctx, "IPAddress of v1beta1", all.NetworkingV1beta1().IPAddresses(), everywhere, more, func() *networkingbeta.IPAddress {
		parent := &networkingbeta.ParentReference{Resource: "services", Namespace: "x", Name: "y"}
		return &networkingbeta.IPAddress{Spec: networkingbeta.IPAddressSpec{ParentRef: parent}}
	}, `{"metadata":{"annotations":{"k":"v"}}}`)
}

// walk does to objects of one kind what can be done.
func walk[T object, L runtime.Object](
	ctx context.Context, kind string, c client[T, L], place func(object), names []string, create func() T, patch string,
) {
	fresh := func(name string) T {
		o := create()
		o.SetName(name)
		o.SetLabels(map[string]string{label: "wire"})
		place(o)
		return o
	}
	about := steps(kind)
	began, err := c.List(ctx, labelled)
	about.shows("list of nothing", began, err)
	if err != nil {
		return
	}
	from := labelled
	from.ResourceVersion = version(began)
	from.AllowWatchBookmarks = true
	watching, err := c.Watch(ctx, from)
	if err != nil {
		about.shows("watch", nil, err)
		return
	}
	defer watching.Stop()

	first, err := c.Create(ctx, fresh(names[0]), metav1.CreateOptions{})
	about.shows("create", first, err)
	for _, name := range names[1:3] {
		made, err := c.Create(ctx, fresh(name), metav1.CreateOptions{})
		about.shows("create another", made, err)
	}
	again, err := c.Create(ctx, fresh(names[0]), metav1.CreateOptions{})
	about.shows("create what is there", again, err)
	tried, err := c.Create(ctx, fresh(names[3]), metav1.CreateOptions{DryRun: []string{"All"}})
	about.shows("create as a dry run", tried, err)
	missing, err := c.Get(ctx, names[3], metav1.GetOptions{})
	about.shows("get what is not there", missing, err)
	bad, err := c.Create(ctx, fresh("No_"), metav1.CreateOptions{})
	about.shows("create what is not valid", bad, err)
	found, err := c.Get(ctx, names[0], metav1.GetOptions{})
	about.shows("get", found, err)
	if err != nil {
		return
	}

	whole, err := c.List(ctx, labelled)
	about.shows("list", whole, err)
	page := labelled
	page.Limit = 2
	for number := 1; ; number++ {
		some, err := c.List(ctx, page)
		about.shows(fmt.Sprintf("page %d", number), some, err)
		if err != nil {
			break
		}
		if page.Continue = next(some); page.Continue == "" {
			break
		}
	}
	wrong := labelled
	wrong.ResourceVersion = "nonsense"
	nothing, err := c.List(ctx, wrong)
	about.shows("list at nonsense", nothing, err)
	_, err = c.Watch(ctx, wrong)
	about.does("watch from nonsense", err)

	found.SetAnnotations(map[string]string{"updated": "yes"})
	changed, err := c.Update(ctx, found, metav1.UpdateOptions{})
	about.shows("update", changed, err)
	stale := found
	stale.SetResourceVersion("1")
	stale.SetAnnotations(map[string]string{"updated": "again"})
	refused, err := c.Update(ctx, stale, metav1.UpdateOptions{})
	about.shows("update of something old", refused, err)
	absent := fresh(names[3])
	absent.SetResourceVersion("1")
	refused, err = c.Update(ctx, absent, metav1.UpdateOptions{})
	about.shows("update of what is not there", refused, err)
	for _, how := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
		patched, err := c.Patch(ctx, names[1], how, []byte(patch), metav1.PatchOptions{})
		about.shows("patch as "+string(how), patched, err)
	}
	operations := []byte(`[{"op":"add","path":"/metadata/labels/more","value":"x"}]`)
	patched, err := c.Patch(ctx, names[1], types.JSONPatchType, operations, metav1.PatchOptions{})
	about.shows("patch by operations", patched, err)
	patched, err = c.Patch(ctx, names[3], types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	about.shows("patch what is not there", patched, err)
	patched, err = c.Patch(ctx, names[1], types.MergePatchType, []byte(`{`), metav1.PatchOptions{})
	about.shows("patch with nonsense", patched, err)

	about.does("delete as a dry run", c.Delete(ctx, names[0], metav1.DeleteOptions{GracePeriodSeconds: &now, DryRun: []string{"All"}}))
	other := types.UID("another")
	err = c.Delete(ctx, names[0], metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &other}})
	about.does("delete another", err)
	about.does("delete", c.Delete(ctx, names[0], metav1.DeleteOptions{GracePeriodSeconds: &now}))
	about.does("delete what is not there", c.Delete(ctx, names[3], metav1.DeleteOptions{GracePeriodSeconds: &now}))
	if all, ok := any(c).(collection); ok {
		about.does("delete all", all.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, labelled))
	} else {
		about.does("delete the second", c.Delete(ctx, names[1], metav1.DeleteOptions{GracePeriodSeconds: &now}))
		about.does("delete the third", c.Delete(ctx, names[2], metav1.DeleteOptions{GracePeriodSeconds: &now}))
	}
	left, err := c.List(ctx, labelled)
	about.shows("list of what is left", left, err)

	// The end is told by one more object.
	last := fresh(names[3])
	if _, err := c.Create(ctx, last, metav1.CreateOptions{}); err != nil {
		about.shows("create the last", last, err)
		return
	}
	follow(kind+": event", watching, names[3])
	initial := labelled
	yes := true
	initial.SendInitialEvents = &yes
	initial.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	initial.AllowWatchBookmarks = true
	streaming, err := c.Watch(ctx, initial)
	if err != nil {
		about.shows("watch with the state first", nil, err)
		return
	}
	defer streaming.Stop()
	follow(kind+": initial event", streaming, "")
	about.does("delete the last", c.Delete(ctx, names[3], metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// steps are what is done to one kind, or by one client.
type steps string

// shows prints what a step gave.
func (s steps) shows(step string, o runtime.Object, err error) {
	if err != nil {
		s.does(step, err)
		return
	}
	say(string(s)+": "+step, "%s", shown(o))
}

// does prints what came of a step that gives nothing.
func (s steps) does(step string, err error) {
	if err != nil {
		say(string(s)+": "+step, "%s", problem(err))
		return
	}
	say(string(s)+": "+step, "done")
}

// follow prints events until the object of that name comes, or the end of the initial ones where there is no name.
func follow(what string, watching watch.Interface, until string) {
	timeout := time.After(patience)
	// The objects of a collection go in any order.
	var gone []string
	tell := func() {
		sort.Strings(gone)
		for _, one := range gone {
			say(what, "%s", one)
		}
		gone = nil
	}
	for {
		select {
		case event, open := <-watching.ResultChan():
			if !open {
				say(what, "the watch ended")
				return
			}
			if event.Type == watch.Error {
				say(what, "ERROR %s", problem(errors.FromObject(event.Object)))
				return
			}
			accessor, err := meta.Accessor(event.Object)
			if err != nil {
				log.Fatal(err)
			}
			if event.Type == watch.Bookmark {
				if until == "" && accessor.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
					say(what, "%s %s", event.Type, shown(event.Object))
					return
				}
				continue
			}
			if markedFirst(event.Object) && accessor.GetDeletionTimestamp() != nil {
				if event.Type == watch.Modified {
					continue
				}
				accessor.SetDeletionTimestamp(nil)
				accessor.SetDeletionGracePeriodSeconds(nil)
				if generation := accessor.GetGeneration(); generation > 0 {
					accessor.SetGeneration(generation - 1)
				}
			}
			seen := fmt.Sprintf("%s %s", event.Type, shown(event.Object))
			if event.Type == watch.Deleted {
				gone = append(gone, seen)
				continue
			}
			tell()
			say(what, "%s", seen)
			if until != "" && accessor.GetName() == until {
				return
			}
		case <-timeout:
			say(what, "nothing for %v", patience)
			return
		}
	}
}

// problem is what a client knows of an error.
func problem(err error) string {
	status, ok := err.(errors.APIStatus)
	if !ok {
		return "error: " + err.Error()
	}
	s := status.Status()
	details := ""
	if s.Details != nil {
		text, _ := json.Marshal(s.Details)
		details = string(text)
	}
	return fmt.Sprintf("%d %s: %s %s", s.Code, s.Reason, s.Message, strings.TrimSuffix(details, "{}"))
}

func version(list runtime.Object) string {
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		log.Fatal(err)
	}
	return accessor.GetResourceVersion()
}

func next(list runtime.Object) string {
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		log.Fatal(err)
	}
	return accessor.GetContinue()
}

// shown is an object as JSON without what is another in each run, or is not this program's business.
func shown(o runtime.Object) string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		log.Fatal(err)
	}
	clean(content)
	if items, ok := content["items"].([]any); ok {
		for _, item := range items {
			clean(item.(map[string]any))
		}
	}
	text, err := json.Marshal(content)
	if err != nil {
		log.Fatal(err)
	}
	return string(text)
}

func clean(content map[string]any) {
	unstructured.RemoveNestedField(content, "metadata", "managedFields")
	if token, _, _ := unstructured.NestedString(content, "metadata", "continue"); token != "" {
		_ = unstructured.SetNestedField(content, "...", "metadata", "continue")
	}
}
