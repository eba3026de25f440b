//! The static band: the low end of a range that random picks leave alone while they can.
//!
//! People who choose an address by hand choose a low one. The sizes are those of KEP-3070 (Service addresses) and
//! KEP-3668 (node ports).

/// How many usable addresses at the low end of a Service range form the band; `size` counts all its addresses.
pub fn address_band(size: u128) -> u128 {
    band(size, 16, 256)
}

/// How many ports at the low end of a node port range of `size` form the band.
pub fn port_band(size: u128) -> u128 {
    band(size, 32, 128)
}

/// One part in `share`, but not under 16 and not over `most`; ranges of 16 or less have none.
fn band(size: u128, share: u128, most: u128) -> u128 {
    if size <= 16 { 0 } else { (size / share).clamp(16, most) }
}
