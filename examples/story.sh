# What the stories in the folders beside this file have in common: each says what it does, shows its commands, and stops where something
# is not as it says.

set -euo pipefail
cd "$(dirname "$0")"

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

# Leaves nothing behind, however it ends: what that is, a folder says in `leave_nothing`.
clean_up() {
    local result=$?
    say "Cleaning up"
    leave_nothing >/dev/null
    ((result == 0)) && printf '\nAll of it is as it should be.\n'
    exit "$result"
}

trap clean_up EXIT
