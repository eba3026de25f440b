package main

import (
	"net"
	"time"

	"k8s.io/kubernetes/pkg/controller/nodeipam/ipam/cidrset"
)

// blocks is how many a fill grants: 2^16, the most that cidrset allows between an IPv6 range and its blocks.
const blocks = 1 << 16

func fillV4(report func(measurement)) error {
	return fillCIDRSet("10.0.0.0/8", 24, report)
}

func fillV6(report func(measurement)) error {
	return fillCIDRSet("2001:db8:1234::/48", 64, report)
}

// fillCIDRSet measures kube-controller-manager's bitmap, its Prometheus counters included: they are part of each
// AllocateNext and cannot be turned off.
func fillCIDRSet(within string, length int, report func(measurement)) error {
	fill := func() (*cidrset.CidrSet, error) {
		_, ipnet, err := net.ParseCIDR(within)
		if err != nil {
			return nil, err
		}
		set, err := cidrset.NewCIDRSet(ipnet, length)
		if err != nil {
			return nil, err
		}
		for range blocks {
			if _, err := set.AllocateNext(); err != nil {
				return nil, err
			}
		}
		return set, nil
	}
	result, err := best("cidrset", func() (timed, error) {
		start := time.Now()
		_, err := fill()
		return timed{time.Since(start), blocks}, err
	})
	if err != nil {
		return err
	}
	if _, result.Bytes, err = heapOf(fill); err != nil {
		return err
	}
	report(result)
	return nil
}
