package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
)

const (
	// batch is how many addresses are granted between two looks at the clock. It is small beside the free addresses
	// of every work here, so that the fill is the one named.
	batch = 64
	// slowBatch is the same for a peer that needs more than a second for one grant.
	slowBatch = 3
	// spell is the least time that one round of batches runs.
	spell = 300 * time.Millisecond
)

var serviceRange = netip.MustParsePrefix("10.96.0.0/12")

// randomFull asks both allocators of kube-apiserver for one more address of a range with one address in 1,000 free.
func randomFull(report func(measurement)) error {
	taken := takenOf([]netip.Prefix{serviceRange}, 1000)
	if err := fullBitmap(taken, report); err != nil {
		return err
	}
	return fullIPAddress(taken, report)
}

// fullBitmap measures the bitmap in memory: the allocator before 1.33, without the object that it wrote per grant.
func fullBitmap(taken []netip.Addr, report func(measurement)) error {
	bitmap, bytes, err := heapOf(func() (*ipallocator.Range, error) {
		bitmap, err := ipallocator.NewInMemory(ipnet(serviceRange))
		if err != nil {
			return nil, err
		}
		// The highest first: the bitmap then reaches its full length at once and is not copied as it grows.
		for i := len(taken) - 1; i >= 0; i-- {
			if err := bitmap.Allocate(taken[i].AsSlice()); err != nil {
				return nil, fmt.Errorf("%s: %w", taken[i], err)
			}
		}
		return bitmap, nil
	})
	if err != nil {
		return err
	}
	result, err := best("bitmap", func() (timed, error) { return grant(batch, bitmap.AllocateNext, bitmap.Release) })
	if err != nil {
		return err
	}
	result.Bytes = bytes
	report(result)
	return nil
}

// fullIPAddress measures the allocator that keeps one IPAddress object per grant, as shipped and by its search alone.
func fullIPAddress(taken []netip.Addr, report func(measurement)) error {
	store, bytes, err := heapOf(func() (*informer, error) { return holding(taken) })
	if err != nil {
		return err
	}
	for _, uncounted := range []bool{false, true} {
		allocator, err := ipallocator.NewIPAllocator(ipnet(serviceRange), client{}, addresses{store, uncounted})
		if err != nil {
			return err
		}
		name, size := variant("ipaddress", uncounted)
		result, err := best(name, func() (timed, error) { return grant(size, allocator.AllocateNext, nil) })
		if err != nil {
			return err
		}
		result.Bytes = bytes
		report(result)
	}
	return nil
}

// grant times batches of that size until the spell is over; what was granted is given back off the clock. Without a
// release the grants are not stored at all: see client.
func grant(size int, next func() (net.IP, error), release func(net.IP) error) (timed, error) {
	var total timed
	granted := make([]net.IP, size)
	for total.elapsed < spell {
		start := time.Now()
		for i := range granted {
			ip, err := next()
			if err != nil {
				return timed{}, err
			}
			granted[i] = ip
		}
		total.elapsed += time.Since(start)
		total.ops += size
		if release == nil {
			continue
		}
		for _, ip := range granted {
			if err := release(ip); err != nil {
				return timed{}, err
			}
		}
	}
	return total, nil
}

// takenOf is every usable address of the IPv4 ranges except one in `oneFreeIn`, chosen at random from a fixed seed.
func takenOf(ranges []netip.Prefix, oneFreeIn int) []netip.Addr {
	var all []netip.Addr
	for _, within := range ranges {
		// Neither the first address nor the last is usable, so each address has a next inside the range.
		for ip := within.Addr().Next(); within.Contains(ip.Next()); ip = ip.Next() {
			all = append(all, ip)
		}
	}
	free := make(map[int]bool)
	dice := rand.New(rand.NewPCG(1, 2))
	for len(free) < len(all)/oneFreeIn {
		free[dice.IntN(len(all))] = true
	}
	taken := all[:0]
	for i, ip := range all {
		if !free[i] {
			taken = append(taken, ip)
		}
	}
	return taken
}

// holding is an informer with one IPAddress per address, of the size that the allocator itself would have created,
// except that they share their labels and parent: a million copies of both would only make the peer slower.
func holding(taken []netip.Addr) (*informer, error) {
	labels := map[string]string{
		networkingv1.LabelIPAddressFamily: "IPv4",
		networkingv1.LabelManagedBy:       ipallocator.ControllerName,
	}
	parent := &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "bench"}
	store := newInformer()
	for _, ip := range taken {
		address := &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: ip.String(), Labels: labels},
			Spec:       networkingv1.IPAddressSpec{ParentRef: parent},
		}
		if err := store.store.Add(address); err != nil {
			return nil, err
		}
	}
	return store, nil
}

// variant is the peer's name and batch size with and without the counting that searchOnly takes out.
func variant(peer string, uncounted bool) (string, int) {
	if uncounted {
		return peer + "-search", batch
	}
	return peer, slowBatch
}

func ipnet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}
