#!/usr/bin/env bash
# Both families: a second one joins a range, and a Service gains and loses its second address. The first stays what it is.
#
# For a cluster that has both: `cadastre up --service-cluster-ip-range=10.0.0.0/24,fd00:10::/112`. Set KUBECONFIG, then run it.
. "$(dirname "$0")/story.sh"
ranges=(more)

addresses() {
    field "service/$1" '{.spec.clusterIPs[*]}'
}

say "A Service of one family"
run kubectl create service clusterip web --tcp=80 --namespace "$story"
first=$(address web)
holds "it has one address" test "$(addresses web)" = "$first"

say "It becomes one of both"
run kubectl patch service web --namespace "$story" --patch '{"spec": {"ipFamilyPolicy": "PreferDualStack"}}'
run kubectl get service web --namespace "$story" -o 'jsonpath={.spec.clusterIPs}{"\n"}'
second=$(field service/web '{.spec.clusterIPs[1]}')
holds "the first address stayed" test "$(address web)" = "$first"
holds "the second address is one of IPv6, and is the Service's" \
    test "$(kubectl get ipaddress "$second" -o 'jsonpath={.spec.parentRef.name}')" = web

say "And one of one family again"
run kubectl patch service web --namespace "$story" --patch '{"spec": {"ipFamilyPolicy": "SingleStack"}}'
holds "it has the first address alone" test "$(addresses web)" = "$first"
refused "not found" kubectl get ipaddress "$second"

say "A range of one family, which a second one joins"
run kubectl apply -f more.yaml
refused "the provided network does not match the current range" \
    kubectl create service clusterip late --tcp=80 --clusterip=fd00:1::7 --namespace "$story"
run kubectl apply -f grown.yaml
run kubectl get servicecidr more
run kubectl create service clusterip late --tcp=80 --clusterip=fd00:1::7 --namespace "$story"

say "What is there already cannot be changed"
refused "field is immutable" kubectl patch servicecidr more --type=merge --patch '{"spec": {"cidrs": ["10.1.0.0/25", "fd00:1::/112"]}}'
