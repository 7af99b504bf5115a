//! Addresses to listen at, as people type them.

use std::net::{IpAddr, SocketAddr};

use super::failure::Failure;

/// An address to listen at, as people type it.
pub(super) fn address(flag: &str, text: &str) -> Result<SocketAddr, Failure> {
    // `:0` and `localhost:9770` are what people type.
    let spelled = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None if text.starts_with(':') => format!("127.0.0.1{text}"),
        None => text.to_owned(),
    };
    spelled.parse().map_err(|_| {
        let hint = match (text.parse::<u16>(), text.parse::<IpAddr>()) {
            (Ok(port), _) => format!("use `{flag} 127.0.0.1:{port}`"),
            (_, Ok(ip)) => format!("add a port: `{flag} {}`", SocketAddr::new(ip, 9770)),
            _ => format!("for example `{flag} 127.0.0.1:9770`, or 0.0.0.0:9770 for every interface"),
        };
        Failure::usage(format!("{flag}: expected an IP address and a port, found `{text}`")).with_hint(hint)
    })
}
