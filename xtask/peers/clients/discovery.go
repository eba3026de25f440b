package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

var discoveryChecks = []check{
	{"discovery: the cache and the mapper know every kind that is used here", mapping},
	{"discovery: openapi documents are there for each group", openapi},
}

func mapping(w *world) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(w.wired)
	if err != nil {
		return "", err
	}
	cached := memory.NewMemCacheClient(client)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	for kind, resource := range map[schema.GroupKind]string{
		{Kind: "ConfigMap"}: "configmaps", {Kind: "Endpoints"}: "endpoints", {Kind: "Namespace"}: "namespaces",
		{Group: "coordination.k8s.io", Kind: "Lease"}:      "leases",
		{Group: "discovery.k8s.io", Kind: "EndpointSlice"}: "endpointslices",
		{Group: "networking.k8s.io", Kind: "ServiceCIDR"}:  "servicecidrs",
		{Group: "networking.k8s.io", Kind: "IPAddress"}:    "ipaddresses",
		{Group: "events.k8s.io", Kind: "Event"}:            "events",
	} {
		mapped, err := mapper.RESTMapping(kind)
		if err != nil || mapped.Resource.Resource != resource {
			return "", fmt.Errorf("%v is mapped to %v: %v", kind, mapped, err)
		}
	}
	expander := restmapper.NewShortcutExpander(mapper, cached, nil)
	for short, long := range map[string]string{"cm": "configmaps", "svc": "services", "ns": "namespaces", "sa": "serviceaccounts", "ep": "endpoints"} {
		found, err := expander.ResourceFor(schema.GroupVersionResource{Resource: short})
		if err != nil || found.Resource != long {
			return "", fmt.Errorf("%s is %v: %v", short, found, err)
		}
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{Group: "no.such.group", Kind: "Nothing"}); err == nil {
		return "", fmt.Errorf("a kind that is not served has a mapping")
	}
	version, err := cached.ServerVersion()
	if err != nil || version.Minor == "" {
		return "", fmt.Errorf("version: %v %v", version, err)
	}
	_, lists, err := cached.ServerGroupsAndResources()
	if err != nil {
		return "", err
	}
	namespaced, err := discovery.ServerPreferredNamespacedResources(cached)
	if err != nil || len(namespaced) == 0 {
		return "", fmt.Errorf("namespaced: %v %v", namespaced, err)
	}
	return fmt.Sprintf("%s, %d group versions", version.GitVersion, len(lists)), nil
}

func openapi(w *world) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(w.wired)
	if err != nil {
		return "", err
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return "", err
	}
	for _, path := range []string{"api/v1", "apis/coordination.k8s.io/v1", "apis/networking.k8s.io/v1", "apis/discovery.k8s.io/v1"} {
		group, there := paths[path]
		if !there {
			return "", fmt.Errorf("no %s", path)
		}
		if document, err := group.Schema("application/json"); err != nil || len(document) == 0 {
			return "", fmt.Errorf("%s: %v", path, err)
		}
	}
	return "", nil
}
