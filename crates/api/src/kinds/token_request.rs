//! Token requests: a token for this `ServiceAccount`, please. Asked at the account's `/token`, so it has no path of its own.

use serde_json::Value;

use crate::field::{Errors, Path};
use crate::kind::{Kind, Stored};
use crate::object::Object;
use crate::reading::{child_mut, fill, number, part};

/// How long a token is good if nothing is said, in seconds.
const USUAL: i64 = 60 * 60;
const SHORTEST: i64 = 10 * 60;
const LONGEST: i64 = 1 << 32;

pub(super) static KIND: Kind = Kind {
    group: "authentication.k8s.io",
    kind: "TokenRequest",
    plural: "tokenrequests",
    singular: "tokenrequest",
    is_question: true,
    stored: Stored { prefix: "", api_version: "authentication.k8s.io/v1" },
    schema: "io.k8s.api.authentication.v1.TokenRequest",
    default: |object| {
        if let Some(spec) = child_mut(object.fields_mut(), "spec") {
            fill(spec, "expirationSeconds", USUAL);
        }
    },
    validate,
    ..Kind::BASE
};

fn validate(object: &Object, errors: &mut Errors) {
    let path = Path::new("spec").child("expirationSeconds");
    let seconds = number(part(object, "spec"), "expirationSeconds").unwrap_or_default();
    if seconds < SHORTEST {
        errors.invalid(&path, &Value::from(seconds), "may not specify a duration less than 10 minutes");
    }
    if seconds > LONGEST {
        errors.invalid(&path, &Value::from(seconds), "may not specify a duration larger than 2^32 seconds");
    }
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, created};
    use super::*;
    use serde_json::json;

    #[test]
    fn a_token_is_good_for_an_hour_or_as_long_as_is_said_within_reason() {
        assert_eq!(created(&KIND, json!({})).at(&["spec", "expirationSeconds"]), Some(&json!(3600)));
        let path = "spec.expirationSeconds: Invalid value:";
        check_creates(
            &KIND,
            &[
                (json!({"spec": {"expirationSeconds": 600}}), &[]),
                (
                    json!({"spec": {"expirationSeconds": 599}}),
                    &[&format!("{path} 599: may not specify a duration less than 10 minutes")],
                ),
                (
                    json!({"spec": {"expirationSeconds": 4_294_967_297_i64}}),
                    &[&format!("{path} 4294967297: may not specify a duration larger than 2^32 seconds")],
                ),
            ],
        );
    }
}
