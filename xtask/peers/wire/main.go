// Command wire does the same things to whatever server a kubeconfig names, with clients that speak nothing but protobuf,
// and prints what came of each. What it prints of one server can be held against what it prints of another: what differs
// from run to run is masked.
//
// Each line is a case and what came of it, with a tab between them. A case is a kind and a step, or a body or a question
// that is sent as it is.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	inProtobuf = "application/vnd.kubernetes.protobuf"
	// A server that says nothing ends the run. It takes a few seconds otherwise.
	longest = 5 * time.Minute
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: wire KUBECONFIG")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	config.QPS = -1
	config.ContentType = inProtobuf
	config.AcceptContentTypes = inProtobuf
	heard := &heard{types: map[string]int{}}
	config.Wrap(heard.wrap)
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), longest)
	defer stop()
	kinds(ctx, clients)
	heard.say("typed clients")
	metadataClient(ctx, config)
	heard.say("metadata client")
	direct, err := rest.HTTPClientFor(config)
	if err != nil {
		log.Fatal(err)
	}
	server := raw{client: direct, url: config.Host}
	server.bodies(ctx)
	server.questions(ctx)
}

// say prints what came of a case.
func say(name string, format string, arguments ...any) {
	text := mask(fmt.Sprintf(format, arguments...))
	fmt.Printf("%s\t%s\n", name, strings.ReplaceAll(text, "\n", "\\n"))
}

var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`"resourceVersion":"[0-9]+"`), `"resourceVersion":"N"`},
	{regexp.MustCompile(`"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"`), `"TIME"`},
	{regexp.MustCompile(`127\.0\.0\.1:[0-9]+`), "ADDRESS"},
	// What a Service was given.
	{regexp.MustCompile(`"10\.96\.[0-9]+\.[0-9]+"`), `"PICKED"`},
	{regexp.MustCompile(`"nodePort":3[0-9]{4}`), `"nodePort":"PICKED"`},
	// Go lists them in another order each time.
	{regexp.MustCompile(`supported values: (\\?"[A-Za-z]*\\?",? ?)+`), "supported values: ..."},
}

func mask(text string) string {
	for _, one := range masks {
		text = one.pattern.ReplaceAllString(text, one.with)
	}
	return text
}

// heard counts the media types of the answers, so that nobody answers in JSON unnoticed.
type heard struct {
	sync.Mutex
	types map[string]int
}

func (h *heard) wrap(inner http.RoundTripper) http.RoundTripper {
	return tripper(func(request *http.Request) (*http.Response, error) {
		answer, err := inner.RoundTrip(request)
		if err == nil {
			h.Lock()
			h.types[answer.Header.Get("Content-Type")]++
			h.Unlock()
		}
		return answer, err
	})
}

func (h *heard) say(who string) {
	h.Lock()
	defer h.Unlock()
	var types []string
	for name := range h.types {
		types = append(types, name)
	}
	sort.Strings(types)
	h.types = map[string]int{}
	say(who+" heard", "%s", strings.Join(types, ", "))
}

type tripper func(*http.Request) (*http.Response, error)

func (t tripper) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

// raw sends what no client would.
type raw struct {
	client *http.Client
	url    string
}

type answer struct {
	code  int
	media string
	body  []byte
}

func (r raw) send(ctx context.Context, method, path, media, accept string, body []byte) answer {
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response, err := r.client.Do(request)
	if err != nil {
		log.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatalf("%s %s: %v", method, path, err)
	}
	return answer{response.StatusCode, response.Header.Get("Content-Type"), content}
}
