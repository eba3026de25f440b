package main

import (
	"fmt"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

var eventChecks = []check{
	{"events: the recorder of events.k8s.io makes a series of what repeats", eventSeries},
	{"events: the recorder of core counts what repeats, and aggregates what is alike", eventAggregation},
}

func (w *world) regarded() (*core.ConfigMap, error) {
	object, err := w.typed.CoreV1().ConfigMaps(w.namespace).Create(w.ctx, configMap("regarded", nil), meta.CreateOptions{})
	if err == nil {
		object.APIVersion, object.Kind = "v1", "ConfigMap"
	}
	return object, err
}

func eventSeries(w *world) (string, error) {
	object, err := w.regarded()
	if err != nil {
		return "", err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: w.typed.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(w.ctx); err != nil {
		return "", err
	}
	defer broadcaster.Shutdown()
	recorder := broadcaster.NewRecorder(scheme.Scheme, "clients")
	said := ""
	return said, w.until("a series", func() (bool, error) {
		recorder.Eventf(object, nil, core.EventTypeNormal, "Repeated", "Repeating", "again and again")
		list, err := w.typed.EventsV1().Events(w.namespace).List(w.ctx, meta.ListOptions{FieldSelector: "reason=Repeated"})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		if len(list.Items) > 1 {
			return false, fmt.Errorf("%d events where there should be one with a series", len(list.Items))
		}
		series := list.Items[0].Series
		return series != nil && series.Count >= 2, fmt.Errorf("the series is %v", series)
	})
}

func eventAggregation(w *world) (string, error) {
	object, err := w.regarded()
	if err != nil {
		return "", err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(w.ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{BurstSize: 1000}))
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: w.typed.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	recorder := broadcaster.NewRecorder(scheme.Scheme, core.EventSource{Component: "clients"})
	for range 5 {
		recorder.Event(object, core.EventTypeWarning, "Same", "the same words")
	}
	// Beyond ten that differ only in their words, one stands for all.
	for n := range 15 {
		recorder.Eventf(object, core.EventTypeWarning, "Alike", "number %d", n)
	}
	selected := func(reason string) meta.ListOptions {
		return meta.ListOptions{FieldSelector: fmt.Sprintf("involvedObject.name=regarded,involvedObject.kind=ConfigMap,reason=%s", reason)}
	}
	all := w.typed.CoreV1().Events(w.namespace)
	if err := w.until("five counted in one", func() (bool, error) {
		list, err := all.List(w.ctx, selected("Same"))
		if err != nil || len(list.Items) != 1 {
			return false, fmt.Errorf("%v %v", list, err)
		}
		return list.Items[0].Count == 5, fmt.Errorf("the count is %d", list.Items[0].Count)
	}); err != nil {
		return "", err
	}
	return "", w.until("nine of their own and one for the rest", func() (bool, error) {
		list, err := all.List(w.ctx, selected("Alike"))
		if err != nil || len(list.Items) != 10 {
			return false, fmt.Errorf("%v %v", list, err)
		}
		most := int32(0)
		for _, item := range list.Items {
			most = max(most, item.Count)
		}
		return most == 6, fmt.Errorf("one stands for %d", most)
	})
}
