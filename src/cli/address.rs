//! Addresses to listen at, as people type them.

use std::net::SocketAddr;

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
        Failure::usage(format!("{flag}: expected an IP address and a port, found `{text}`"))
            .with_hint(format!("for example {flag} 127.0.0.1:9770, or 0.0.0.0:9770 for every interface"))
    })
}
