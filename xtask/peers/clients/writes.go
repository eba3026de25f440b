package main

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/util/retry"
)

var writeChecks = []check{
	{"writes: a counter that all increment on all replicas loses nothing", counter},
	{"writes: typed apply, its conflicts, and what is withdrawn", typedApply},
	{"writes: typed apply of a list with keys, and of a status", applyList},
	{"writes: JSON, merge and strategic patches", patches},
	{"writes: deletecollection takes what is selected", deleteCollection},
}

const (
	countingClients = 4
	countedEach     = 25
)

func counter(w *world) (string, error) {
	if _, err := w.typed.CoreV1().ConfigMaps(w.namespace).Create(w.ctx, configMap("counter", map[string]string{"n": "0"}), meta.CreateOptions{}); err != nil {
		return "", err
	}
	var wait sync.WaitGroup
	var mutex sync.Mutex
	var failure error
	conflicts := 0
	backoff := retry.DefaultBackoff
	backoff.Steps = 100
	for n := range countingClients {
		client, err := w.on(n)
		if err != nil {
			return "", err
		}
		objects := client.CoreV1().ConfigMaps(w.namespace)
		wait.Go(func() {
			for range countedEach {
				err := retry.RetryOnConflict(backoff, func() error {
					object, err := objects.Get(w.ctx, "counter", meta.GetOptions{})
					if err != nil {
						return err
					}
					now, err := strconv.Atoi(object.Data["n"])
					if err != nil {
						return err
					}
					object.Data["n"] = strconv.Itoa(now + 1)
					_, err = objects.Update(w.ctx, object, meta.UpdateOptions{})
					mutex.Lock()
					defer mutex.Unlock()
					if apierrors.IsConflict(err) {
						conflicts++
					}
					return err
				})
				if err != nil {
					mutex.Lock()
					failure = err
					mutex.Unlock()
					return
				}
			}
		})
	}
	wait.Wait()
	if failure != nil {
		return "", failure
	}
	object, err := w.typed.CoreV1().ConfigMaps(w.namespace).Get(w.ctx, "counter", meta.GetOptions{})
	if err != nil {
		return "", err
	}
	if object.Data["n"] != strconv.Itoa(countingClients*countedEach) {
		return "", fmt.Errorf("counted to %s", object.Data["n"])
	}
	return fmt.Sprintf("%d conflicts", conflicts), nil
}

func typedApply(w *world) (string, error) {
	objects := w.typed.CoreV1().ConfigMaps(w.namespace)
	mine := meta.ApplyOptions{FieldManager: "mine"}
	applied, err := objects.Apply(w.ctx, applycore.ConfigMap("a", w.namespace).WithData(map[string]string{"x": "1", "y": "1"}), mine)
	if err != nil {
		return "", err
	}
	again, err := objects.Apply(w.ctx, applycore.ConfigMap("a", w.namespace).WithData(map[string]string{"x": "1", "y": "1"}), mine)
	if err != nil || again.ResourceVersion != applied.ResourceVersion {
		return "", fmt.Errorf("the same again: %v %v", again, err)
	}
	theirs := applycore.ConfigMap("a", w.namespace).WithData(map[string]string{"x": "2"})
	_, err = objects.Apply(w.ctx, theirs, meta.ApplyOptions{FieldManager: "theirs"})
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || len(status.Status().Details.Causes) != 1 ||
		status.Status().Details.Causes[0].Type != meta.CauseTypeFieldManagerConflict || status.Status().Details.Causes[0].Field != ".data.x" {
		return "", fmt.Errorf("what should conflict: %v", err)
	}
	if _, err := objects.Apply(w.ctx, theirs, meta.ApplyOptions{FieldManager: "theirs", Force: true}); err != nil {
		return "", err
	}
	// Withdrawn: y was only mine, x is theirs now.
	left, err := objects.Apply(w.ctx, applycore.ConfigMap("a", w.namespace), mine)
	if err != nil || len(left.Data) != 1 || left.Data["x"] != "2" {
		return "", fmt.Errorf("after what was withdrawn: %v %v", left, err)
	}
	extracted, err := applycore.ExtractConfigMap(left, "theirs")
	if err != nil || extracted.Data["x"] != "2" {
		return "", fmt.Errorf("extracted: %v %v", extracted, err)
	}
	return "", nil
}

func applyList(w *world) (string, error) {
	services := w.typed.CoreV1().Services(w.namespace)
	port := func(name string, number int32) *applycore.ServicePortApplyConfiguration {
		return applycore.ServicePort().WithName(name).WithPort(number).WithProtocol(core.ProtocolTCP)
	}
	headless := func(ports ...*applycore.ServicePortApplyConfiguration) *applycore.ServiceApplyConfiguration {
		return applycore.Service("web", w.namespace).WithSpec(applycore.ServiceSpec().WithClusterIP(core.ClusterIPNone).WithPorts(ports...))
	}
	if _, err := services.Apply(w.ctx, headless(port("a", 80)), meta.ApplyOptions{FieldManager: "one"}); err != nil {
		return "", err
	}
	both, err := services.Apply(w.ctx, headless(port("b", 81)), meta.ApplyOptions{FieldManager: "two"})
	if err != nil || len(both.Spec.Ports) != 2 {
		return "", fmt.Errorf("ports of both: %v %v", both, err)
	}
	one, err := services.Apply(w.ctx, headless(), meta.ApplyOptions{FieldManager: "one"})
	if err != nil || len(one.Spec.Ports) != 1 || one.Spec.Ports[0].Port != 81 {
		return "", fmt.Errorf("after one withdrew: %v %v", one, err)
	}
	status := applycore.Service("web", w.namespace).WithStatus(applycore.ServiceStatus().
		WithConditions(applymeta.Condition().WithType("Well").WithStatus(meta.ConditionTrue).WithReason("Because").
			WithMessage("").WithLastTransitionTime(meta.Now())))
	told, err := services.ApplyStatus(w.ctx, status, meta.ApplyOptions{FieldManager: "three"})
	if err != nil || len(told.Status.Conditions) != 1 || len(told.Spec.Ports) != 1 {
		return "", fmt.Errorf("status: %v %v", told, err)
	}
	return "", nil
}

func patches(w *world) (string, error) {
	services := w.typed.CoreV1().Services(w.namespace)
	service := &core.Service{ObjectMeta: meta.ObjectMeta{Name: "web"},
		Spec: core.ServiceSpec{ClusterIP: core.ClusterIPNone, Ports: []core.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81}}}}
	if _, err := services.Create(w.ctx, service, meta.CreateOptions{}); err != nil {
		return "", err
	}
	for n, step := range []struct {
		kind  types.PatchType
		patch string
		right func(*core.Service) bool
	}{
		{types.JSONPatchType, `[{"op":"test","path":"/spec/ports/0/port","value":80},{"op":"replace","path":"/spec/ports/0/port","value":90}]`,
			func(s *core.Service) bool { return s.Spec.Ports[0].Port == 90 }},
		{types.MergePatchType, `{"metadata":{"labels":{"a":"b"}}}`,
			func(s *core.Service) bool { return s.Labels["a"] == "b" && len(s.Spec.Ports) == 2 }},
		{types.StrategicMergePatchType, `{"spec":{"ports":[{"port":81,"name":"c"}]}}`,
			func(s *core.Service) bool { return len(s.Spec.Ports) == 2 && s.Spec.Ports[1].Name == "c" }},
		{types.StrategicMergePatchType, `{"spec":{"ports":[{"port":81,"$patch":"delete"}]}}`,
			func(s *core.Service) bool { return len(s.Spec.Ports) == 1 }},
	} {
		patched, err := services.Patch(w.ctx, "web", step.kind, []byte(step.patch), meta.PatchOptions{})
		if err != nil || !step.right(patched) {
			return "", fmt.Errorf("patch %d: %v %v", n, patched, err)
		}
	}
	_, failing := services.Patch(w.ctx, "web", types.JSONPatchType, []byte(`[{"op":"test","path":"/spec/ports/0/port","value":1}]`), meta.PatchOptions{})
	_, malformed := services.Patch(w.ctx, "web", types.MergePatchType, []byte(`{"metadata":`), meta.PatchOptions{})
	_, stale := services.Patch(w.ctx, "web", types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"1","labels":{"a":"c"}}}`), meta.PatchOptions{})
	if !apierrors.IsInvalid(failing) || !apierrors.IsBadRequest(malformed) || !apierrors.IsConflict(stale) {
		return "", fmt.Errorf("refusals: %v; %v; %v", failing, malformed, stale)
	}
	return "", nil
}

func deleteCollection(w *world) (string, error) {
	objects := w.typed.CoreV1().ConfigMaps(w.namespace)
	for n := range 6 {
		object := configMap(fmt.Sprintf("a%d", n), nil)
		object.Labels = map[string]string{"half": fmt.Sprint(n % 2)}
		if _, err := objects.Create(w.ctx, object, meta.CreateOptions{}); err != nil {
			return "", err
		}
	}
	for _, step := range []struct {
		selected meta.ListOptions
		left     int
	}{
		{meta.ListOptions{LabelSelector: "half=1,never"}, 6},
		{meta.ListOptions{LabelSelector: "half=1"}, 3},
		{meta.ListOptions{FieldSelector: "metadata.name=a0"}, 2},
		{meta.ListOptions{LabelSelector: "half!=1", FieldSelector: "metadata.name!=a2"}, 1},
		{meta.ListOptions{}, 0},
	} {
		if err := objects.DeleteCollection(w.ctx, meta.DeleteOptions{}, step.selected); err != nil {
			return "", err
		}
		list, err := objects.List(w.ctx, meta.ListOptions{LabelSelector: "half"})
		if err != nil || len(list.Items) != step.left {
			return "", fmt.Errorf("after %v: %v %v", step.selected, list, err)
		}
	}
	return "", nil
}
