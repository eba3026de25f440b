#!/usr/bin/env bash
# Less room: a range is replaced by its first half. Services in that half keep their addresses; one in the other half keeps the old range
# until it goes.
#
# For any `cadastre up`. Set KUBECONFIG, then run it.
. "$(dirname "$0")/story.sh"
ranges=(wide narrow)

say "A range, and a Service in each half of it"
run kubectl apply -f wide.yaml
run kubectl create service clusterip low --tcp=80 --clusterip=10.2.0.7 --namespace "$story"
run kubectl create service clusterip high --tcp=80 --clusterip=10.2.1.7 --namespace "$story"
run kubectl get services --namespace "$story"

say "The range that is to be left, and the old one is deleted"
run kubectl apply -f narrow.yaml
run kubectl delete servicecidr wide --wait=false

say "It stays, because 10.2.1.7 is in no other range; but it gives out nothing any more"
run kubectl wait --for=condition=Ready=false servicecidr/wide --timeout=30s
run kubectl describe servicecidr wide
holds "it says what it waits for" \
    test "$(kubectl get servicecidr wide -o 'jsonpath={.status.conditions[?(@.type=="Ready")].reason}')" = Terminating
refused "the provided network does not match the current range" \
    kubectl create service clusterip late --tcp=80 --clusterip=10.2.1.8 --namespace "$story"

say "What is in use is protected"
refused "Service $story/high has this address" kubectl delete ipaddress 10.2.1.7

say "With the last Service that needs it, the old range goes"
run kubectl delete service high --namespace "$story"
run kubectl wait --for=delete servicecidr/wide --timeout=30s
run kubectl get servicecidrs
holds "the Service in the other half has the address that it had" test "$(address low)" = 10.2.0.7
