package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// How many differences of one document are told.
const told = 40

// Paths of the control that ours does not serve although it serves the resource: the old way to watch, and what is done
// through a node.
var unserved = []string{
	"/watch/", "/proxy", "/attach", "/binding", "/ephemeralcontainers", "/eviction", "/exec", "/log", "/portforward",
	"/resize",
}

// Documents that both servers must have: of the groups that ours serves and that are not its own.
var shared = []string{
	"api", "api/v1", "apis", "version",
	"apis/authentication.k8s.io", "apis/authentication.k8s.io/v1",
	"apis/authorization.k8s.io", "apis/authorization.k8s.io/v1",
	"apis/coordination.k8s.io", "apis/coordination.k8s.io/v1",
	"apis/discovery.k8s.io", "apis/discovery.k8s.io/v1",
	"apis/events.k8s.io", "apis/events.k8s.io/v1",
	"apis/networking.k8s.io", "apis/networking.k8s.io/v1", "apis/networking.k8s.io/v1beta1",
}

func compare(folder, control string) error {
	for _, name := range shared {
		name = file(name)
		theirs, err := os.ReadFile(filepath.Join(control, name))
		if err != nil {
			return err
		}
		other, problems := read(theirs)
		if len(problems) > 0 {
			report("the control's "+name, problems)
			continue
		}
		ours, err := os.ReadFile(filepath.Join(folder, name))
		if os.IsNotExist(err) {
			report("compare "+name, []string{"ours has no such document"})
			continue
		}
		if err != nil {
			return err
		}
		document, problems := read(ours)
		report("read "+name, problems)
		if document != nil {
			report("compare "+name, differences(document, other))
		}
	}
	if err := readOwn(folder, control); err != nil {
		return err
	}
	return compareBehaviours(folder, control)
}

// readOwn reads the documents of groups that only ours has. One that the control has too must be among those that are compared.
func readOwn(folder, control string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return err
	}
	for _, path := range files {
		name := filepath.Base(path)
		if slices.ContainsFunc(shared, func(one string) bool { return file(one) == name }) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, problems := read(text)
		if _, err := os.Stat(filepath.Join(control, name)); err == nil {
			problems = append(problems, "the control has it too, and nothing compares them")
		}
		report("read "+name, problems)
	}
	return nil
}

func report(name string, problems []string) {
	if len(problems) == 0 {
		fmt.Printf("ok %s\n", name)
		return
	}
	fmt.Printf("no %s: %d problems\n", name, len(problems))
	for _, problem := range problems[:min(len(problems), told)] {
		fmt.Printf("  %s\n", problem)
	}
}

// read reads a document with upstream's parser, writes it again, does the same by way of protobuf, and follows all of its
// references.
func read(text []byte) (*spec3.OpenAPI, []string) {
	var document spec3.OpenAPI
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, []string{err.Error()}
	}
	again, err := json.Marshal(&document)
	if err != nil {
		return nil, []string{err.Error()}
	}
	var problems []string
	if !sameJSON(text, again) {
		problems = append(problems, "written again it is another document: the parser knows something in it otherwise or not at all")
	}
	var second spec3.OpenAPI
	if err := json.Unmarshal(again, &second); err != nil {
		problems = append(problems, err.Error())
	} else if !reflect.DeepEqual(&document, &second) {
		problems = append(problems, "read again it is another document")
	}
	problems = append(problems, throughProtobuf(text)...)
	known := document.Components.Schemas
	for reference := range references(&document) {
		if known[reference] == nil {
			problems = append(problems, "nothing at "+reference)
		}
	}
	return &document, problems
}

// throughProtobuf is the way of a document to a client that asks for protobuf.
func throughProtobuf(text []byte) []string {
	bytes, err := handler3.ToV3ProtoBinary(text)
	if err != nil {
		return []string{"to protobuf: " + err.Error()}
	}
	var read openapi_v3.Document
	if err := proto.Unmarshal(bytes, &read); err != nil {
		return []string{"from protobuf: " + err.Error()}
	}
	direct, err := openapi_v3.ParseDocument(text)
	if err != nil {
		return []string{err.Error()}
	}
	if !proto.Equal(direct, &read) {
		return []string{"by way of protobuf it is another document"}
	}
	return nil
}

func sameJSON(one, other []byte) bool {
	var a, b any
	return json.Unmarshal(one, &a) == nil && json.Unmarshal(other, &b) == nil && reflect.DeepEqual(a, b)
}

// references are the names of all schemas that a document refers to, and those that they refer to.
func references(document *spec3.OpenAPI) map[string]bool {
	found := map[string]bool{}
	if document.Paths != nil {
		for _, item := range document.Paths.Paths {
			inPath(item, document.Components.Schemas, found)
		}
	}
	return found
}

func inPath(item *spec3.Path, schemas map[string]*spec.Schema, found map[string]bool) {
	text, err := json.Marshal(item)
	if err != nil {
		return
	}
	follow(text, schemas, found)
}

func follow(text []byte, schemas map[string]*spec.Schema, found map[string]bool) {
	var value any
	if json.Unmarshal(text, &value) != nil {
		return
	}
	walk(value, func(name string) {
		if found[name] {
			return
		}
		found[name] = true
		if schema := schemas[name]; schema != nil {
			if text, err := json.Marshal(schema); err == nil {
				follow(text, schemas, found)
			}
		}
	})
}

func walk(value any, refers func(string)) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if text, ok := inner.(string); ok && key == "$ref" {
				refers(strings.TrimPrefix(text, "#/components/schemas/"))
			}
			walk(inner, refers)
		}
	case []any:
		for _, inner := range value {
			walk(inner, refers)
		}
	}
}

// differences are those of ours from the control, descriptions aside. Paths that ours does not serve are left out of the
// control, and the schemas that only they need.
func differences(ours, control *spec3.OpenAPI) []string {
	var found []string
	needed := map[string]bool{}
	resources := map[string]bool{}
	for path := range ours.Paths.Paths {
		resources[resource(path)] = true
	}
	for path, item := range control.Paths.Paths {
		mine := ours.Paths.Paths[path]
		if mine == nil {
			if resources[resource(path)] && !slices.ContainsFunc(unserved, func(part string) bool { return strings.Contains(path, part) }) {
				found = append(found, path+" is missing")
			}
			continue
		}
		inPath(item, control.Components.Schemas, needed)
		found = append(found, unlike(path, mine, item)...)
	}
	for path := range ours.Paths.Paths {
		if control.Paths.Paths[path] == nil {
			found = append(found, path+" is not in the control")
		}
	}
	for name := range needed {
		mine := ours.Components.Schemas[name]
		if mine == nil {
			found = append(found, name+" is missing")
			continue
		}
		found = append(found, unlike(name, mine, control.Components.Schemas[name])...)
	}
	for name, schema := range ours.Components.Schemas {
		if !needed[name] {
			found = append(found, name+" is not needed")
		}
		found = append(found, undescribed(name, schema)...)
	}
	found = append(found, unlike("securitySchemes", ours.Components.SecuritySchemes, control.Components.SecuritySchemes)...)
	sort.Strings(found)
	return found
}

// resource is what a path is about: the plural, as far as it can be told from the path.
func resource(path string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(path, "/apis/"), "/v1")
	rest = strings.TrimPrefix(rest, "beta1")
	rest = strings.TrimPrefix(rest, "/watch")
	if strings.HasPrefix(rest, "/namespaces/{namespace}/") {
		rest = strings.TrimPrefix(rest, "/namespaces/{namespace}")
	}
	parts := strings.Split(rest, "/")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

// undescribed are the properties that nothing is said of.
func undescribed(name string, schema *spec.Schema) []string {
	var found []string
	if schema.Description == "" {
		found = append(found, name+" is not described")
	}
	for property, inner := range schema.Properties {
		found = append(found, undescribed(name+"."+property, &inner)...)
	}
	return found
}

// unlike tells where two values differ in their JSON, without descriptions and without the order of what has none.
func unlike(place string, mine, theirs any) []string {
	a, b := plain(mine), plain(theirs)
	var found []string
	differ(place, a, b, &found)
	return found
}

func plain(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	var read any
	if err := json.Unmarshal(text, &read); err != nil {
		return err.Error()
	}
	return stripped(read, false)
}

// stripped leaves out descriptions, and sorts what is a set. Names of properties may be anything, also `description`.
func stripped(value any, names bool) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if _, ok := inner.(string); ok && key == "description" && !names {
				delete(value, key)
				continue
			}
			value[key] = stripped(inner, key == "properties" && !names)
		}
		if required, ok := value["required"].([]any); ok {
			slices.SortFunc(required, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	case []any:
		for i, inner := range value {
			value[i] = stripped(inner, false)
		}
	}
	return value
}

func differ(place string, a, b any, found *[]string) {
	left, ok := a.(map[string]any)
	right, too := b.(map[string]any)
	if !ok || !too {
		if !reflect.DeepEqual(a, b) {
			*found = append(*found, fmt.Sprintf("%s: %s, the control has %s", place, short(a), short(b)))
		}
		return
	}
	keys := map[string]bool{}
	for key := range left {
		keys[key] = true
	}
	for key := range right {
		keys[key] = true
	}
	for key := range keys {
		differ(place+" "+key, left[key], right[key], found)
	}
}

func short(value any) string {
	if value == nil {
		return "nothing"
	}
	text, _ := json.Marshal(value)
	return string(text[:min(len(text), 300)])
}

// compareBehaviours compares how the two servers answer the same questions. Ours has no protobuf, so nothing asks for it.
func compareBehaviours(folder, control string) error {
	var ours, theirs map[string]behaviour
	for path, into := range map[string]*map[string]behaviour{folder: &ours, control: &theirs} {
		text, err := os.ReadFile(filepath.Join(path, behaviours))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, into); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		var problems []string
		if ours[name] != theirs[name] {
			problems = append(problems, fmt.Sprintf("%+v, the control answers %+v", ours[name], theirs[name]))
		}
		report("ask "+name, problems)
	}
	return nil
}
