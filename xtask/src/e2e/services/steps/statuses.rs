//! What those who make load balancers, and others, say of Services in their status. What is said of a load balancer goes when the
//! Service is none any more.

use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

/// Any status, right or wrong.
pub(super) fn status(random: &mut Seeded) -> Value {
    let mut status = json!({});
    if random.below(4) != 0 {
        status["loadBalancer"] = balancer(random);
    }
    if random.below(3) == 0 {
        status["conditions"] = conditions(random);
    }
    status
}

fn balancer(random: &mut Seeded) -> Value {
    let ingress = match random.below(12) {
        0 => return Value::Null,
        1 => return json!({}),
        2 => json!([]),
        3 => json!([{"ip": "wrong"}]),
        4 => json!([{"hostname": "A_B"}]),
        5 => json!([{"hostname": "a.b"}, {"ip": "2001:db8::9"}]),
        6 => json!([{"ip": "192.0.2.9", "ipMode": random.one_of(&["VIP", "Proxy", "Other"])}]),
        7 => json!([{"hostname": "a.b", "ipMode": "VIP"}]),
        8 => json!([{"ip": "192.0.2.9", "ports": [{"port": 80, "protocol": "TCP"}]}]),
        9 => json!([{"ip": "192.0.2.9", "ports": [{"port": 80, "protocol": "TCP", "error": "not a name!"}]}]),
        _ => json!([{"ip": "192.0.2.9"}]),
    };
    json!({"ingress": ingress})
}

fn conditions(random: &mut Seeded) -> Value {
    let time = "2026-01-02T03:04:05Z";
    let mine = json!({
        "type": "example.com/Mine", "status": random.one_of(&["True", "False"]), "reason": "R", "message": "m",
        "lastTransitionTime": time,
    });
    match random.below(6) {
        0 => Value::Null,
        1 => json!([{"type": "Ready", "status": "Maybe", "reason": "", "message": "", "lastTransitionTime": time}]),
        2 => json!([
            mine,
            {"type": "Other", "status": "Unknown", "reason": "R", "message": "m", "lastTransitionTime": time},
        ]),
        _ => json!([mine]),
    }
}

/// One of its fields replaced, for a JSON patch.
pub(super) fn json_patch(random: &mut Seeded) -> Value {
    let (path, value) = match random.below(3) {
        0 => ("/status/conditions", conditions(random)),
        _ => ("/status/loadBalancer", balancer(random)),
    };
    json!([{"op": "add", "path": path, "value": value}])
}
