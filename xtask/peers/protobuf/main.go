// Command protobuf answers, line by line, what the code that kube-apiserver is made of reads from protobuf and writes to
// it, so that ours can be held against it.
//
// In: {"json":{...}}, an object to be written; {"hex":"..."}, bytes to be read; or {"event":"ADDED","hex":"..."}, an
// object in its envelope to be sent as an event of a watch.
// Out: {"hex":"..."} or {"value":{...}}, or {"error":"..."}; also {"panic":"..."}, because the code is not above that.
package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	networkingbeta "k8s.io/api/networking/v1beta1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	metabeta "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	kjson "sigs.k8s.io/json"
)

const longestLine = 64 << 20

type question struct {
	JSON  json.RawMessage `json:"json"`
	Event string          `json:"event"`
	Hex   string          `json:"hex"`
}

type answer struct {
	Hex   string          `json:"hex,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
	Panic string          `json:"panic,omitempty"`
}

type judge struct {
	scheme *runtime.Scheme
	whole  runtime.Serializer
	raw    runtime.Serializer
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apidiscovery.AddToScheme, authentication.AddToScheme, authorization.AddToScheme, coordination.AddToScheme, core.AddToScheme,
		discovery.AddToScheme, events.AddToScheme, networking.AddToScheme, networkingbeta.AddToScheme,
		meta.AddMetaToScheme, metabeta.AddMetaToScheme,
	} {
		if err := add(scheme); err != nil {
			fail(err)
		}
	}
	j := judge{scheme, protobuf.NewSerializer(scheme, scheme), protobuf.NewRawSerializer(scheme, scheme)}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fail(err)
		}
		line, err := json.Marshal(j.answer(asked))
		if err != nil {
			fail(err)
		}
		fmt.Printf("%s\n", line)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func (j judge) answer(asked question) (out answer) {
	defer func() {
		if cause := recover(); cause != nil {
			out = answer{Panic: fmt.Sprint(cause)}
		}
	}()
	var err error
	switch {
	case asked.JSON != nil:
		out.Hex, err = j.encode(asked.JSON)
	case asked.Event != "":
		out.Hex, err = j.event(asked)
	default:
		out.Value, err = j.decode(asked.Hex)
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return out
}

func (j judge) encode(body []byte) (string, error) {
	var kind meta.TypeMeta
	if err := json.Unmarshal(body, &kind); err != nil {
		return "", err
	}
	object, err := j.scheme.New(kind.GroupVersionKind())
	if err != nil {
		return "", err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, object); err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = j.whole.Encode(object, &out)
	return hex.EncodeToString(out.Bytes()), err
}

func (j judge) decode(text string) (json.RawMessage, error) {
	body, err := hex.DecodeString(text)
	if err != nil {
		return nil, err
	}
	object, kind, err := j.whole.Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	// The kind is not always in the object that comes back, but it always goes into the JSON that is written of it.
	object.GetObjectKind().SetGroupVersionKind(*kind)
	return json.Marshal(object)
}

func (j judge) event(asked question) (string, error) {
	body, err := hex.DecodeString(asked.Hex)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	event := &meta.WatchEvent{Type: asked.Event, Object: runtime.RawExtension{Raw: body}}
	err = j.raw.Encode(event, protobuf.LengthDelimitedFramer.NewFrameWriter(&out))
	return hex.EncodeToString(out.Bytes()), err
}
