package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
)

const (
	rangeCount = 1000
	// usable is what a /22 grants: all but its first and last address.
	usable = 1<<10 - 2
	// syncing is how long the allocator may take to see its ranges.
	syncing = 30 * time.Second
)

// random1000Ranges measures kube-apiserver's allocator over many ServiceCIDRs. A thousand /22 hold about as many
// addresses as the one /12 of random-full; the free ones are spread over them at random.
func random1000Ranges(report func(measurement)) error {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DisableAllocatorDualWrite) {
		return errors.New("this Kubernetes still writes to a bitmap beside the IPAddress objects: the work is another one")
	}
	var ranges []netip.Prefix
	for i := range uint32(rangeCount) {
		var base [4]byte
		binary.BigEndian.PutUint32(base[:], 10<<24|i<<10)
		ranges = append(ranges, netip.PrefixFrom(netip.AddrFrom4(base), 22))
	}
	taken := takenOf(ranges, 1000)
	store, bytes, err := heapOf(func() (*informer, error) { return holding(taken) })
	if err != nil {
		return err
	}
	for _, uncounted := range []bool{false, true} {
		allocator, err := metaAllocator(ranges, addresses{store, uncounted})
		if err != nil {
			return err
		}
		name, size := variant("metaallocator", uncounted)
		result, err := best(name, func() (timed, error) { return grant(size, allocator.AllocateNext, nil) })
		allocator.Destroy()
		if err != nil {
			return err
		}
		result.Bytes = bytes
		report(result)
	}
	return nil
}

// metaAllocator starts the allocator over the ranges and waits until it has taken all of them in.
func metaAllocator(ranges []netip.Prefix, known addresses) (*ipallocator.MetaAllocator, error) {
	cidrs := serviceCIDRs{newInformer()}
	allocator, err := ipallocator.NewMetaAllocator(client{}, cidrs, known, false, nil)
	if err != nil {
		return nil, err
	}
	var last *networkingv1.ServiceCIDR
	for i, within := range ranges {
		last = &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("range-%d", i)},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{within.String()}},
		}
		if err := cidrs.store.Add(last); err != nil {
			return nil, err
		}
	}
	// One event is enough: the allocator answers each by walking every ServiceCIDR of the store.
	cidrs.handler.OnAdd(last, true)
	for deadline := time.Now().Add(syncing); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if allocator.Free()+allocator.Used() == len(ranges)*usable {
			return allocator, nil
		}
	}
	allocator.Destroy()
	return nil, fmt.Errorf("the allocator did not take in %d ranges within %s", len(ranges), syncing)
}
