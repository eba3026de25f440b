package main

import (
	"runtime"
	"time"
)

const (
	// maxRounds bounds how often a work is repeated, and budget how long the repeats of one peer may take together.
	// The best round counts: noise on a shared machine only ever adds time.
	maxRounds = 40
	budget    = time.Second
)

// timed is one round: how long it took and how many operations that was.
type timed struct {
	elapsed time.Duration
	ops     int
}

// best repeats a round at least once, until maxRounds or the budget is reached, and keeps the fastest per operation.
func best(peer string, round func() (timed, error)) (measurement, error) {
	var result measurement
	deadline := time.Now().Add(budget)
	for i := 0; i < maxRounds && (i == 0 || time.Now().Before(deadline)); i++ {
		// What an earlier round left behind must not be collected on this round's time.
		runtime.GC()
		t, err := round()
		if err != nil {
			return measurement{}, err
		}
		ns := float64(t.elapsed.Nanoseconds()) / float64(t.ops)
		if i == 0 || ns < result.NsPerOp {
			result = measurement{Peer: peer, NsPerOp: ns, Ops: t.ops}
		}
	}
	return result, nil
}

// heapOf builds something and returns it with the heap that it holds: live bytes after a collection, before and after.
func heapOf[T any](build func() (T, error)) (T, uint64, error) {
	before := liveHeap()
	built, err := build()
	after := liveHeap()
	runtime.KeepAlive(built)
	if after < before {
		after = before
	}
	return built, after - before, err
}

func liveHeap() uint64 {
	// Twice: the first collection may only queue finalizers and move pooled objects to the victim cache.
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
