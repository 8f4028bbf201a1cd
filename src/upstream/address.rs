//! Which addresses may be dialled (DESIGN §3 passthrough, R103, R106).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Why an address may not be dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{address} is {what}: an operator opens it with `upstream.allow_private`")]
pub struct Forbidden {
    /// The address.
    pub address: IpAddr,
    /// What it is.
    pub what: &'static str,
}

/// The rules, applied after resolving to the address that is dialled.
#[derive(Debug, Clone, Default)]
pub struct AddressRules {
    allow: Vec<IpNet>,
}

impl AddressRules {
    /// Everything public, and these ranges.
    pub fn new(allow_private: Vec<IpNet>) -> AddressRules {
        AddressRules { allow: allow_private }
    }

    /// Whether an address may be dialled.
    ///
    /// An IPv6 address that carries an IPv4 one (mapped, NAT64, 6to4, …) is judged by both: a gateway on the
    /// way unwraps it.
    pub fn check(&self, address: IpAddr) -> Result<(), Forbidden> {
        let judged = match address {
            IpAddr::V4(v4) => what_v4(v4),
            IpAddr::V6(v6) => match embedded(v6) {
                // a range given for IPv4 opens its mapped spelling too, which is the same socket
                Some(v4) if v6.to_ipv4_mapped().is_some() => {
                    return self.check(IpAddr::V4(v4)).map_err(|mut f| {
                        f.address = address;
                        f
                    });
                }
                Some(v4) => what_v6(v6).or_else(|| what_v4(v4)),
                None => what_v6(v6),
            },
        };
        match judged {
            Some(what) if !self.allow.iter().any(|net| net.contains(&address)) => Err(Forbidden { address, what }),
            _ => Ok(()),
        }
    }
}

/// The IPv4 address that an IPv6 address stands for.
fn embedded(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let v4 = |hi: u16, lo: u16| Ipv4Addr::from((u32::from(hi) << 16) | u32::from(lo));
    match (a, b, c, d, e, f) {
        // ::ffff:0:0/96 mapped (RFC 4291), ::ffff:0:a.b.c.d translated (RFC 2765), ::a.b.c.d compatible
        (0, 0, 0, 0, 0, 0xffff) | (0, 0, 0, 0, 0xffff, 0) => Some(v4(g, h)),
        (0, 0, 0, 0, 0, 0) if g != 0 => Some(v4(g, h)),
        // 64:ff9b::/96 (RFC 6052) and 64:ff9b:1::/48 (RFC 8215)
        (0x64, 0xff9b, 0, 0, 0, 0) | (0x64, 0xff9b, 1, _, _, _) => Some(v4(g, h)),
        // 2002::/16 6to4 (RFC 3056)
        (0x2002, hi, lo, _, _, _) => Some(v4(hi, lo)),
        // 2001:0::/32 Teredo (RFC 4380): the client's address, inverted
        (0x2001, 0, _, _, _, _) => Some(v4(!g, !h)),
        _ => None,
    }
}

/// What a special IPv4 address is (IANA's special-purpose registry); `None` for a public one.
fn what_v4(ip: Ipv4Addr) -> Option<&'static str> {
    Some(match ip.octets() {
        [0, ..] => "unspecified (0.0.0.0/8)",
        [10, ..] | [192, 168, ..] => "private",
        [172, b, ..] if (16..32).contains(&b) => "private",
        [100, b, ..] if (64..128).contains(&b) => "shared by a carrier (100.64.0.0/10)",
        [127, ..] => "loopback",
        [169, 254, ..] => "link-local, where metadata services live",
        [192, 0, 0, _] => "reserved for protocols",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "for documentation",
        [192, 88, 99, _] => "a 6to4 relay",
        [198, 18 | 19, ..] => "for benchmarks",
        // Azure's wire server: a metadata service on a public address
        [168, 63, 129, 16] => "a metadata service",
        [255, 255, 255, 255] => "broadcast",
        [224..=239, ..] => "multicast",
        [240..=255, ..] => "reserved",
        _ => return None,
    })
}

/// What a special IPv6 address is; `None` for a public one.
fn what_v6(ip: Ipv6Addr) -> Option<&'static str> {
    if ip.is_unspecified() {
        return Some("unspecified");
    }
    if ip.is_loopback() {
        return Some("loopback");
    }
    let [a, b, c, ..] = ip.segments();
    Some(match a {
        _ if a & 0xff00 == 0xff00 => "multicast",
        _ if a & 0xfe00 == 0xfc00 => "unique local (fc00::/7)",
        _ if a & 0xffc0 == 0xfe80 => "link-local",
        _ if a & 0xffc0 == 0xfec0 => "site-local",
        0x0064 if b == 0xff9b && c == 1 => "a local translation prefix (64:ff9b:1::/48)",
        0x0100 if b == 0 => "a discard prefix",
        0x2001 if b == 0xdb8 => "for documentation",
        0x2001 if b == 2 && c == 0 => "for benchmarks",
        0x3fff if b < 0x1000 => "for documentation",
        0x5f00 => "a segment routing prefix",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allow: &[&str], address: &str) -> Result<(), Forbidden> {
        AddressRules::new(allow.iter().map(|net| net.parse().unwrap()).collect()).check(address.parse().unwrap())
    }

    #[test]
    fn public_addresses_are_allowed_also_when_they_are_embedded() {
        for public in
            ["1.1.1.1", "140.82.121.4", "2606:4700::1111", "64:ff9b::101:101", "2002:101:101::1", "::ffff:1.1.1.1"]
        {
            assert_eq!(check(&[], public), Ok(()), "{public}");
        }
    }

    #[test]
    fn a_listed_range_opens_itself_and_its_mapped_spelling_and_nothing_else() {
        assert!(check(&["10.1.0.0/16"], "10.1.2.3").is_ok());
        assert!(check(&["10.1.0.0/16"], "::ffff:10.1.2.3").is_ok());
        assert!(check(&["10.1.0.0/16"], "10.2.0.1").is_err());
        assert!(check(&["10.1.0.0/16"], "64:ff9b::a01:203").is_err(), "a gateway's spelling is opened as such");
        assert!(check(&["64:ff9b::/96"], "64:ff9b::a01:203").is_ok());
        assert!(check(&["fd00::/8"], "fd12::1").is_ok());
    }
}
