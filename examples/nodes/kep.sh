#!/usr/bin/env bash
# The examples of KEP-2593: which node gets which block, and which range is tried first.
#
# For a cluster without nodes and ranges of its own whose Services are elsewhere: one that had the flag
# `--service-cluster-ip-range=10.96.0.0/16` from its first start on. Set KUBECONFIG, then run it.
. "$(dirname "$0")/story.sh"

say "Two ranges for all nodes, and one for each of three"
run kubectl apply -f kep.yaml
ready everybody everybody-too for-n1 for-n2 for-n3
run kubectl get clustercidrs --output wide
nodes "node: n1" n1
nodes "node: n2" n2
nodes "node: n3" n3
nodes "node: n4" n4
served n1 n2 n3 n4
holds "n1 has a /26 of 10.0.0.0/8" like '10.*/26' "$(cidrs n1)"
holds "n2 has a /26 of 192.168.0.0/16" like '192.168.*/26' "$(cidrs n2)"
holds "n3 has a block of each family" like '5.2.*/26,fd12:3456:789a:1:*/122' "$(cidrs n3)"
holds "n4 has a /24 of the smaller of the two that are for all" like '172.16.*/24' "$(cidrs n4)"

say "Blocks of each family or none: there are four of IPv4, so there are four nodes"
run kubectl delete node n1 n2 n3 n4
run kubectl apply -f four.yaml
ready four
nodes "pool: four" f1 f2 f3 f4 f5
served f1 f2 f3 f4
for node in f1 f2 f3 f4; do
    holds "$node has a /22 and a /118" like '10.0.*/22,fd12:3456:789a:1:*/118' "$(cidrs $node)"
done

say "The fifth falls through to a range for all nodes"
served f5
holds "it has a /24" like '*/24' "$(cidrs f5)"

say "Five ranges for one node are tried in this order: most labels, fewest blocks, smallest blocks, and last those for all"
run kubectl delete clustercidrs everybody everybody-too --wait=false
run kubectl apply -f order.yaml
ready order-{1..5}
number=0
for range in '10.5.*/26' '192.168.64.*/28' '192.168.128.*/28' '172.20.*/27' '100.64.0.*/26'; do
    number=$((number + 1))
    nodes "node: n9, rack: rack1" "n9-$number"
    served "n9-$number"
    holds "node $number has a block of the range that is tried next" like "$range" "$(cidrs "n9-$number")"
    say "That range is suspended, so the next node is served from the next one"
    run kubectl patch clustercidr "order-$number" --type=merge --patch '{"spec": {"suspend": true}}'
done

say "Now there is none, and the node is told why"
nodes "node: n9, rack: rack1" n9-6
waits n9-6 "order-1: it is suspended"
