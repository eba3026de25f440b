package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	protobuf         = "application/vnd.kubernetes.protobuf"
	protobufOrJSON   = protobuf + ",application/json"
	betweenLooks     = 20 * time.Millisecond
	initialEventsEnd = "k8s.io/initial-events-end"
	namespacePrefix  = "clients-"
	unlimited        = -1
)

// world is what a check has to work with: a namespace of its own, and clients whose connections nobody else uses.
type world struct {
	ctx       context.Context
	host      *host
	namespace string
	// replicas is how many servers there are, at least one.
	replicas int
	// control says that the servers are the control.
	control bool
	// wired goes through the wire, direct straight to each replica.
	wired  *rest.Config
	direct []*rest.Config
	seen   *requests
	typed  kubernetes.Interface
}

// requests counts what was asked through the wire.
type requests struct {
	mutex     sync.Mutex
	lists     int
	watches   int
	watchList int
	types     map[string]bool
}

func newWorld(ctx context.Context, given order, h *host) (*world, error) {
	w := &world{ctx: ctx, host: h, replicas: len(given.Servers), control: given.Control, seen: &requests{types: map[string]bool{}}}
	w.wired = configuration(given, given.Wire)
	w.wired.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{w.seen, next} })
	for _, address := range given.Servers {
		w.direct = append(w.direct, configuration(given, address))
	}
	var err error
	if w.typed, err = kubernetes.NewForConfig(w.wired); err != nil {
		return nil, err
	}
	random := make([]byte, 5)
	_, _ = rand.Read(random)
	w.namespace = namespacePrefix + hex.EncodeToString(random)
	namespace := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: w.namespace}}
	_, err = w.typed.CoreV1().Namespaces().Create(ctx, namespace, meta.CreateOptions{})
	return w, err
}

// configuration is that of a client of its own: the timeout keeps client-go from sharing connections between configurations.
func configuration(given order, address string) *rest.Config {
	return &rest.Config{
		Host:            "https://" + address,
		BearerToken:     given.Token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: given.Authority},
		QPS:             unlimited,
		UserAgent:       "cadastre-clients",
		ContentConfig:   rest.ContentConfig{ContentType: protobuf, AcceptContentTypes: protobufOrJSON},
	}
}

// on is a client of the replica with that number, counted round.
func (w *world) on(replica int) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(w.direct[replica%w.replicas])
}

func (w *world) dynamic() (dynamic.Interface, error) { return dynamic.NewForConfig(plain(w.wired)) }

func (w *world) metadata() (metadata.Interface, error) { return metadata.NewForConfig(plain(w.wired)) }

// plain is the same, for clients that know no protobuf.
func plain(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentConfig = rest.ContentConfig{}
	return config
}

// forget has the servers forget their history, which takes some of them long.
func (w *world) forget() error {
	err := w.host.ask("forget")
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithTimeout(context.Background(), patience)
	context.AfterFunc(w.ctx, cancel)
	if err != nil && strings.Contains(err.Error(), "takes too long") {
		return notRun(err.Error())
	}
	return err
}

// until waits until something holds, and says what it waited for if it does not in time.
func (w *world) until(what string, holds func() (bool, error)) error {
	var last error
	for {
		ok, err := holds()
		if ok {
			return nil
		}
		last = err
		select {
		case <-w.ctx.Done():
			return fmt.Errorf("waited for %s: %v", what, last)
		case <-time.After(betweenLooks):
		}
	}
}

func configMap(name string, data map[string]string) *core.ConfigMap {
	return &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: name}, Data: data}
}

func revision(text string) uint64 {
	number, _ := strconv.ParseUint(text, 10, 64)
	return number
}

type counting struct {
	seen *requests
	next http.RoundTripper
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	asked := request.URL.Query()
	c.seen.mutex.Lock()
	switch {
	case asked.Get("sendInitialEvents") == "true":
		c.seen.watchList++
	case asked.Get("watch") != "":
		c.seen.watches++
	case request.Method == http.MethodGet:
		c.seen.lists++
	}
	c.seen.mutex.Unlock()
	response, err := c.next.RoundTrip(request)
	if err == nil {
		kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
		c.seen.mutex.Lock()
		c.seen.types[kind] = true
		c.seen.mutex.Unlock()
	}
	return response, err
}

func (r *requests) answered() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var kinds []string
	for kind := range r.types {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	return strings.Join(kinds, " ")
}
