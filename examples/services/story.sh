# What the stories of ranges of Services have in common. Each works in a namespace of its own, which goes in the end.

. "$(dirname "${BASH_SOURCE[0]}")/../story.sh"

# field OBJECT JSONPATH: one field of an object in the namespace of the story.
field() {
    kubectl get "$1" --namespace "$story" --output "jsonpath=$2"
}

# address SERVICE: its address.
address() {
    field "service/$1" '{.spec.clusterIP}'
}

# within CIDR ADDRESS: whether a range of 256 addresses has it.
within() {
    [[ $2 == "${1%.0/24}".* ]]
}

leave_nothing() {
    kubectl delete namespace "$story" --ignore-not-found
    for range in "${ranges[@]}"; do
        kubectl delete servicecidr "$range" --ignore-not-found
    done
}

# The ranges that a story makes.
ranges=()
run kubectl create namespace "$story"
