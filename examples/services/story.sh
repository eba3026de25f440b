# What the stories beside this file have in common: each says what it does, shows its commands, and stops where something is not as it
# says. It works in a namespace of its own, which goes in the end.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

story=$(basename "$0" .sh)

# say WORDS: what comes next.
say() {
    printf '\n# %s\n' "$*"
}

# run COMMAND: shows a command and what it prints.
run() {
    printf '$ %s\n' "$*"
    "$@"
}

# refused TEXT COMMAND: the command must fail, and say this.
refused() {
    local text=$1 said
    shift
    printf '$ %s\n' "$*"
    if said=$("$@" 2>&1); then
        printf 'WRONG: this was to be refused\n%s\n' "$said" >&2
        return 1
    fi
    holds "it is refused: $text" grep -qF -- "$text" <<<"$said"
}

# holds CLAIM COMMAND: the command must succeed.
holds() {
    local claim=$1
    shift
    if "$@"; then
        printf 'ok: %s\n' "$claim"
    else
        printf 'WRONG: it is not so that %s\n' "$claim" >&2
        return 1
    fi
}

# eventually COMMAND: the command must succeed before long.
eventually() {
    local tries
    printf '$ %s\n' "$*"
    for tries in $(seq 100); do
        "$@" 2>/dev/null && return
        sleep 0.1
    done
    printf 'WRONG: this does not come to be\n' >&2
    return 1
}

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

# Leaves nothing behind, however it ends.
clean_up() {
    local result=$?
    say "Cleaning up"
    kubectl delete namespace "$story" --ignore-not-found >/dev/null
    for range in "${ranges[@]}"; do
        kubectl delete servicecidr "$range" --ignore-not-found >/dev/null
    done
    ((result == 0)) && printf '\nAll of it is as it should be.\n'
    exit "$result"
}

# The ranges that a story makes.
ranges=()
trap clean_up EXIT
run kubectl create namespace "$story"
