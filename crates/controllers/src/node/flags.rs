//! The range that flags say: clusters that gave kube-controller-manager a range by `--cluster-cidr` keep it, as a `ClusterCIDR` that
//! is made from the same flags.
//!
//! Its name has a hash of what the flags say. When they say something else, the range before is deleted, and stays as long as
//! nodes hold blocks of it.

use std::collections::BTreeSet;

use api::Object;
use serde_json::{Value, json};
use space::Cidr;
use thiserror::Error;

/// What the names of ranges that were made from flags begin with.
const PREFIX: &str = "created-from-flags-";

/// The sizes of blocks where flags say none: as kube-controller-manager has them.
const MASK_V4: u8 = 24;
const MASK_V6: u8 = 64;

/// What the flags say, as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--cluster-cidr`: a range, or one of each family with a comma between them.
    pub cluster_cidr: String,
    /// `--node-cidr-mask-size`, for clusters of one family.
    pub mask_size: Option<u8>,
    /// `--node-cidr-mask-size-ipv4`.
    pub mask_size_ipv4: Option<u8>,
    /// `--node-cidr-mask-size-ipv6`.
    pub mask_size_ipv6: Option<u8>,
    /// `--service-cluster-ip-range`: a range, or one of each family with a comma between them.
    pub service_ranges: String,
}

/// What is wrong with the flags.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FlagError {
    /// A text is no CIDR.
    #[error("--{flag}: {text:?}: {why}")]
    NotACidr {
        /// The flag.
        flag: &'static str,
        /// The text.
        text: String,
        /// Why not.
        why: String,
    },
    /// There are more CIDRs than families.
    #[error("--{flag}: at most one CIDR of each family can be given")]
    SameFamily {
        /// The flag.
        flag: &'static str,
    },
    /// One size was given for two families.
    #[error(
        "--node-cidr-mask-size is for clusters of one family; use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6"
    )]
    OneSizeForTwo,
    /// A size was given twice.
    #[error("--node-cidr-mask-size and --node-cidr-mask-size-{0} say the same thing; use one of them")]
    TwoSizesForOne(&'static str),
    /// A block would be larger than the range.
    #[error("--node-cidr-mask-size: a block of /{mask} is larger than {range}")]
    TooLarge {
        /// The size.
        mask: u8,
        /// The range.
        range: Cidr,
    },
    /// A block would be smaller than a node can use.
    #[error("--node-cidr-mask-size: a block of /{mask} is too small; the smallest is /{smallest}")]
    TooSmall {
        /// The size.
        mask: u8,
        /// The smallest that can be.
        smallest: u8,
    },
}

/// What should be done to the ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// The object to create, if it is not there.
    pub create: Option<Value>,
    /// The names of those to delete.
    pub delete: Vec<String>,
}

impl Flags {
    /// The ranges of Services.
    pub fn services(&self) -> Result<BTreeSet<Cidr>, FlagError> {
        Ok(read("service-cluster-ip-range", &self.service_ranges)?.into_iter().collect())
    }

    /// The object that the flags say, if they say one.
    pub fn range(&self) -> Result<Option<Value>, FlagError> {
        let cidrs = read("cluster-cidr", &self.cluster_cidr)?;
        let (mask_v4, mask_v6) = self.masks(cidrs.len())?;
        let mut spec = json!({});
        for cidr in &cidrs {
            let (name, own, mask, width) = match cidr {
                Cidr::V4(_) => ("ipv4", "perNodeHostBitsIPv4", mask_v4, 32),
                Cidr::V6(_) => ("ipv6", "perNodeHostBitsIPv6", mask_v6, 128),
            };
            if mask < cidr.length() {
                return Err(FlagError::TooLarge { mask, range: *cidr });
            }
            // A node can use blocks of four bits and more: what the API takes.
            let smallest = width - 4;
            if mask > smallest {
                return Err(FlagError::TooSmall { mask, smallest });
            }
            spec[name] = json!(cidr.to_string());
            if cidrs.len() > 1 {
                spec[own] = json!(width - mask);
            }
            if spec.get("perNodeHostBits").is_none() {
                spec["perNodeHostBits"] = json!(width - mask);
            }
        }
        if matches!(cidrs.first(), Some(Cidr::V6(_))) && cidrs.len() > 1 {
            spec["primaryFamily"] = json!("IPv6");
        }
        let name = format!("{PREFIX}{:016x}", hash(sorted(&spec)));
        Ok((!cidrs.is_empty()).then(|| {
            json!({
                "apiVersion": "networking.x-k8s.io/v1", "kind": "ClusterCIDR", "metadata": {"name": name}, "spec": spec,
            })
        }))
    }

    fn masks(&self, families: usize) -> Result<(u8, u8), FlagError> {
        match (self.mask_size, self.mask_size_ipv4, self.mask_size_ipv6) {
            (None, v4, v6) => Ok((v4.unwrap_or(MASK_V4), v6.unwrap_or(MASK_V6))),
            (Some(_), Some(_), _) => Err(FlagError::TwoSizesForOne("ipv4")),
            (Some(_), _, Some(_)) => Err(FlagError::TwoSizesForOne("ipv6")),
            (Some(_), None, None) if families > 1 => Err(FlagError::OneSizeForTwo),
            (Some(mask), None, None) => Ok((mask, mask)),
        }
    }

    /// What should be done so that of all ranges that were made from flags the one remains that these say. Where one of its name is
    /// being deleted, and nodes may hold that for long, it gets a number.
    pub fn rotate<'a>(&self, ranges: impl IntoIterator<Item = &'a Object>) -> Result<Rotation, FlagError> {
        let Some(mut wanted) = self.range()? else { return Ok(Rotation::default()) };
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let is_said = |other: &str| {
            let number = other.strip_prefix(&name).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
            number.is_some_and(|number| number.is_empty() || number.parse::<u32>().is_ok())
        };
        let from_flags = ranges.into_iter().filter(|range| range.name().starts_with(PREFIX));
        let (going, staying): (Vec<&Object>, Vec<&Object>) = from_flags.partition(|range| range.is_terminating());
        let delete =
            staying.iter().filter(|range| !is_said(range.name())).map(|range| range.name().to_owned()).collect();
        let is_there = staying.iter().any(|range| is_said(range.name()));
        let names = std::iter::once(name.clone()).chain((1..=u32::MAX).map(|number| format!("{name}-{number}")));
        let free = names.into_iter().find(|name| !going.iter().any(|range| range.name() == name));
        wanted["metadata"]["name"] = json!(free);
        Ok(Rotation { create: (!is_there).then_some(wanted), delete })
    }
}

fn read(flag: &'static str, text: &str) -> Result<Vec<Cidr>, FlagError> {
    let mut cidrs: Vec<Cidr> = Vec::new();
    for text in text.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let reading = Cidr::tolerant(text);
        let cidr =
            reading.map_err(|why| FlagError::NotACidr { flag, text: text.to_owned(), why: why.to_string() })?.value;
        if cidrs.iter().any(|other| other.family() == cidr.family()) {
            return Err(FlagError::SameFamily { flag });
        }
        cidrs.push(cidr);
    }
    Ok(cidrs)
}

/// The fields of an object by name: in one order, whatever order they are kept in.
fn sorted(spec: &Value) -> BTreeSet<String> {
    spec.as_object().into_iter().flatten().map(|(name, value)| format!("{name}={value}\n")).collect()
}

/// FNV-1a: the same on every machine and in every version.
pub fn hash(texts: impl IntoIterator<Item = String>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    texts.into_iter().flat_map(String::into_bytes).fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(cluster_cidr: &str) -> Flags {
        Flags { cluster_cidr: cluster_cidr.to_owned(), ..Flags::default() }
    }

    fn spec(flags: &Flags) -> Value {
        flags.range().unwrap().unwrap()["spec"].clone()
    }

    #[test]
    fn the_sizes_of_each_family_are_what_the_flags_say() {
        assert_eq!(spec(&flags("10.0.0.0/16")), json!({"ipv4": "10.0.0.0/16", "perNodeHostBits": 8}));
        assert_eq!(spec(&flags("fd00::/48")), json!({"ipv6": "fd00::/48", "perNodeHostBits": 64}));
        assert_eq!(
            spec(&flags("10.0.0.0/16,fd00::/48")),
            json!({
                "ipv4": "10.0.0.0/16", "ipv6": "fd00::/48", "perNodeHostBits": 8, "perNodeHostBitsIPv4": 8,
                "perNodeHostBitsIPv6": 64,
            })
        );
        let reversed = spec(&flags("fd00::/48, 10.0.0.0/16"));
        assert_eq!((&reversed["primaryFamily"], &reversed["perNodeHostBits"]), (&json!("IPv6"), &json!(64)));
        let one = Flags { mask_size: Some(26), ..flags("10.0.0.0/16") };
        assert_eq!(spec(&one)["perNodeHostBits"], json!(6));
        let two = Flags { mask_size_ipv4: Some(26), mask_size_ipv6: Some(80), ..flags("10.0.0.0/16,fd00::/48") };
        assert_eq!((&spec(&two)["perNodeHostBitsIPv4"], &spec(&two)["perNodeHostBitsIPv6"]), (&json!(6), &json!(48)));
        assert_eq!(flags("").range(), Ok(None));
    }

    #[test]
    fn whatever_the_flags_say_the_api_takes() {
        for text in ["10.0.0.0/8", "fd00::/16", "10.0.0.0/16,fd00::/48", "fd00::/48,10.0.0.0/16", "10.0.0.7/16"] {
            let read = api::kinds::ClusterCidr::read(&spec(&flags(text)), api::selector::Terms::Any);
            assert!(read.is_ok(), "{text}: {read:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_the_flag() {
        for (flags, said) in [
            (flags("x"), "--cluster-cidr: \"x\": it has no prefix length (expected ADDRESS/LENGTH)"),
            (flags("10.0.0.0/8,11.0.0.0/8"), "--cluster-cidr: at most one CIDR of each family can be given"),
            (flags("10.0.0.0/25"), "--node-cidr-mask-size: a block of /24 is larger than 10.0.0.0/25"),
            (
                Flags { mask_size: Some(29), ..flags("10.0.0.0/8") },
                "--node-cidr-mask-size: a block of /29 is too small; the smallest is /28",
            ),
            (
                Flags { mask_size: Some(24), ..flags("10.0.0.0/8,fd00::/48") },
                "--node-cidr-mask-size is for clusters of one family; use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6",
            ),
            (
                Flags { mask_size: Some(24), mask_size_ipv4: Some(24), ..flags("10.0.0.0/8") },
                "--node-cidr-mask-size and --node-cidr-mask-size-ipv4 say the same thing; use one of them",
            ),
        ] {
            assert_eq!(flags.range().unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn one_range_of_all_that_were_made_from_flags_remains() {
        let object = |name: &str, going: bool| {
            let mut object = json!({"metadata": {"name": name}});
            if going {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            Object::from_value(object).unwrap()
        };
        let flags = flags("10.0.0.0/16");
        let wanted = flags.range().unwrap().unwrap();
        let name = wanted["metadata"]["name"].as_str().unwrap();
        assert_eq!(name, "created-from-flags-043f5fdf48249b42", "the name must not change between versions");
        let others =
            [object("created-from-flags-old", false), object("created-from-flags-older", true), object("own", false)];
        let rotation = flags.rotate(&others).unwrap();
        assert_eq!(
            (rotation.create.as_ref(), &rotation.delete[..]),
            (Some(&wanted), &["created-from-flags-old".to_owned()][..])
        );
        assert_eq!(flags.rotate(&[object(name, false)]).unwrap(), Rotation::default());
        // It was deleted, by hand or because flags said something else meanwhile.
        let again = |ranges: &[Object]| {
            let made = flags.rotate(ranges).unwrap().create;
            made.map(|made| (made["metadata"]["name"].as_str().unwrap().to_owned(), made["spec"] == wanted["spec"]))
        };
        let numbered = |number: u32| format!("{name}-{number}");
        assert_eq!(again(&[object(name, true)]), Some((numbered(1), true)));
        assert_eq!(again(&[object(name, true), object(&numbered(1), true)]), Some((numbered(2), true)));
        assert_eq!(again(&[object(&numbered(1), true)]), Some((name.to_owned(), true)));
        assert_eq!(again(&[object(name, true), object(&numbered(1), false)]), None);
        let with_another = [object(&format!("{name}-x"), false), object(&numbered(1), false)];
        assert_eq!(flags.rotate(&with_another).unwrap().delete, [format!("{name}-x")]);
        assert_eq!(Flags::default().rotate(&others).unwrap(), Rotation::default());
    }
}
