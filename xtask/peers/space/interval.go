package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"go.etcd.io/etcd/pkg/v3/adt"
)

// fillV4Interval fills the range the way KEP-20200617 proposes: etcd's interval tree, keyed by the first address and
// the one past the last as zero-padded decimal strings, so that one comparison serves both families. The KEP leaves
// open how the next candidate is found; here it is the block after the last one granted, which is as cheap as it gets.
func fillV4Interval(report func(measurement)) error {
	fill := func() (adt.IntervalTree, error) {
		tree := adt.NewIntervalTree()
		for i := range uint32(blocks) {
			block := net.IPNet{IP: make(net.IP, net.IPv4len), Mask: net.CIDRMask(24, 32)}
			binary.BigEndian.PutUint32(block.IP, 10<<24|i<<8)
			span := interval(&block)
			if tree.Intersects(span) {
				return nil, errors.New("a block that was never granted is in the tree")
			}
			tree.Insert(span, nil)
		}
		return tree, nil
	}
	result, err := best("adt", func() (timed, error) {
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

func interval(block *net.IPNet) adt.Interval {
	ones, bits := block.Mask.Size()
	begin := new(big.Int).SetBytes(block.IP)
	end := new(big.Int).Lsh(big.NewInt(1), uint(bits-ones))
	end.Add(begin, end)
	return adt.NewStringInterval(fmt.Sprintf("%0*d", bits, begin), fmt.Sprintf("%0*d", bits, end))
}
