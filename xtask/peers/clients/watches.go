package main

import (
	"errors"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

var watchChecks = []check{
	{"watch: from any revision, from none and from 0 it begins with what there is", watchFromNow},
	{"watch: from a revision it goes on after it, on every replica", watchFromRevision},
	{"watch: initial events end with a bookmark that says so", watchInitialEvents},
	{"watch: from a revision that is forgotten it is told 410", watchTooOld},
	{"watch: a list of a revision that is yet to come is a 504 that says so", listTooNew},
	{"watch: it ends when its time is up, after a bookmark", watchTimeout},
}

const someObjects = 5

// some creates a few ConfigMaps, and says at which revision the last one is.
func (w *world) some(prefix string, count int) (string, error) {
	var last string
	for n := range count {
		created, err := w.typed.CoreV1().ConfigMaps(w.namespace).Create(w.ctx, configMap(fmt.Sprintf("%s%03d", prefix, n), nil), meta.CreateOptions{})
		if err != nil {
			return "", err
		}
		last = created.ResourceVersion
	}
	return last, nil
}

// next is the next event of a watch.
func (w *world) next(events watch.Interface) (watch.Event, error) {
	select {
	case event, open := <-events.ResultChan():
		if !open {
			return event, errors.New("the watch ended")
		}
		return event, nil
	case <-w.ctx.Done():
		return watch.Event{}, errors.New("waited for an event")
	}
}

// added takes that many events, each of which is to be of an object that was added.
func (w *world) added(events watch.Interface, count int) error {
	for n := range count {
		event, err := w.next(events)
		if err != nil {
			return fmt.Errorf("event %d: %w", n, err)
		}
		if event.Type != watch.Added {
			return fmt.Errorf("event %d is %s %v", n, event.Type, event.Object)
		}
	}
	return nil
}

func watchFromNow(w *world) (string, error) {
	if _, err := w.some("a", someObjects); err != nil {
		return "", err
	}
	objects := w.typed.CoreV1().ConfigMaps(w.namespace)
	for n, from := range []string{"", "0"} {
		// What was just written may be missing at 0, which is any revision.
		if err := w.until("the cache to have what was written", func() (bool, error) {
			list, err := objects.List(w.ctx, meta.ListOptions{ResourceVersion: from})
			return err == nil && len(list.Items) == someObjects+n, err
		}); err != nil {
			return "", err
		}
		events, err := objects.Watch(w.ctx, meta.ListOptions{ResourceVersion: from})
		if err != nil {
			return "", err
		}
		if err := w.added(events, someObjects+n); err != nil {
			return "", fmt.Errorf("from %q: %w", from, err)
		}
		if _, err := w.some(fmt.Sprintf("live%d", n), 1); err != nil {
			return "", err
		}
		if err := w.added(events, 1); err != nil {
			return "", fmt.Errorf("after what there was, from %q: %w", from, err)
		}
		events.Stop()
	}
	return "", nil
}

func watchFromRevision(w *world) (string, error) {
	from, err := w.some("a", 1)
	if err != nil {
		return "", err
	}
	if _, err := w.some("b", someObjects); err != nil {
		return "", err
	}
	for replica := range w.replicas {
		client, err := w.on(replica)
		if err != nil {
			return "", err
		}
		events, err := client.CoreV1().ConfigMaps(w.namespace).Watch(w.ctx, meta.ListOptions{ResourceVersion: from})
		if err != nil {
			return "", err
		}
		last := revision(from)
		for n := range someObjects {
			event, err := w.next(events)
			if err != nil {
				return "", err
			}
			object, ok := event.Object.(*core.ConfigMap)
			if !ok || object.Name != fmt.Sprintf("b%03d", n) || revision(object.ResourceVersion) <= last {
				return "", fmt.Errorf("event %d on replica %d: %s %v", n, replica, event.Type, event.Object)
			}
			last = revision(object.ResourceVersion)
		}
		events.Stop()
	}
	return "", nil
}

func watchInitialEvents(w *world) (string, error) {
	for _, count := range []int{0, someObjects} {
		last, err := w.some("a", count)
		if err != nil {
			return "", err
		}
		events, err := w.typed.CoreV1().ConfigMaps(w.namespace).Watch(w.ctx, meta.ListOptions{
			SendInitialEvents: ptr.To(true), ResourceVersionMatch: meta.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
		})
		if err != nil {
			return "", err
		}
		if err := w.added(events, count); err != nil {
			return "", err
		}
		event, err := w.next(events)
		if err != nil {
			return "", err
		}
		bookmark, ok := event.Object.(*core.ConfigMap)
		if event.Type != watch.Bookmark || !ok || bookmark.Annotations[initialEventsEnd] != "true" {
			return "", fmt.Errorf("where the bookmark should be: %s %v", event.Type, event.Object)
		}
		if revision(bookmark.ResourceVersion) < revision(last) {
			return "", fmt.Errorf("the bookmark is at %s, what was written at %s", bookmark.ResourceVersion, last)
		}
		if _, err := w.some(fmt.Sprintf("live%d", count), 1); err != nil {
			return "", err
		}
		if err := w.added(events, 1); err != nil {
			return "", err
		}
		events.Stop()
		if err := w.typed.CoreV1().ConfigMaps(w.namespace).DeleteCollection(w.ctx, meta.DeleteOptions{}, meta.ListOptions{}); err != nil {
			return "", err
		}
	}
	return "", nil
}

func watchTooOld(w *world) (string, error) {
	from, err := w.some("a", 1)
	if err != nil {
		return "", err
	}
	if _, err := w.some("b", someObjects); err != nil {
		return "", err
	}
	if err := w.forget(); err != nil {
		return "", err
	}
	tried := []string{from}
	if w.control {
		// It has what is recent in a cache, however much etcd has forgotten.
		tried = append(tried, "1")
	}
	for _, from := range tried {
		events, err := w.typed.CoreV1().ConfigMaps(w.namespace).Watch(w.ctx, meta.ListOptions{ResourceVersion: from})
		if err == nil {
			var event watch.Event
			event, err = w.next(events)
			events.Stop()
			if err == nil {
				err = apierrors.FromObject(event.Object)
			}
		}
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return fmt.Sprintf("from revision %s: %v", from, err), nil
		}
	}
	return "", fmt.Errorf("no watch was told that it is too old")
}

func listTooNew(w *world) (string, error) {
	last, err := w.some("a", 1)
	if err != nil {
		return "", err
	}
	began := time.Now()
	later := fmt.Sprint(revision(last) + 1_000_000)
	// The answer says that one may try again, which a client does for long unless it is told not to.
	err = w.typed.CoreV1().RESTClient().Get().Namespace(w.namespace).Resource("configmaps").
		Param("resourceVersion", later).MaxRetries(0).Do(w.ctx).Error()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != 504 || !apierrors.HasStatusCause(err, meta.CauseTypeResourceVersionTooLarge) {
		return "", fmt.Errorf("the list says %v", err)
	}
	return fmt.Sprintf("after %.1f s: %v", time.Since(began).Seconds(), err), nil
}

func watchTimeout(w *world) (string, error) {
	last, err := w.some("a", 1)
	if err != nil {
		return "", err
	}
	events, err := w.typed.CoreV1().ConfigMaps(w.namespace).Watch(w.ctx, meta.ListOptions{
		ResourceVersion: last, AllowWatchBookmarks: true, TimeoutSeconds: ptr.To(int64(6)),
	})
	if err != nil {
		return "", err
	}
	if _, err := w.some("b", 1); err != nil {
		return "", err
	}
	if err := w.added(events, 1); err != nil {
		return "", err
	}
	bookmarks := 0
	for event := range events.ResultChan() {
		if event.Type != watch.Bookmark {
			return "", fmt.Errorf("%s %v", event.Type, event.Object)
		}
		bookmarks++
	}
	if bookmarks == 0 {
		return "", errors.New("no bookmark came before the end")
	}
	return "", w.ctx.Err()
}
