// Command space measures the allocators of other projects on the work that `cargo xtask bench space` gives to ours.
//
// Every measurement is one JSON object on a line of stdout. The program knows nothing of our engine: xtask runs it
// between rounds of ours and puts the figures side by side.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// measurement is one line of output. Bytes is the heap held by the whole structure when the work is done, 0 when that
// was not measured.
type measurement struct {
	Work    string  `json:"work"`
	Peer    string  `json:"peer"`
	NsPerOp float64 `json:"ns_per_op"`
	Ops     int     `json:"ops"`
	Bytes   uint64  `json:"bytes"`
}

// work is one line of the table: what is done, and every peer that does it.
type work struct {
	name string
	does string
	run  func(report func(measurement)) error
}

var works = []work{
	{"fill-v4", "fill 10.0.0.0/8 with /24", fillV4},
	{"fill-v4-interval", "the same fill through an interval tree", fillV4Interval},
	{"fill-v6", "fill a /48 with /64", fillV6},
	{"random-full", "a random free address of a /12 that is 99.9 % full", randomFull},
	{"random-1000-ranges", "a random free address of 1,000 /22 that are 99.9 % full together", random1000Ranges},
}

func main() {
	only := flag.String("work", "", "run only this work")
	list := flag.Bool("list", false, "list the works and stop")
	flag.Parse()
	// The peers write log lines while they start and when they are slow. Nobody reads them here, and formatting them
	// would be counted as their work.
	klog.SetLogger(logr.Discard())
	if err := run(*only, *list); err != nil {
		fmt.Fprintln(os.Stderr, "space:", err)
		os.Exit(1)
	}
}

func run(only string, list bool) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for _, w := range chosen {
		if list {
			fmt.Printf("%-20s %s\n", w.name, w.does)
			continue
		}
		var failed error
		report := func(m measurement) {
			m.Work = w.name
			failed = errors.Join(failed, out.Encode(m))
		}
		if err := errors.Join(w.run(report), failed); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

func choose(only string) ([]work, error) {
	if only == "" {
		return works, nil
	}
	var names []string
	for _, w := range works {
		if w.name == only {
			return []work{w}, nil
		}
		names = append(names, w.name)
	}
	return nil, fmt.Errorf("no work is called %q; there are %s", only, strings.Join(names, ", "))
}
