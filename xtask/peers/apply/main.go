// Command apply answers, line by line, what the code that kube-apiserver is made of makes of an apply or an update, so that
// ours can be held against it.
//
// In: {"operation":"apply|update","kind":"Service","live":{...},"object":{...},"manager":"a","subresource":"","force":false,
// "ignored":[["status"]]}; no live object is null.
// Out: {"object":{...},"error":"","code":0,"causes":[...]}; a time in managedFields that is the clock's is "now".
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	networking "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

const longestLine = 64 << 20

// Every time in a question is long before this one, every time of the clock after it.
var clockBegins = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

var kinds = map[string]schema.GroupVersion{
	"ConfigMap":     core.SchemeGroupVersion,
	"EndpointSlice": discovery.SchemeGroupVersion,
	"Endpoints":     core.SchemeGroupVersion,
	"Node":          core.SchemeGroupVersion,
	"Pod":           core.SchemeGroupVersion,
	"Secret":        core.SchemeGroupVersion,
	"Service":       core.SchemeGroupVersion,
	"ServiceCIDR":   networking.SchemeGroupVersion,
}

type question struct {
	Operation   string          `json:"operation"`
	Kind        string          `json:"kind"`
	Live        json.RawMessage `json:"live"`
	Object      json.RawMessage `json:"object"`
	Manager     string          `json:"manager"`
	Subresource string          `json:"subresource"`
	Force       bool            `json:"force"`
	Ignored     [][]string      `json:"ignored"`
}

type answer struct {
	Object map[string]any     `json:"object"`
	Error  string             `json:"error"`
	Code   int32              `json:"code"`
	Causes []meta.StatusCause `json:"causes"`
}

type judge struct {
	scheme    *runtime.Scheme
	converter managedfields.TypeConverter
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{core.AddToScheme, discovery.AddToScheme, networking.AddToScheme} {
		check(add(scheme))
	}
	judge := judge{scheme, applyconfigurations.NewTypeConverter(scheme)}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var asked question
		check(json.Unmarshal(lines.Bytes(), &asked))
		line, err := json.Marshal(judge.answer(asked))
		check(err)
		fmt.Printf("%s\n", line)
	}
	check(lines.Err())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (j judge) answer(asked question) (out answer) {
	defer func() {
		if cause := recover(); cause != nil {
			out = answer{Error: fmt.Sprint("panic: ", cause)}
		}
	}()
	object, err := j.write(asked)
	if err != nil {
		out = answer{Error: err.Error(), Code: 500}
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			out.Code = status.Status().Code
			if details := status.Status().Details; details != nil {
				out.Causes = details.Causes
			}
		}
		return out
	}
	bytes, err := json.Marshal(object)
	check(err)
	check(json.Unmarshal(bytes, &out.Object))
	hideClock(out.Object)
	return out
}

func (j judge) write(asked question) (runtime.Object, error) {
	kind := kinds[asked.Kind].WithKind(asked.Kind)
	manager, err := j.manager(kind, asked)
	check(err)
	live, err := j.typed(kind, asked.Live)
	check(err)
	if asked.Operation == "update" {
		object, err := j.typed(kind, asked.Object)
		check(err)
		return manager.Update(live, object, asked.Manager)
	}
	// As the handler of patches reads it.
	config := &unstructured.Unstructured{Object: map[string]any{}}
	check(yaml.Unmarshal(asked.Object, &config.Object))
	return manager.Apply(live, config, asked.Manager, asked.Force)
}

func (j judge) manager(kind schema.GroupVersionKind, asked question) (*managedfields.FieldManager, error) {
	ignored := fieldpath.NewSet()
	for _, path := range asked.Ignored {
		parts := make([]any, len(path))
		for index, part := range path {
			parts[index] = part
		}
		ignored.Insert(fieldpath.MakePathOrDie(parts...))
	}
	version := kind.GroupVersion()
	reset := map[fieldpath.APIVersion]fieldpath.Filter{
		fieldpath.APIVersion(version.String()): fieldpath.NewExcludeSetFilter(ignored),
	}
	return managedfields.NewDefaultFieldManager(
		j.converter, j.scheme, j.scheme, j.scheme, kind, version, asked.Subresource, reset)
}

func (j judge) typed(kind schema.GroupVersionKind, body json.RawMessage) (runtime.Object, error) {
	object, err := j.scheme.New(kind)
	if err == nil && string(body) != "null" {
		err = json.Unmarshal(body, object)
	}
	return object, err
}

func hideClock(object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for _, entry := range entries {
		entry := entry.(map[string]any)
		text, _ := entry["time"].(string)
		if at, err := time.Parse(time.RFC3339, text); err == nil && at.After(clockBegins) {
			entry["time"] = "now"
		}
	}
}
