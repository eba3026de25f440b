#!/usr/bin/env bash
# Six sizes of nodes in one range: a /26 for a node of 60 pods, a /21 for one of two thousand, and nothing is lost between them.
#
# For a cluster without nodes and ranges of its own. Set KUBECONFIG, then run it.
. "$(dirname "$0")/story.sh"

# apart: whether no two nodes of the story share an address. Blocks are whole and 10.244.0.0/16 has 1,024 pieces of 64 addresses: whoever
# has one of them alone is alone there.
apart() {
    local cidr a b c d length piece
    local -A owner=()
    while IFS=/ read -r cidr length; do
        IFS=. read -r a b c d <<<"$cidr"
        for ((piece = c * 4 + d / 64; piece < c * 4 + d / 64 + (1 << (26 - length)); piece++)); do
            [[ $a.$b == 10.244 && -z ${owner[$piece]:-} ]] || return 1
            owner[$piece]=$cidr
        done
    done < <(kubectl get nodes --selector "story=$story" --output 'jsonpath={range .items[*]}{.spec.podCIDR}{"\n"}{end}')
}

# group SIZE COUNT: so many nodes of a size.
group() {
    # shellcheck disable=SC2046 # one word each
    nodes "example.com/size: $1" $(seq -f "$1-%g" "$2")
}

say "Six ranges that are one, and a seventh for nodes that do not say their size"
run kubectl apply -f six-sizes.yaml
ready tiny small medium large xlarge huge unsized
run kubectl get clustercidrs --selector "story=$story" --output wide

say "Nodes of all sizes, in any order"
group tiny 8
group xlarge 1
group small 4
group large 2
group huge 1
nodes "example.com/size: unknown" any-1
group medium 3
served tiny-{1..8} small-{1..4} medium-{1..3} large-{1..2} xlarge-1 huge-1 any-1
for block in tiny-1:26 small-1:25 medium-1:24 large-1:23 xlarge-1:22 huge-1:21 any-1:24; do
    holds "${block%:*} has a /${block#*:}" like "10.244.*/${block#*:}" "$(cidrs "${block%:*}")"
done
holds "no two of them share an address" apart

say "Small ones go and come: blocks are taken from the low end, so what is large stays whole"
run kubectl delete node tiny-{1..8}
group tiny 8
served tiny-{1..8}
holds "still no two share an address" apart
run kubectl delete node --selector "story=$story,example.com/size in (tiny,small)" --wait=false
eventually says xlarge ipv4.free 59
nodes "example.com/size: xlarge" xlarge-{2..20}
served xlarge-{2..20}
holds "twenty large ones fit in a range that small ones have used" apart

say "A range says what is left of it, for nodes of its own size"
run kubectl get clustercidrs --selector "story=$story" --output \
    'custom-columns=NAME:.metadata.name,CAPACITY:.status.ipv4.capacity,FREE:.status.ipv4.free,LARGEST:.status.ipv4.largestFreeBlock'
