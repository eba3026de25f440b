#!/usr/bin/env bash
# Another range in place of the one that the server was started with: Services move one by one, when it suits, and in the end the server
# is started with the new one.
#
# For `cadastre up` as it is by itself, with the range 10.0.0.0/24. Set KUBECONFIG, then run it. The cluster has 10.3.0.0/24 afterwards;
# start it as before with an empty data directory to begin again.
. "$(dirname "$0")/story.sh"
ranges=(new)

say "A Service as it was before"
run kubectl create service clusterip web --tcp=80 --namespace "$story"
holds "its address is in 10.0.0.0/24" within 10.0.0.0/24 "$(address web)"

say "The new range comes, the old one is deleted. It stays as long as its addresses are in use"
run kubectl apply -f new.yaml
run kubectl delete servicecidr kubernetes --wait=false
run kubectl wait --for=condition=Ready=false servicecidr/kubernetes --timeout=30s
run kubectl get servicecidrs

say "New Services have addresses of the new range"
run kubectl create service clusterip cart --tcp=80 --namespace "$story"
holds "its address is in 10.3.0.0/24" within 10.3.0.0/24 "$(address cart)"

say "Old ones keep theirs until they are made anew"
holds "the old Service has its old address" within 10.0.0.0/24 "$(address web)"
run kubectl delete service web --namespace "$story"
run kubectl create service clusterip web --tcp=80 --namespace "$story"
holds "now it has a new one" within 10.3.0.0/24 "$(address web)"

say "The last one is the server's own. Its address is the first of the range that the server is started with"
echo "Start the server anew with --service-cluster-ip-range=10.3.0.0/24 (all of them, if there are several), then press Enter"
read -r
run kubectl delete service kubernetes --namespace default
run kubectl wait --for=create service/kubernetes --namespace default --timeout=30s
holds "the server's own Service has the first address of the new range" \
    test "$(kubectl get service kubernetes --namespace default -o 'jsonpath={.spec.clusterIP}')" = 10.3.0.1

say "Nothing is left in the old range, so it went, and the server made its range anew as it was started with"
eventually kubectl wait --for='jsonpath={.spec.cidrs[0]}=10.3.0.0/24' servicecidr/kubernetes --timeout=30s
run kubectl get servicecidrs,ipaddresses
holds "no address of the old range is in use" test -z "$(kubectl get ipaddresses -o name | grep -F /10.0.0. || true)"

say "The range \"new\" is not needed any more: the first range has its addresses"
run kubectl delete servicecidr new --timeout=30s
holds "the Services have what they had" within 10.3.0.0/24 "$(address cart)"
