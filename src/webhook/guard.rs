//! The egress guard: which addresses test events may be posted to. It judges the address that is dialled: names are resolved
//! first, and IPv6 addresses that embed an IPv4 address are judged by that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far an address reaches, and so whether it may be dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Loopback, private or shared: always allowed.
    Local,
    /// On the internet: allowed only by `--allow-egress`.
    Public,
    /// Never allowed, with the reason.
    Never(&'static str),
}

/// Cloud metadata services. Alibaba's is in the shared address space, Azure's and Oracle's look like public addresses.
const METADATA: [Ipv4Addr; 4] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// Classifies an address.
pub fn judge(address: IpAddr) -> Exposure {
    match address {
        IpAddr::V4(address) => judge_v4(address),
        IpAddr::V6(address) => judge_v6(address),
    }
}

fn judge_v4(address: Ipv4Addr) -> Exposure {
    let [a, b, ..] = address.octets();
    if METADATA.contains(&address) {
        return Exposure::Never("a cloud metadata address");
    }
    match (a, b) {
        (0, _) => Exposure::Never("an address of \"this network\""),
        (169, 254) => Exposure::Never("a link-local address"),
        (224..=239, _) => Exposure::Never("a multicast address"),
        (240..=255, _) => Exposure::Never("a reserved or broadcast address"),
        (10 | 127, _) | (172, 16..=31) | (192, 168) | (100, 64..=127) => Exposure::Local,
        _ => Exposure::Public,
    }
}

fn judge_v6(address: Ipv6Addr) -> Exposure {
    let words = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        judge_v4(Ipv4Addr::new(a, b, c, d))
    };
    match words {
        [0, 0, 0, 0, 0, 0, 0, 1] => Exposure::Local,
        [0, 0, 0, 0, 0, 0, 0, 0] => Exposure::Never("the unspecified address"),
        // IPv4-mapped, IPv4-translated, IPv4-compatible, NAT64 and 6to4 all lead to an IPv4 address.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => embedded(high, low),
        [0x64, 0xff9b, 1, ..] => Exposure::Never("a local NAT64 address"),
        [0x2001, 0, ..] => Exposure::Never("a Teredo address"),
        // Amazon's and Google's, among the private addresses.
        [0xfd00, 0x0ec2, ..] | [0xfd20, 0x00ce, ..] => Exposure::Never("a cloud metadata address"),
        [first, ..] if first & 0xffc0 == 0xfe80 => Exposure::Never("a link-local address"),
        [first, ..] if first & 0xff00 == 0xff00 => Exposure::Never("a multicast address"),
        [first, ..] if first & 0xfe00 == 0xfc00 => Exposure::Local,
        _ => Exposure::Public,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_judged_by_where_they_lead() {
        for (address, expected) in [
            ("127.0.0.1", "local"),
            ("127.255.255.255", "local"),
            ("10.1.2.3", "local"),
            ("172.16.0.1", "local"),
            ("172.31.255.255", "local"),
            ("172.32.0.1", "public"),
            ("192.168.1.1", "local"),
            ("100.64.0.1", "local"),
            ("100.128.0.1", "public"),
            ("100.100.100.200", "a cloud metadata address"),
            ("0.0.0.0", "an address of \"this network\""),
            ("0.1.2.3", "an address of \"this network\""),
            ("169.254.1.1", "a link-local address"),
            ("169.254.169.254", "a cloud metadata address"),
            ("224.0.0.1", "a multicast address"),
            ("255.255.255.255", "a reserved or broadcast address"),
            ("8.8.8.8", "public"),
            ("::1", "local"),
            ("::", "the unspecified address"),
            ("fd12::1", "local"),
            ("fd00:ec2::254", "a cloud metadata address"),
            ("fd00:ec2::23", "a cloud metadata address"),
            ("fd00:ec2:ffff::1", "a cloud metadata address"),
            ("fd00:ec1:ffff::1", "local"),
            ("fd00:ec3::", "local"),
            ("fd20:ce::254", "a cloud metadata address"),
            ("fd20:ce:ffff:ffff:ffff:ffff:ffff:ffff", "a cloud metadata address"),
            ("fd20:cf::254", "local"),
            ("168.63.129.16", "a cloud metadata address"),
            ("168.63.129.17", "public"),
            ("192.0.0.192", "a cloud metadata address"),
            ("192.0.0.191", "public"),
            ("::ffff:168.63.129.16", "a cloud metadata address"),
            ("::ffff:192.0.0.192", "a cloud metadata address"),
            ("::168.63.129.16", "a cloud metadata address"),
            ("::192.0.0.192", "a cloud metadata address"),
            ("::ffff:0:168.63.129.16", "a cloud metadata address"),
            ("64:ff9b::168.63.129.16", "a cloud metadata address"),
            ("64:ff9b::192.0.0.192", "a cloud metadata address"),
            ("64:ff9b:1::168.63.129.16", "a local NAT64 address"),
            ("2002:a83f:8110::1", "a cloud metadata address"),
            ("2002:c000:c0::1", "a cloud metadata address"),
            ("fe80::1", "a link-local address"),
            ("febf::1", "a link-local address"),
            ("ff02::1", "a multicast address"),
            ("2606:4700::1111", "public"),
            ("::ffff:127.0.0.1", "local"),
            ("::ffff:169.254.169.254", "a cloud metadata address"),
            ("::ffff:8.8.8.8", "public"),
            ("::169.254.169.254", "a cloud metadata address"),
            ("64:ff9b::169.254.169.254", "a cloud metadata address"),
            ("64:ff9b::8.8.8.8", "public"),
            ("64:ff9b:1::1", "a local NAT64 address"),
            ("2002:a9fe:a9fe::1", "a cloud metadata address"),
            ("2002:7f00:1::1", "local"),
            ("2001::1", "a Teredo address"),
        ] {
            let found = match judge(address.parse().expect("an address")) {
                Exposure::Local => "local",
                Exposure::Public => "public",
                Exposure::Never(what) => what,
            };
            assert_eq!(found, expected, "{address}");
        }
    }
}
