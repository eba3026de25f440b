#!/usr/bin/env bash
# A range is given up, and with it the size of blocks: nodes move when they are replaced, and the range goes with the last of them.
#
# For a cluster without nodes and ranges of its own. Set KUBECONFIG, then run it.
. "$(dirname "$0")/story.sh"

say "Two ranges; the one with the higher priority serves"
run kubectl apply -f retire.yaml
ready old new
nodes "pool: web" web-1 web-2
served web-1 web-2
holds "web-1 has a /24 of the old range" like '10.8.*/24' "$(cidrs web-1)"

say "It is suspended: who has a block keeps it, nobody gets one"
run kubectl patch clustercidr old --type=merge --patch '{"spec": {"suspend": true}}'
nodes "pool: web" web-3
served web-3
holds "web-3 has a /23 of the new range" like '10.9.*/23' "$(cidrs web-3)"

say "What blocks were cut by cannot be changed"
refused "PerNodeHostBits cannot be changed." kubectl patch clustercidr old --type=merge --patch '{"spec": {"perNodeHostBits": 9}}'

say "It is deleted, and stays as long as nodes have blocks of it; it says which"
run kubectl delete clustercidr old --wait=false
eventually says old nodes '?"web-1","web-2"?'
run kubectl get clustercidr old --output 'jsonpath={.status.conditions[?(@.type=="Terminating")].message}{"\n"}'

say "Nodes are replaced one by one"
for node in web-1 web-2; do
    run kubectl delete node "$node"
    nodes "pool: web" "$node"
done
served web-1 web-2
holds "web-1 has a /23 of the new range" like '10.9.*/23' "$(cidrs web-1)"

say "With the last one the range went"
run kubectl wait --for=delete clustercidr/old --timeout=30s
run kubectl get clustercidrs
