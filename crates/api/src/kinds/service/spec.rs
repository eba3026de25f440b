//! `Spec`: what a Service says, looked up once. Its rules ask for the same few fields again and again.

use serde_json::{Map, Value};

use crate::object::Object;

/// What a Service says; what is absent is empty.
#[derive(Clone, Copy, Default)]
pub(super) struct Spec<'a> {
    /// `type`.
    pub(super) kind: &'a str,
    pub(super) ports: &'a [Value],
    pub(super) selector: Option<&'a Map<String, Value>>,
    /// `clusterIP`.
    pub(super) address: &'a str,
    /// `clusterIPs`.
    pub(super) addresses: &'a [Value],
    /// `ipFamilies`.
    pub(super) families: &'a [Value],
    /// `ipFamilyPolicy`.
    pub(super) family_policy: Option<&'a Value>,
    pub(super) external_name: &'a str,
    pub(super) external_ips: &'a [Value],
    /// `externalTrafficPolicy`.
    pub(super) external_policy: &'a str,
    /// `internalTrafficPolicy`.
    pub(super) internal_policy: Option<&'a str>,
    /// `trafficDistribution`.
    pub(super) distribution: Option<&'a str>,
    /// `healthCheckNodePort`.
    pub(super) health_check: i64,
    /// `sessionAffinity`.
    pub(super) affinity: &'a str,
    /// `sessionAffinityConfig`.
    pub(super) affinity_config: Option<&'a Value>,
    /// `allocateLoadBalancerNodePorts`.
    pub(super) allocates_node_ports: Option<&'a Value>,
    /// `loadBalancerIP`.
    pub(super) balancer: &'a str,
    /// `loadBalancerClass`.
    pub(super) class: Option<&'a Value>,
    /// `loadBalancerSourceRanges`.
    pub(super) source_ranges: &'a [Value],
}

impl<'a> Spec<'a> {
    pub(super) fn of(service: &'a Object) -> Self {
        let mut spec = Self::default();
        let Some(Value::Object(fields)) = service.fields().get("spec") else { return spec };
        for (name, value) in fields {
            let text = || value.as_str().unwrap_or_default();
            let items = || value.as_array().map_or(&[][..], Vec::as_slice);
            let given = Some(value).filter(|value| !value.is_null());
            match name.as_str() {
                "type" => spec.kind = text(),
                "ports" => spec.ports = items(),
                "selector" => spec.selector = value.as_object(),
                "clusterIP" => spec.address = text(),
                "clusterIPs" => spec.addresses = items(),
                "ipFamilies" => spec.families = items(),
                "ipFamilyPolicy" => spec.family_policy = given,
                "externalName" => spec.external_name = text(),
                "externalIPs" => spec.external_ips = items(),
                "externalTrafficPolicy" => spec.external_policy = text(),
                "internalTrafficPolicy" => spec.internal_policy = value.as_str(),
                "trafficDistribution" => spec.distribution = value.as_str(),
                "healthCheckNodePort" => spec.health_check = value.as_i64().unwrap_or(0),
                "sessionAffinity" => spec.affinity = text(),
                "sessionAffinityConfig" => spec.affinity_config = given,
                "allocateLoadBalancerNodePorts" => spec.allocates_node_ports = given,
                "loadBalancerIP" => spec.balancer = text(),
                "loadBalancerClass" => spec.class = given,
                "loadBalancerSourceRanges" => spec.source_ranges = items(),
                _ => {}
            }
        }
        spec
    }

    pub(super) fn is_balanced(&self) -> bool {
        self.kind == "LoadBalancer"
    }

    /// Whether it can be reached from outside of the cluster.
    pub(super) fn is_external(&self) -> bool {
        match self.kind {
            "NodePort" | "LoadBalancer" => true,
            "ClusterIP" => !self.external_ips.is_empty(),
            _ => false,
        }
    }

    /// Whether it has no address of its own and says so.
    pub(super) fn is_headless(&self) -> bool {
        matches!(self.addresses, [only] if only == "None")
    }

    /// Whether load balancers ask each node if it has a pod of it.
    pub(super) fn needs_health_check(&self) -> bool {
        self.is_balanced() && self.external_policy == "Local"
    }
}

/// The texts among the items of a list.
pub(super) fn texts(items: &[Value]) -> impl Iterator<Item = &str> {
    items.iter().filter_map(Value::as_str)
}
