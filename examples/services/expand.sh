#!/usr/bin/env bash
# More room: the range that the server was started with is full, so another one is added. Nothing is restarted.
#
# For `cadastre up` as it is by itself, with the range 10.0.0.0/24. Set KUBECONFIG, then run it.
. "$(dirname "$0")/story.sh"
ranges=(more)

# services FROM TO: as many Services, as YAML.
services() {
    local number
    for number in $(seq "$1" "$2"); do
        printf 'apiVersion: v1\nkind: Service\nmetadata: {name: fill-%s}\nspec: {ports: [{port: 80}]}\n---\n' "$number"
    done
}

say "These are the ranges, and this is how many addresses are in use"
run kubectl get servicecidrs
kubectl get ipaddresses --no-headers | wc -l

say "Services until nothing is free: 260 of them, for a range of 254"
services 1 260 >"${TMPDIR:-/tmp}/$story.yaml"
refused "range is full" kubectl create --namespace "$story" -f "${TMPDIR:-/tmp}/$story.yaml"
rm "${TMPDIR:-/tmp}/$story.yaml"
refused "range is full" kubectl create service clusterip web --tcp=80 --namespace "$story"

say "Another range"
run cat more.yaml
run kubectl apply -f more.yaml
run kubectl wait --for=condition=Ready servicecidr/more --timeout=30s

say "The next Service has an address of it"
run kubectl create service clusterip web --tcp=80 --namespace "$story"
run kubectl get service web --namespace "$story"
holds "the address is in 10.1.0.0/24" within 10.1.0.0/24 "$(address web)"
run kubectl get ipaddress "$(address web)"
holds "what is written of the address names the Service" \
    test "$(kubectl get ipaddress "$(address web)" -o 'jsonpath={.spec.parentRef.namespace}/{.spec.parentRef.name}')" = "$story/web"
