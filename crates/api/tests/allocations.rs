//! Every write passes through the schema checks, so a body with nothing wrong in it costs them no allocation.
//!
//! A binary of its own, because it counts what passes through the allocator: nothing else may run beside it.

use std::alloc::System;

use api::schema;
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocations(work: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    work();
    region.change().allocations
}

#[test]
fn a_body_without_faults_is_checked_and_pruned_without_allocating() {
    let service = schema::definition("io.k8s.api.core.v1.Service").unwrap();
    let mut body = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "a", "labels": {"x": "y"}, "creationTimestamp": "2024-01-02T03:04:05Z"},
        "spec": {"ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}], "selector": {"app": "a"}},
        "status": {"loadBalancer": {}},
    });
    assert_eq!(allocations(|| assert!(schema::check(service, &body).is_empty())), 0);
    assert_eq!(allocations(|| schema::prune(service, &mut body)), 0);

    let pool = schema::definition("io.cncf.cni.whereabouts.v1alpha1.NodeSlicePool").unwrap();
    let body = json!({"metadata": {"name": "a"}, "spec": {"range": "10.0.0.0/8", "sliceSize": "/24"}});
    assert_eq!(allocations(|| assert!(schema::check(pool, &body).is_empty())), 0);
}
