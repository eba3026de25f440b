//! Many `ServiceCIDR`s, ready to give addresses.

use std::net::Ipv4Addr;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::connection::Server;
use super::create::BUFFER;

/// So many ranges one after the other, each of that many bits.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Ranges {
    pub(crate) first: Ipv4Addr,
    pub(crate) bits: u8,
    pub(crate) number: u32,
}

impl Ranges {
    fn texts(self) -> impl Iterator<Item = String> {
        let size = 1_u32 << (32 - self.bits);
        let text = move |number| format!("{}/{}", Ipv4Addr::from(self.first.to_bits() + size * number), self.bits);
        (0..self.number).map(text)
    }
}

/// Creates them, and says of each that it is ready, which on some servers nobody else does.
pub(super) async fn create(server: &Server, ranges: Ranges) -> Result<()> {
    let path = "/apis/networking.k8s.io/v1/servicecidrs";
    let mut connection = server.connect(BUFFER).await?;
    for (number, range) in ranges.texts().enumerate() {
        let range = format!(
            "{{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"ServiceCIDR\",\"metadata\":{{\"name\":\"range-{number}\"}},\
             \"spec\":{{\"cidrs\":[\"{range}\"]}}}}"
        );
        connection.done(&server.post(path, &range), 201).await?;
        let ready = "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Ready\",\"message\":\"\",\
                     \"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]}}";
        connection.done(&server.merge(&format!("{path}/range-{number}/status"), ready), 200).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_one_after_the_other() {
        let ranges = Ranges { first: Ipv4Addr::new(10, 128, 0, 0), bits: 20, number: 17 };
        let texts: Vec<_> = ranges.texts().collect();
        assert_eq!((texts[0].as_str(), texts[1].as_str()), ("10.128.0.0/20", "10.128.16.0/20"));
        assert_eq!((texts[16].as_str(), texts.len()), ("10.129.0.0/20", 17));
    }
}
