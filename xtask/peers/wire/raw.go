package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

const maps = "/api/v1/namespaces/" + namespace + "/configmaps"

func varint(n uint64) []byte {
	var out []byte
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

// tag begins a field that is written in that way.
func tag(number, wireType uint64) []byte { return varint(number<<3 | wireType) }

func field(number uint64, content ...[]byte) []byte {
	inner := bytes.Join(content, nil)
	return join(tag(number, 2), varint(uint64(len(inner))), inner)
}

func text(number uint64, content string) []byte { return field(number, []byte(content)) }

func value(number, n uint64) []byte { return join(tag(number, 0), varint(n)) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

var magic = []byte("k8s\x00")

func envelope(apiVersion, kind string, object ...[]byte) []byte {
	return join(magic, field(1, text(1, apiVersion), text(2, kind)), field(2, object...))
}

func configMap(object ...[]byte) []byte { return envelope("v1", "ConfigMap", object...) }

// named is the metadata of an object of that name.
func named(name string, more ...[]byte) []byte {
	return field(1, append([][]byte{text(1, name)}, more...)...)
}

type body struct {
	name  string
	bytes []byte
}

// bodies are sent as they are, well formed or not.
func (r raw) bodies(ctx context.Context) {
	group := func(times int) []byte {
		return join(bytes.Repeat(tag(99, 3), times), bytes.Repeat(tag(99, 4), times))
	}
	whole := configMap(named("whole"))
	minus := func(n uint64) uint64 { return ^(n - 1) }
	created := []body{
		{"nothing", nil},
		{"JSON", []byte("{}")},
		{"no more than how it begins", magic},
		{"half of how it begins", magic[:3]},
		{"another beginning", []byte("k8t\x00abc")},
		{"cut in the envelope", whole[:8]},
		{"cut in the object", whole[:len(whole)-3]},
		{"no type", join(magic, field(2, named("b1")))},
		{"no kind", join(magic, field(1, text(1, "v1")), field(2, named("b2")))},
		{"no version", join(magic, field(1, text(2, "ConfigMap")), field(2, named("b3")))},
		{"empty type", envelope("", "", named("b4"))},
		{"empty version", envelope("", "ConfigMap", named("b5"))},
		{"another kind", envelope("v1", "Secret", named("b"))},
		{"unknown kind", envelope("v1", "Nope", named("b"))},
		{"unknown version", envelope("v9", "ConfigMap", named("b"))},
		{"unknown group", envelope("nope/v1", "ConfigMap", named("b"))},
		{"no version at all", envelope("a/b/c", "ConfigMap", named("b6"))},
		{"empty group", envelope("/v1", "ConfigMap", named("b7"))},
		{"a list", envelope("v1", "ConfigMapList")},
		{"options", envelope("v1", "DeleteOptions")},
		{"a status", envelope("v1", "Status")},
		{"an Event", envelope("events.k8s.io/v1", "Event", named("b"))},
		{"an empty object", configMap()},
		{"no object", join(magic, field(1, text(1, "v1"), text(2, "ConfigMap")))},
		{"a number as type", join(magic, value(1, 5))},
		{"a number as version", join(magic, field(1, value(1, 5)))},
		{"a number as object", join(magic, value(2, 5))},
		{"a number as metadata", configMap(value(1, 5))},
		{"a number as name", configMap(field(1, value(1, 5)))},
		{"a number as data", configMap(value(2, 5))},
		{"text as boolean", configMap(named("b"), text(4, "x"))},
		{"a negative length", configMap(tag(1, 2), varint(minus(1)))},
		{"a long length", configMap(tag(1, 2), varint(1<<31))},
		{"the longest length", configMap(tag(1, 2), varint(1<<63-1))},
		{"a number of too many bytes", configMap(tag(1, 2), bytes.Repeat([]byte{255}, 10), []byte{1})},
		{"a number that ends early", configMap(tag(1, 2), []byte{255})},
		{"field zero", configMap([]byte{2, 0})},
		{"a negative field", configMap(varint(1<<34|2), []byte{0})},
		{"the end of a group", configMap(tag(1, 4))},
		{"a group", configMap(named("b8"), group(1))},
		{"a group without end", configMap(named("b"), tag(99, 3))},
		{"a known field as group", configMap(tag(1, 3), tag(1, 4))},
		{"very many groups", configMap(named("b9"), group(10000))},
		{"a way to write that there is not", configMap(tag(99, 6))},
		{"another of them", configMap(tag(1, 7))},
		{"an unknown field", configMap(named("c1"), text(99, "x"))},
		{"an unknown field around it", join(configMap(named("c2")), text(9, "abc"))},
		{"a name twice", configMap(field(1, text(1, "x"), text(1, "c4")))},
		{"metadata twice", configMap(named("c5"), field(1, text(2, "gen-")))},
		{"a key twice", configMap(named("c6"), field(2, text(1, "k"), text(2, "a")), field(2, text(1, "k"), text(2, "b")))},
		{"an entry with nothing", configMap(named("c"), field(2))},
		{"an entry with an odd field", configMap(named("c7"), field(2, text(1, "k"), text(3, "x")))},
		{"a number as key", configMap(named("c"), field(2, value(1, 3)))},
		{"another content encoding", join(configMap(named("c8")), text(3, "gzip"))},
		{"another content type", join(configMap(named("c9")), text(4, "application/json"))},
		{"JSON in the envelope", join(configMap([]byte(`{"metadata":{"name":"c"}}`)), text(4, "application/json"))},
		{"two objects", join(configMap(named("x")), field(2, named("d1")))},
		{"two types", join(magic, field(1, text(1, "v1"), text(2, "Secret")), field(1, text(2, "ConfigMap")), field(2, named("d2")))},
		{"something after the end", append(configMap(named("d")), 0)},
		{"two as boolean", configMap(named("d3"), value(4, 2))},
		{"much as boolean", configMap(named("d4"), value(4, 1<<63))},
		{"a negative generation", configMap(named("d", value(7, minus(5))))},
		{"fixed numbers", configMap(named("d5"), tag(99, 1), []byte("12345678"), tag(98, 5), []byte("1234"))},
		{"half of a fixed number", configMap(named("d"), tag(99, 1), []byte("1234"))},
		{"a time", configMap(named("d6", field(8, value(1, 1<<30), value(2, 5))))},
		{"a deep field that is not known", configMap(named("d7"), field(99, bytes.Repeat(field(1, field(1, text(1, "x"))), 50)))},
	}
	for _, body := range created {
		r.told(ctx, "POST", maps, "POST "+body.name, body.bytes)
	}
	for _, body := range []body{
		{"the same", configMap(named("b1"), field(2, text(1, "k"), text(2, "z")))},
		{"no type", join(magic, field(2, named("b1")))},
		{"another name", configMap(named("b2"))},
		{"an envelope cut", join(magic, []byte{10})},
		{"another kind", envelope("v1", "Secret", named("b1"))},
	} {
		r.told(ctx, "PUT", maps+"/b1", "PUT "+body.name, body.bytes)
	}
	uid := field(2, text(1, "uid"))
	for _, body := range []body{
		{"no more than how it begins", magic},
		{"JSON", []byte("{}")},
		{"an envelope cut", join(magic, []byte{10})},
		{"a ConfigMap", configMap()},
		{"an unknown kind", envelope("v1", "Nope")},
		{"no type", join(magic, field(2, uid))},
		{"a precondition", envelope("v1", "DeleteOptions", uid)},
		{"options of meta.k8s.io", envelope("meta.k8s.io/v1", "DeleteOptions", uid)},
		{"options of another group", envelope("networking.k8s.io/v1", "DeleteOptions", uid)},
		{"a dry run", envelope("v1", "DeleteOptions", text(5, "All"))},
		{"an unknown dry run", envelope("v1", "DeleteOptions", text(5, "Some"))},
		{"text as number", envelope("v1", "DeleteOptions", text(1, "x"))},
		{"an unknown policy", envelope("v1", "DeleteOptions", text(4, "Nope"))},
		{"an unknown field", envelope("v1", "DeleteOptions", uid, text(77, "x"))},
		{"a grace below zero", envelope("v1", "DeleteOptions", value(1, minus(1)))},
		{"what is gone", envelope("v1", "DeleteOptions")},
	} {
		r.told(ctx, "DELETE", maps+"/b1", "DELETE "+body.name, body.bytes)
	}
	r.told(ctx, "PATCH", maps+"/b2", "PATCH in protobuf", whole)
	r.told(ctx, "DELETE", maps, "DELETE of all", nil)
}

func (r raw) told(ctx context.Context, method, path, name string, content []byte) {
	got := r.send(ctx, method, path, inProtobuf, inProtobuf, content)
	say(name, "%d %s %s", got.code, got.media, read(got.body))
}

var decoder = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)

// read is what is in an answer, in whichever way it is written.
func read(content []byte) string {
	if !bytes.HasPrefix(content, magic) {
		var status metav1.Status
		if json.Unmarshal(content, &status) == nil && status.Kind == "Status" {
			return outcome(&status)
		}
		return string(content)
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(content[len(magic):]); err != nil {
		log.Fatal(err)
	}
	object, _, err := decoder.Decode(content, nil, nil)
	if err != nil {
		return fmt.Sprintf("a %s %s: %v", unknown.APIVersion, unknown.Kind, err)
	}
	if status, ok := object.(*metav1.Status); ok {
		return outcome(status)
	}
	return fmt.Sprintf("a %s %s: %s", unknown.APIVersion, unknown.Kind, shown(object))
}

func outcome(status *metav1.Status) string {
	details := ""
	if status.Details != nil {
		text, _ := json.Marshal(status.Details)
		details = string(text)
	}
	if details == "{}" {
		details = ""
	}
	return fmt.Sprintf("%s %d %s: %s %s", status.Status, status.Code, status.Reason, status.Message, details)
}

// questions are asked with all sorts of Accept headers, none of which takes both JSON and protobuf.
func (r raw) questions(ctx context.Context) {
	const (
		partial = ";as=PartialObjectMetadata;g=meta.k8s.io;v="
		list    = ";as=PartialObjectMetadataList;g=meta.k8s.io;v="
		table   = ";as=Table;g=meta.k8s.io;v=v1"
		all     = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		one     = maps + "/q"
	)
	r.send(ctx, "POST", maps, "application/json", "", []byte(`{"metadata":{"name":"q"}}`))
	for _, asked := range []struct{ path, accept string }{
		{one, inProtobuf},
		{one, inProtobuf + ";q=0.3,application/yaml;q=0.2"},
		{one, inProtobuf + ",application/json;q=0.9"},
		{one, inProtobuf + ";charset=utf-8"},
		{one, inProtobuf + ";v=v1"},
		{one, inProtobuf + ";as=;g=;v="},
		{one, inProtobuf + ";stream=nonsense"},
		{one, inProtobuf + table},
		{one, inProtobuf + partial + "v1"},
		{one, inProtobuf + partial + "v1beta1"},
		{one, inProtobuf + ";as=Nonsense;g=meta.k8s.io;v=v1"},
		{one, "text/plain"},
		{one, "application/json;as=Nonsense;g=meta.k8s.io;v=v1"},
		{maps + "?labelSelector=none", inProtobuf},
		{maps + "?labelSelector=none", inProtobuf + list + "v1"},
		{maps + "?labelSelector=none", inProtobuf + list + "v1beta1"},
		{maps + "?labelSelector=none", inProtobuf + table},
		{maps + "/none", inProtobuf},
		{maps + "/none", inProtobuf + partial + "v1"},
		{maps + "/none", "application/yaml"},
		{maps + "/none", "application/json"},
		{maps + "?watch=1&timeoutSeconds=1&labelSelector=none", inProtobuf},
		{maps + "?watch=1&timeoutSeconds=1&labelSelector=none", inProtobuf + ";stream=watch"},
		{maps + "?watch=1&timeoutSeconds=1&labelSelector=none", inProtobuf + ";stream=nonsense"},
		{maps + "?watch=1&timeoutSeconds=1&labelSelector=none", inProtobuf + table},
		{maps + "?watch=1&timeoutSeconds=1&labelSelector=none", inProtobuf + partial + "v1"},
		{maps + "?watch=1&timeoutSeconds=1&labelSelector=none", "application/json;stream=watch"},
		{"/api", inProtobuf},
		{"/apis/discovery.k8s.io", inProtobuf},
		{"/apis/discovery.k8s.io", "application/yaml"},
		{"/api", inProtobuf + all[:len(all)-1]},
		{"/healthz", inProtobuf},
	} {
		got := r.send(ctx, "GET", asked.path, "", asked.accept, nil)
		say("GET "+asked.path+" as "+asked.accept, "%d %s %s", got.code, got.media, read(got.body))
	}
	for _, path := range []string{"/api", "/apis"} {
		got := r.send(ctx, "GET", path, "", inProtobuf+all, nil)
		say("GET "+path+", aggregated", "%d %s %d", got.code, got.media, bytes.Index(got.body, []byte("APIGroupDiscoveryList")))
	}
	for _, path := range []string{"/api/v1", "/apis/discovery.k8s.io/v1", "/apis/networking.k8s.io/v1"} {
		r.resources(ctx, path)
	}
}

// resources prints what discovery says of the resources that every server of these has.
func (r raw) resources(ctx context.Context, path string) {
	got := r.send(ctx, "GET", path, "", inProtobuf, nil)
	var unknown runtime.Unknown
	var list metav1.APIResourceList
	if err := unknown.Unmarshal(got.body[len(magic):]); err != nil {
		log.Fatal(err)
	}
	if err := list.Unmarshal(unknown.Raw); err != nil {
		log.Fatal(err)
	}
	for _, resource := range list.APIResources {
		switch resource.Name {
		case "configmaps", "endpoints", "services", "services/status", "endpointslices", "servicecidrs", "ipaddresses":
			resource.StorageVersionHash = ""
			text, err := json.Marshal(resource)
			if err != nil {
				log.Fatal(err)
			}
			say("GET "+path+", "+resource.Name, "%q %s %s", unknown.APIVersion, unknown.Kind, text)
		}
	}
}
