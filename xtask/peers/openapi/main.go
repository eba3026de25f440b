// Command openapi holds the OpenAPI documents of one server against those of another, with the code that kubectl and
// kube-apiserver read and write them with.
//
//	openapi fetch URL TOKEN CA FOLDER     keeps the documents of a server, and how it answers questions about them
//	openapi compare FOLDER CONTROL        compares what was kept of ours with what was kept of the control
//
// compare prints a line for each thing it looked at: `ok NAME`, or `no NAME: why`, with further lines indented.
package main

import (
	"fmt"
	"os"
)

func main() {
	var err error
	switch arguments := os.Args[1:]; {
	case len(arguments) == 5 && arguments[0] == "fetch":
		err = fetch(arguments[1], arguments[2], arguments[3], arguments[4])
	case len(arguments) == 3 && arguments[0] == "compare":
		err = compare(arguments[1], arguments[2])
	default:
		err = fmt.Errorf("usage: openapi fetch URL TOKEN CA FOLDER | openapi compare FOLDER CONTROL")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
