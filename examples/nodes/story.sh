# What the stories of ranges of nodes have in common. A node is an object like any other: no machine has to be behind it. Everything that
# a story makes has the label `story`, and goes in the end.

. "$(dirname "${BASH_SOURCE[0]}")/../story.sh"

# nodes LABELS NAME...: makes nodes with these labels, as YAML has them.
nodes() {
    local labels=$1 name
    shift
    printf '$ kubectl create -f -  # nodes %s with {%s}\n' "$*" "$labels"
    for name in "$@"; do
        printf 'apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {story: %s, %s}}\n---\n' "$name" "$story" "$labels"
    done | kubectl create -f - >/dev/null
}

# served NODE...: waits until each has its pod CIDRs.
served() {
    kubectl wait --for='jsonpath={.spec.podCIDRs}' "${@/#/node/}" --timeout=30s >/dev/null
    run kubectl get nodes --selector "story=$story" --output 'custom-columns=NAME:.metadata.name,PODCIDRS:.spec.podCIDRs'
}

# cidrs NODE: its pod CIDRs, with commas between them.
cidrs() {
    kubectl get node "$1" --output 'jsonpath={.spec.podCIDRs}' | tr -d '[]"'
}

# like PATTERN TEXT: whether a text is as a pattern of bash says.
like() {
    # shellcheck disable=SC2053 # it is meant to be a pattern
    [[ $2 == $1 ]]
}

# ready RANGE...: waits until each serves nodes.
ready() {
    run kubectl wait --for=condition=Accepted "${@/#/clustercidr/}" --timeout=30s
}

# waits NODE REASON: waits for the event that says why a node has no pod CIDRs.
waits() {
    eventually told "$1" "$2"
    run kubectl get events --namespace default --field-selector "involvedObject.name=$1"
}

# told NODE TEXT: whether an event about a node says this.
told() {
    kubectl get events --namespace default --field-selector "involvedObject.name=$1" --output 'jsonpath={.items[*].message}' |
        grep -qF -- "$2"
}

# says RANGE JSONPATH PATTERN: whether the status of a range is like this.
says() {
    like "$3" "$(kubectl get clustercidr "$1" --output "jsonpath={.status.$2}")"
}

leave_nothing() {
    kubectl delete nodes --selector "story=$story" --ignore-not-found --wait=false
    kubectl delete clustercidrs --selector "story=$story" --ignore-not-found
}
