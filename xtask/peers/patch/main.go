// Command patch answers, line by line, what the code that kube-apiserver is made of does with a patch or a body, so that
// ours can be held against it.
//
// In: {"format":"strategic|merge|json|read|yaml","kind":"Service","original":{...},"body":"..."}.
// Out: the outcomes that were seen; more than one where the code follows the random order of a Go map.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	tries       = 12
	longestLine = 64 << 20
)

var kinds = map[string]any{
	"ConfigMap":     &core.ConfigMap{},
	"Endpoints":     &core.Endpoints{},
	"EndpointSlice": &discovery.EndpointSlice{},
	"Node":          &core.Node{},
	"Pod":           &core.Pod{},
	"Service":       &core.Service{},
	"ServiceCIDR":   &networking.ServiceCIDR{},
}

type question struct {
	Format   string          `json:"format"`
	Kind     string          `json:"kind"`
	Original json.RawMessage `json:"original"`
	Body     string          `json:"body"`
}

type outcome struct {
	Value  any      `json:"value"`
	Error  string   `json:"error"`
	Panic  string   `json:"panic"`
	Faults []string `json:"faults"`
	Quoted string   `json:"quoted"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		seen := map[string]bool{}
		var outcomes []json.RawMessage
		for range tries {
			line, err := json.Marshal(answer(asked))
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			if !seen[string(line)] {
				seen[string(line)] = true
				outcomes = append(outcomes, line)
			}
			if asked.Format != "strategic" {
				break
			}
		}
		line, _ := json.Marshal(outcomes)
		fmt.Printf("%s\n", line)
	}
}

func answer(asked question) (out outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			out = outcome{Panic: fmt.Sprint(cause)}
		}
	}()
	var err error
	body := []byte(asked.Body)
	switch asked.Format {
	case "strategic":
		original, patch := map[string]any{}, map[string]any{}
		if err = kjson.UnmarshalCaseSensitivePreserveInts(asked.Original, &original); err != nil {
			break
		}
		if out.Faults, err = strict(body, &patch); err != nil {
			break
		}
		var merged strategicpatch.JSONMap
		merged, err = strategicpatch.StrategicMergeMapPatch(original, patch, kinds[asked.Kind])
		out.Value, out.Quoted = merged, fmt.Sprintf("%+v", patch)
	case "merge":
		var merged []byte
		merged, err = jsonpatch.MergePatch(asked.Original, body)
		out.Value = json.RawMessage(merged)
	case "json":
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(body); err != nil {
			break
		}
		var patched []byte
		patched, err = patch.Apply(asked.Original)
		out.Value = json.RawMessage(patched)
	case "read":
		var value any
		out.Faults, err = strict(body, &value)
		out.Value = value
	case "yaml":
		var converted []byte
		converted, err = yaml.YAMLToJSON(body)
		out.Value = json.RawMessage(converted)
		if _, strictly := yaml.YAMLToJSONStrict(body); err == nil && strictly != nil {
			out.Faults = []string{strictly.Error()}
		}
	default:
		err = fmt.Errorf("unknown format %q", asked.Format)
	}
	if err != nil {
		return outcome{Error: err.Error()}
	}
	return out
}

func strict(body []byte, into any) ([]string, error) {
	faults, err := kjson.UnmarshalStrict(body, into)
	var texts []string
	for _, fault := range faults {
		texts = append(texts, fault.Error())
	}
	return texts, err
}
