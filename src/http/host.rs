//! Checks what hyper does not check of a request's head: target and `Host` (RFC 9112 §3.2), and the transfer codings (§6.1).

use std::cell::RefCell;

use hyper::header::{HOST, HeaderMap};
use hyper::{Method, Uri, Version};

use crate::contract::error::ErrorKind;
use crate::contract::keys::values_of;
use crate::contract::routes::ALL_OF_SERVER;
use crate::http::body::has_other_transfer_coding;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadProblem {
    #[error("the Host header is missing")]
    Missing,
    #[error("there is more than one Host header")]
    Doubled,
    #[error("the host is malformed")]
    Malformed,
    #[error("the request target must be a path")]
    NoPath,
    #[error("the only transfer coding accepted is chunked")]
    TransferCoding,
}

thread_local! {
    /// The last host that was well-formed: a client sends the same one with each request.
    static LAST_HOST: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl HeadProblem {
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::TransferCoding => ErrorKind::NotImplemented,
            Self::Missing | Self::Doubled | Self::Malformed | Self::NoPath => ErrorKind::BadRequest,
        }
    }
}

/// Checks the head of a request; returns the host that it names, with its port as written, empty for HTTP/1.0 without
/// `Host`. With an absolute target that is the target's, and `Host` is only checked (RFC 9112 §3.2.2).
pub fn check_head<'r>(
    method: &Method,
    uri: &'r Uri,
    version: Version,
    headers: &'r HeaderMap,
) -> Result<&'r [u8], HeadProblem> {
    if has_other_transfer_coding(headers) {
        return Err(HeadProblem::TransferCoding);
    }
    let is_for_server = *method == Method::OPTIONS && uri.path() == ALL_OF_SERVER;
    if *method == Method::CONNECT || !(uri.path().starts_with('/') || is_for_server) {
        return Err(HeadProblem::NoPath);
    }
    let mut values = values_of(headers, &HOST);
    let host = match (values.next(), values.next()) {
        (Some(_), Some(_)) => return Err(HeadProblem::Doubled),
        (Some(value), None) if is_host(value.as_bytes()) => value.as_bytes(),
        (Some(_), None) => return Err(HeadProblem::Malformed),
        (None, _) if version < Version::HTTP_11 => b"",
        (None, _) => return Err(HeadProblem::Missing),
    };
    match uri.authority() {
        Some(authority) if is_host(authority.as_str().as_bytes()) => Ok(authority.as_str().as_bytes()),
        Some(_) => Err(HeadProblem::Malformed),
        None => Ok(host),
    }
}

fn is_host(bytes: &[u8]) -> bool {
    LAST_HOST.with_borrow_mut(|last| {
        if last == bytes && !last.is_empty() {
            return true;
        }
        let is_host = std::str::from_utf8(bytes).is_ok_and(|host| host_name(host).is_some());
        if is_host {
            last.clear();
            last.extend_from_slice(bytes);
        }
        is_host
    })
}

/// True if a registered name may contain this byte (RFC 3986 §3.2.2).
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte)
}

/// The host without its port; `None` if the text is not a host. IPv6 literals keep their brackets.
pub fn host_name(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let end = rest.find(']')? + 2;
            let literal = &host[1..end - 1];
            literal.parse::<std::net::Ipv6Addr>().ok()?;
            (&host[..end], &host[end..])
        }
        None => host.split_at(host.bytes().position(|byte| byte == b':').unwrap_or(host.len())),
    };
    let is_name = name.starts_with('[') || (!name.is_empty() && name.bytes().all(is_name_byte));
    let is_port = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| port.is_empty() || (!port.starts_with('+') && port.parse::<u16>().is_ok()));
    (is_name && is_port).then_some(name)
}
