// Command clients uses a server as programs on client-go do, and says what came of it.
//
// On stdin, first a line with where the server is and what to do (order); on stdout a line for each check. What the
// checks need done to the server or to the wire that leads to it (cut it, lead it to another replica, make the server forget its
// history) they ask whoever started the program for, with a line on stdout, and wait for a line on stdin.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// How long one check may take, also where a debug build runs on a busy machine.
const patience = 5 * time.Minute

// order is what the program is started with.
type order struct {
	// Wire is where clients go: a wire to one of the servers, which can be cut and led to another one.
	Wire string `json:"wire"`
	// Servers are the replicas themselves.
	Servers   []string `json:"servers"`
	Authority string   `json:"authority"`
	Token     string   `json:"token"`
	// Control says that the servers are the control, which cannot do everything that is asked of ours.
	Control bool `json:"control"`
	// Only has the checks whose names contain it run.
	Only string `json:"only"`
	// Follow has the program follow writes instead, and write what it sees to files in this folder.
	Follow string `json:"follow"`
}

// host is whoever started the program.
type host struct {
	mutex sync.Mutex
	out   io.Writer
	in    *bufio.Reader
}

// tell writes one line.
func (h *host) tell(line any) {
	text, err := json.Marshal(line)
	if err != nil {
		fail(err)
	}
	fmt.Fprintf(h.out, "%s\n", text)
}

// ask has the host do something, and waits until it is done. One question at a time.
func (h *host) ask(what string) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.tell(map[string]string{"ask": what})
	answer, err := h.in.ReadString('\n')
	if err != nil {
		return err
	}
	if answer = strings.TrimSpace(answer); answer != "done" {
		return fmt.Errorf("%s: %s", what, answer)
	}
	return nil
}

// verdict is what came of a check.
type verdict struct {
	Case   string  `json:"case"`
	OK     bool    `json:"ok"`
	NotRun bool    `json:"notRun,omitempty"`
	Said   string  `json:"said,omitempty"`
	Took   float64 `json:"took"`
}

// check is one thing that a client does; it says what it counted.
type check struct {
	name string
	run  func(*world) (string, error)
}

// notRun is the reason why a check could not be made here.
type notRun string

func (why notRun) Error() string { return string(why) }

func main() {
	// Libraries log what they try again; what is wrong is told by the checks.
	klog.InitFlags(nil)
	_ = flag.Set("logtostderr", "true")
	flag.Parse()
	in := bufio.NewReader(os.Stdin)
	first, err := in.ReadBytes('\n')
	if err != nil {
		fail(err)
	}
	var given order
	if err := json.Unmarshal(first, &given); err != nil {
		fail(err)
	}
	h := &host{out: os.Stdout, in: in}
	if given.Follow != "" {
		if err := follow(given, h); err != nil {
			fail(err)
		}
		return
	}
	checks := [][]check{informerChecks, watchChecks, pagingChecks, clientChecks, writeChecks, eventChecks, electionChecks, discoveryChecks}
	for _, group := range checks {
		for _, c := range group {
			if strings.Contains(c.name, given.Only) {
				h.tell(judge(c, given, h))
			}
		}
	}
}

func judge(c check, given order, h *host) verdict {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	said, err := attempt(ctx, c, given, h)
	took := time.Since(began).Seconds()
	var why notRun
	switch {
	case errors.As(err, &why):
		return verdict{Case: c.name, NotRun: true, Said: string(why), Took: took}
	case err != nil:
		return verdict{Case: c.name, Said: err.Error(), Took: took}
	}
	return verdict{Case: c.name, OK: true, Said: said, Took: took}
}

func attempt(ctx context.Context, c check, given order, h *host) (said string, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	w, err := newWorld(ctx, given, h)
	if err != nil {
		return "", err
	}
	return c.run(w)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
