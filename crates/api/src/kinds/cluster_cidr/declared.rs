//! What `spec.rs` and `validate_update` check, said again for servers that know this kind as a custom resource.
//!
//! The words are the same wherever CEL can say them. What it cannot do (see whether exclusions leave a whole block) the controller
//! finds, and says in the condition `Accepted`.

use crate::crd::{Bound, Constraint, Custom, Message, Rule};

pub(super) const CUSTOM_RESOURCE: Custom = Custom {
    columns: &[
        ("PerNodeHostBits", ".spec.perNodeHostBits"),
        ("IPv4", ".spec.ipv4"),
        ("IPv6", ".spec.ipv6"),
        ("NodeSelector", ".spec.nodeSelector"),
    ],
    required: &["spec"],
    constraints: &[
        // Lengths and numbers are bounded so that the cost of the rules is; the texts are longer than any that is right.
        bound("spec.ipv4", Bound::Length(64)),
        bound("spec.ipv6", Bound::Length(64)),
        bound("spec.exclude", Bound::Items(64)),
        bound("spec.exclude[]", Bound::Length(64)),
        bound("spec.requiredNodeLabels", Bound::Items(16)),
        bound("spec.requiredNodeLabels[]", Bound::Length(MOST_KEY)),
        bound(TERMS, Bound::Items(64)),
        bound(EXPRESSIONS, Bound::Items(32)),
        bound(FIELDS, Bound::Items(32)),
        bound("spec.nodeSelector.nodeSelectorTerms[].matchExpressions[].key", Bound::Length(MOST_KEY)),
        bound("spec.nodeSelector.nodeSelectorTerms[].matchFields[].key", Bound::Length(MOST_KEY)),
        bound("spec.nodeSelector.nodeSelectorTerms[].matchExpressions[].operator", Bound::Length(32)),
        bound("spec.nodeSelector.nodeSelectorTerms[].matchFields[].operator", Bound::Length(32)),
        bound("spec.nodeSelector.nodeSelectorTerms[].matchExpressions[].values", Bound::Items(1024)),
        bound("spec.nodeSelector.nodeSelectorTerms[].matchFields[].values", Bound::Items(64)),
        bound("spec.nodeSelector.nodeSelectorTerms[].matchExpressions[].values[]", Bound::Length(63)),
        bound(
            "spec.nodeSelector.nodeSelectorTerms[].matchExpressions[].values[]",
            Bound::Pattern("^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"),
        ),
        bound("spec.nodeSelector.nodeSelectorTerms[].matchFields[].values[]", Bound::Length(253)),
        // A family, and one that can be read.
        rule(
            "spec",
            Rule::new(
                "(has(self.ipv4) && self.ipv4 != '') || (has(self.ipv6) && self.ipv6 != '')",
                Message::Text("A CIDR must be specified for ipv4 or ipv6."),
            ),
        ),
        rule(
            "spec.ipv4",
            Rule::new(
                "self == '' || (isCIDR(self) && cidr(self).ip().family() == 4)",
                Message::Text("IPv4 must be a valid IPv4 CIDR."),
            ),
        ),
        rule(
            "spec.ipv6",
            Rule::new(
                "self == '' || (isCIDR(self) && cidr(self).ip().family() == 6)",
                Message::Text("IPv6 must be a valid IPv6 CIDR."),
            ),
        ),
        // Blocks that are neither too small nor larger than the range.
        rule(
            "spec",
            Rule::new(
                "self.perNodeHostBits >= 4 || ((has(self.perNodeHostBitsIPv4) || !has(self.ipv4) || self.ipv4 == '') && \
                 (has(self.perNodeHostBitsIPv6) || !has(self.ipv6) || self.ipv6 == ''))",
                LEAST,
            )
            .blaming(".perNodeHostBits"),
        ),
        rule("spec.perNodeHostBitsIPv4", Rule::new("self >= 4", LEAST)),
        rule("spec.perNodeHostBitsIPv6", Rule::new("self >= 4", LEAST)),
        rule(
            "spec",
            Rule::new(
                "has(self.perNodeHostBitsIPv4) || !has(self.ipv4) || !isCIDR(self.ipv4) || cidr(self.ipv4).ip().family() != 4 || \
                 self.perNodeHostBits <= 32 - cidr(self.ipv4).prefixLength()",
                MOST_V4,
            )
            .blaming(".perNodeHostBits"),
        ),
        rule(
            "spec",
            Rule::new(
                "has(self.perNodeHostBitsIPv6) || !has(self.ipv6) || !isCIDR(self.ipv6) || cidr(self.ipv6).ip().family() != 6 || \
                 self.perNodeHostBits <= 128 - cidr(self.ipv6).prefixLength()",
                MOST_V6,
            )
            .blaming(".perNodeHostBits"),
        ),
        rule(
            "spec",
            Rule::new(
                "!has(self.perNodeHostBitsIPv4) || !has(self.ipv4) || !isCIDR(self.ipv4) || cidr(self.ipv4).ip().family() != 4 || \
                 self.perNodeHostBitsIPv4 <= 32 - cidr(self.ipv4).prefixLength()",
                MOST_V4,
            )
            .blaming(".perNodeHostBitsIPv4"),
        ),
        rule(
            "spec",
            Rule::new(
                "!has(self.perNodeHostBitsIPv6) || !has(self.ipv6) || !isCIDR(self.ipv6) || cidr(self.ipv6).ip().family() != 6 || \
                 self.perNodeHostBitsIPv6 <= 128 - cidr(self.ipv6).prefixLength()",
                MOST_V6,
            )
            .blaming(".perNodeHostBitsIPv6"),
        ),
        rule(
            "spec",
            Rule::new(
                "!has(self.perNodeHostBitsIPv4) || (has(self.ipv4) && self.ipv4 != '')",
                Message::Text("may not be specified without `ipv4`"),
            )
            .blaming(".perNodeHostBitsIPv4")
            .forbids(),
        ),
        rule(
            "spec",
            Rule::new(
                "!has(self.perNodeHostBitsIPv6) || (has(self.ipv6) && self.ipv6 != '')",
                Message::Text("may not be specified without `ipv6`"),
            )
            .blaming(".perNodeHostBitsIPv6")
            .forbids(),
        ),
        // What may neither change nor come nor go. A rule of the field itself would not see the last two.
        rule(
            "spec",
            Rule::new(
                "(has(self.ipv4) ? self.ipv4 : '') == (has(oldSelf.ipv4) ? oldSelf.ipv4 : '')",
                Message::Text("IPv4 cannot be changed."),
            )
            .blaming(".ipv4"),
        ),
        rule(
            "spec",
            Rule::new(
                "(has(self.ipv6) ? self.ipv6 : '') == (has(oldSelf.ipv6) ? oldSelf.ipv6 : '')",
                Message::Text("IPv6 cannot be changed."),
            )
            .blaming(".ipv6"),
        ),
        rule(
            "spec",
            Rule::new(
                "has(self.nodeSelector) == has(oldSelf.nodeSelector) && \
                 (!has(self.nodeSelector) || self.nodeSelector == oldSelf.nodeSelector)",
                Message::Text("NodeSelector cannot be changed."),
            )
            .blaming(".nodeSelector"),
        ),
        rule(
            "spec",
            Rule::new(
                "self.perNodeHostBits == oldSelf.perNodeHostBits",
                Message::Text("PerNodeHostBits cannot be changed."),
            )
            .blaming(".perNodeHostBits"),
        ),
        rule(
            "spec",
            Rule::new(
                "has(self.perNodeHostBitsIPv4) == has(oldSelf.perNodeHostBitsIPv4) && \
                 (!has(self.perNodeHostBitsIPv4) || self.perNodeHostBitsIPv4 == oldSelf.perNodeHostBitsIPv4)",
                Message::Text("PerNodeHostBitsIPv4 cannot be changed."),
            )
            .blaming(".perNodeHostBitsIPv4"),
        ),
        rule(
            "spec",
            Rule::new(
                "has(self.perNodeHostBitsIPv6) == has(oldSelf.perNodeHostBitsIPv6) && \
                 (!has(self.perNodeHostBitsIPv6) || self.perNodeHostBitsIPv6 == oldSelf.perNodeHostBitsIPv6)",
                Message::Text("PerNodeHostBitsIPv6 cannot be changed."),
            )
            .blaming(".perNodeHostBitsIPv6"),
        ),
        // A selector that can choose.
        rule(
            TERMS,
            Rule::new("size(self) > 0", Message::Text("must have at least one node selector term")).requires(),
        ),
        rule(
            "spec.nodeSelector.nodeSelectorTerms[].matchExpressions[].key",
            Rule::new("!format.qualifiedName().validate(self).hasValue()", QUALIFIED),
        ),
        rule(
            EXPRESSION,
            Rule::new(
                "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
                Message::Text("must be specified when `operator` is 'In' or 'NotIn'"),
            )
            .blaming(".values")
            .requires(),
        ),
        rule(
            EXPRESSION,
            Rule::new(
                "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",
                Message::Text("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
            )
            .blaming(".values")
            .forbids(),
        ),
        rule(
            EXPRESSION,
            Rule::new(
                "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1)",
                Message::Text("must be specified single value when `operator` is 'Lt' or 'Gt'"),
            )
            .blaming(".values")
            .requires(),
        ),
        rule(
            EXPRESSION,
            Rule::new(
                "!(self.operator in ['Gt', 'Lt']) || !has(self.values) || size(self.values) != 1 || \
                 self.values[0].matches('^[+-]?[0-9]{1,19}$')",
                Message::Text("for 'Gt', 'Lt' operators, the value must be an integer"),
            )
            .blaming(".values"),
        ),
        rule(
            "spec.nodeSelector.nodeSelectorTerms[].matchFields[].key",
            Rule::new("self == 'metadata.name'", Message::Text("not a valid field selector key")),
        ),
        rule(
            "spec.nodeSelector.nodeSelectorTerms[].matchFields[].operator",
            Rule::new("self in ['In', 'NotIn']", Message::Text("not a valid selector operator")),
        ),
        rule(
            FIELD,
            Rule::new(
                "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) == 1)",
                Message::Text("must be only one value when `operator` is 'In' or 'NotIn' for node field selector"),
            )
            .blaming(".values")
            .requires(),
        ),
        // What we have besides.
        rule(
            "spec.exclude[]",
            Rule::new(
                "isCIDR(self) && cidr(self) == cidr(self).masked()",
                Message::Expression(
                    "isCIDR(self) ? 'must be a CIDR: bits are set beyond the prefix length (write %s)'.format(\
                     [string(cidr(self).masked())]) : 'must be a CIDR'",
                ),
            ),
        ),
        rule(
            "spec.requiredNodeLabels[]",
            Rule::new("!format.qualifiedName().validate(self).hasValue()", QUALIFIED),
        ),
        rule(
            "spec",
            Rule::new(
                "!has(self.primaryFamily) || self.primaryFamily != 'IPv6' || \
                 (has(self.ipv4) && self.ipv4 != '' && has(self.ipv6) && self.ipv6 != '')",
                Message::Text("may only be 'IPv6' when both `ipv4` and `ipv6` are specified"),
            )
            .blaming(".primaryFamily")
            .forbids(),
        ),
        rule(
            "spec",
            Rule::new(
                "!has(self.sizing) || !((has(self.perNodeHostBitsIPv4) || !has(self.ipv4) || self.ipv4 == '') && \
                 (has(self.perNodeHostBitsIPv6) || !has(self.ipv6) || self.ipv6 == ''))",
                Message::Text("may not be specified when every family has host bits of its own"),
            )
            .blaming(".sizing")
            .forbids(),
        ),
        rule(
            "spec",
            Rule::new(
                "!has(self.sizing) || has(self.perNodeHostBitsIPv4) || !has(self.ipv4) || !isCIDR(self.ipv4) || \
                 cidr(self.ipv4).ip().family() != 4 || [has(self.sizing.minHostBits) ? self.sizing.minHostBits : 4, \
                 has(self.sizing.maxHostBits) ? self.sizing.maxHostBits : 4].all(bits, \
                 bits <= 32 - cidr(self.ipv4).prefixLength())",
                MOST_V4,
            )
            .blaming(".sizing"),
        ),
        rule(
            "spec",
            Rule::new(
                "!has(self.sizing) || has(self.perNodeHostBitsIPv6) || !has(self.ipv6) || !isCIDR(self.ipv6) || \
                 cidr(self.ipv6).ip().family() != 6 || [has(self.sizing.minHostBits) ? self.sizing.minHostBits : 4, \
                 has(self.sizing.maxHostBits) ? self.sizing.maxHostBits : 4].all(bits, \
                 bits <= 128 - cidr(self.ipv6).prefixLength())",
                MOST_V6,
            )
            .blaming(".sizing"),
        ),
        rule("spec.sizing.minHostBits", Rule::new("self >= 4", LEAST)),
        rule("spec.sizing.maxHostBits", Rule::new("self >= 4", LEAST)),
        rule(
            "spec.sizing",
            Rule::new(
                "!has(self.minHostBits) || !has(self.maxHostBits) || self.minHostBits <= self.maxHostBits",
                Message::Expression("'must be less than or equal to `maxHostBits`, %d'.format([self.maxHostBits])"),
            )
            .blaming(".minHostBits"),
        ),
        rule(
            "spec.sizing.addressesPerPod",
            Rule::new("self >= 1 && self <= 64", Message::Text("must be between 1 and 64, inclusive")),
        ),
        rule(
            "spec.sizing",
            Rule::new(
                "!has(self.addressesPerPod) || self.from == 'PodCapacity'",
                Message::Text("may only be specified when `from` is 'PodCapacity'"),
            )
            .blaming(".addressesPerPod")
            .forbids(),
        ),
    ],
};

const TERMS: &str = "spec.nodeSelector.nodeSelectorTerms";
const EXPRESSIONS: &str = "spec.nodeSelector.nodeSelectorTerms[].matchExpressions";
const EXPRESSION: &str = "spec.nodeSelector.nodeSelectorTerms[].matchExpressions[]";
const FIELDS: &str = "spec.nodeSelector.nodeSelectorTerms[].matchFields";
const FIELD: &str = "spec.nodeSelector.nodeSelectorTerms[].matchFields[]";

/// The most characters that the key of a label can have: a subdomain, a slash, and a name.
const MOST_KEY: u64 = 253 + 1 + 63;

/// Numbers are put in by `format`: the cost of adding texts of unknown length is more than a server allows.
const LEAST: Message = Message::Text("must be greater than or equal to 4");
const MOST_V4: Message =
    Message::Expression("'must be less than or equal to %d'.format([32 - cidr(self.ipv4).prefixLength()])");
const MOST_V6: Message =
    Message::Expression("'must be less than or equal to %d'.format([128 - cidr(self.ipv6).prefixLength()])");
const QUALIFIED: Message = Message::Expression("format.qualifiedName().validate(self).value()[0]");

const fn bound(at: &'static str, bound: Bound) -> Constraint {
    Constraint { at, bound }
}

const fn rule(at: &'static str, rule: Rule) -> Constraint {
    Constraint { at, bound: Bound::Rule(rule) }
}
