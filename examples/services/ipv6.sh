#!/usr/bin/env bash
# IPv6 as it is planned everywhere else: Services get addresses out of a whole /64.
#
# For a cluster that has IPv6: `cadastre up --service-cluster-ip-range=10.0.0.0/24,fd00:10::/112`. Set KUBECONFIG, then run it.
. "$(dirname "$0")/story.sh"
ranges=(sixty-four too-large)

say "A range of 18,446,744,073,709,551,615 addresses"
run kubectl apply -f ipv6.yaml
run kubectl wait --for=condition=Ready servicecidr/sixty-four --timeout=30s

say "Services get addresses of it: a range with more room gives more, so it is this one"
run kubectl apply --namespace "$story" -f ipv6-services.yaml
run kubectl get services --namespace "$story"
for service in first second third; do
    holds "$service has an address of the /64" test "$(address "$service" | cut -d: -f1-2)" = fd00:64
done

say "Any address of it can be asked for, also the last one"
run kubectl apply --namespace "$story" -f ipv6-last.yaml
holds "the last address is in use" kubectl get ipaddress fd00:64::ffff:ffff:ffff:ffff

say "An address has one name only, however it is written"
refused 'must be in canonical form ("fd00:64::a")' kubectl create -f ipv6-odd.yaml

say "A range that is too large to give out anything says so"
run kubectl apply -f ipv6-too-large.yaml
run kubectl wait --for=condition=Ready=false servicecidr/too-large --timeout=30s
run kubectl get servicecidr too-large -o 'jsonpath={.status.conditions[0].message}{"\n"}'
