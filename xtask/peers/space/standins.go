package main

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	networkingv1listers "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
)

// What stands in for the API server around kube-apiserver's allocators. All of it errs in the peer's favour:
//
//   - Create answers success at once and stores nothing, so no request, no encoding and no etcd is on the clock, and
//     the fill stays exactly as it was set up without releasing anything;
//   - the informer's store is the real one, filled directly, in sync from the start and never behind.
//
// A nil interface is embedded for the methods that the allocators do not call.

type client struct {
	networkingv1client.NetworkingV1Interface
}

func (client) IPAddresses() networkingv1client.IPAddressInterface { return addressClient{} }

type addressClient struct {
	networkingv1client.IPAddressInterface
}

func (addressClient) Create(_ context.Context, address *networkingv1.IPAddress, _ metav1.CreateOptions) (*networkingv1.IPAddress, error) {
	return address, nil
}

// informer is synced from the start and hands each event handler over to whoever fills the store.
type informer struct {
	cache.SharedIndexInformer
	store   cache.Indexer
	handler cache.ResourceEventHandler
}

func newInformer() *informer {
	// The index by namespace is what the generated informers keep, also for kinds that have none.
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return &informer{store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)}
}

func (i *informer) HasSynced() bool { return true }

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return nil, nil
}

type addresses struct {
	*informer
	// uncounted hides the objects from List, and from List only: see searchOnly.
	uncounted bool
}

func (a addresses) Informer() cache.SharedIndexInformer { return a.informer }

func (a addresses) Lister() networkingv1listers.IPAddressLister {
	lister := networkingv1listers.NewIPAddressLister(a.store)
	if a.uncounted {
		return searchOnly{lister}
	}
	return lister
}

// searchOnly answers Get and lists nothing. The allocators count every IPAddress of the cluster twice per allocation
// to feed two gauges, even when metrics are off. With this lister only the search for a free address remains, which is
// the figure to hold against an engine that keeps no gauges.
type searchOnly struct {
	networkingv1listers.IPAddressLister
}

func (searchOnly) List(labels.Selector) ([]*networkingv1.IPAddress, error) { return nil, nil }

type serviceCIDRs struct {
	*informer
}

func (s serviceCIDRs) Informer() cache.SharedIndexInformer { return s.informer }

func (s serviceCIDRs) Lister() networkingv1listers.ServiceCIDRLister {
	return networkingv1listers.NewServiceCIDRLister(s.store)
}
