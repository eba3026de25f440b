#!/usr/bin/env bash
# More room: all blocks are given, so another range is added. Nothing is restarted.
#
# For a cluster without nodes and ranges of its own. Set KUBECONFIG, then run it.
. "$(dirname "$0")/story.sh"

say "A range for sixteen nodes, and seventeen nodes"
run kubectl apply -f first.yaml
ready first
# shellcheck disable=SC2046 # one word each
nodes "pool: web" $(seq -f 'web-%g' 16)
# shellcheck disable=SC2046
served $(seq -f 'web-%g' 16)
nodes "pool: web" web-17
waits web-17 "first: "
run kubectl wait --for=condition=Exhausted clustercidr/first --timeout=30s
holds "no block is free" says first ipv4.free 0

say "Another range: the node that waits is served at once"
run kubectl apply -f expand.yaml
served web-17
holds "it has the first block of the new range" test "$(cidrs web-17)" = 10.2.0.0/24
holds "the others have what they had" like '10.1.*/24' "$(cidrs web-1)"
