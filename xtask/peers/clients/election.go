package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

var electionChecks = []check{
	{"election: one leads at a time; when it dies the other takes over, over cuts", election},
}

// As kube-controller-manager has them, but for the period: who leads must not lose the lease to a machine that is busy.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 300 * time.Millisecond
)

// seats is who leads, as the candidates believe.
type seats struct {
	mutex   sync.Mutex
	leading map[string]bool
	both    bool
	changes chan string
}

func (s *seats) took(name string, leads bool) {
	s.mutex.Lock()
	s.leading[name] = leads
	if s.leading["one"] && s.leading["two"] {
		s.both = true
	}
	s.mutex.Unlock()
	if leads {
		s.changes <- name
	}
}

func election(w *world) (string, error) {
	s := &seats{leading: map[string]bool{}, changes: make(chan string, 10)}
	stop := map[string]context.CancelFunc{}
	ended := map[string]chan struct{}{}
	stand := func(name string, replica int, releases bool) error {
		client, err := w.on(replica)
		if err != nil {
			return err
		}
		if replica == 0 {
			client = w.typed
		}
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  meta.ObjectMeta{Name: "seat", Namespace: w.namespace},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		candidate, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
			ReleaseOnCancel: releases, Name: name,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { s.took(name, true) },
				OnStoppedLeading: func() { s.took(name, false) },
			},
		})
		if err != nil {
			return err
		}
		var ctx context.Context
		ctx, stop[name] = context.WithCancel(w.ctx)
		done := make(chan struct{})
		ended[name] = done
		go func() {
			candidate.Run(ctx)
			close(done)
		}()
		return nil
	}
	leader := func(expected string) error {
		select {
		case name := <-s.changes:
			if name != expected {
				return fmt.Errorf("%s leads where %s was to", name, expected)
			}
			return nil
		case <-w.ctx.Done():
			return fmt.Errorf("waited for %s to lead", expected)
		}
	}
	if err := stand("one", 0, false); err != nil {
		return "", err
	}
	if err := leader("one"); err != nil {
		return "", err
	}
	if err := stand("two", 1, true); err != nil {
		return "", err
	}
	for _, what := range []string{"cut", "switch", "cut"} {
		if err := w.host.ask(what); err != nil {
			return "", err
		}
		time.Sleep(retryPeriod)
	}
	select {
	case name := <-s.changes:
		return "", fmt.Errorf("a cut that was shorter than the lease made %s lead", name)
	default:
	}
	// It dies without a word: the other has to wait until the lease has run out.
	stop["one"]()
	<-ended["one"]
	died := time.Now()
	seat := func() (*coordination.Lease, error) {
		return w.typed.CoordinationV1().Leases(w.namespace).Get(w.ctx, "seat", meta.GetOptions{})
	}
	before, err := seat()
	if err != nil {
		return "", err
	}
	if err := leader("two"); err != nil {
		return "", err
	}
	waited := time.Since(died)
	after, err := seat()
	if err != nil {
		return "", err
	}
	// client-go sees of a renewal only in which second it was.
	if held := after.Spec.AcquireTime.Sub(before.Spec.RenewTime.Time); held < leaseDuration-time.Second {
		return "", fmt.Errorf("the second led %v after the first renewed its lease of %v", held, leaseDuration)
	}
	// It goes in order: the next need not wait.
	if err := stand("one", 0, false); err != nil {
		return "", err
	}
	stop["two"]()
	<-ended["two"]
	if err := leader("one"); err != nil {
		return "", err
	}
	lease, err := seat()
	if err != nil {
		return "", err
	}
	stop["one"]()
	<-ended["one"]
	if s.both {
		return "", errors.New("both led at one time")
	}
	if lease.Spec.LeaseTransitions == nil || *lease.Spec.LeaseTransitions < 1 || *lease.Spec.HolderIdentity != "one" {
		return "", fmt.Errorf("the lease says %v", lease.Spec)
	}
	return fmt.Sprintf("the second led %.1f s after the first died", waited.Seconds()), nil
}
