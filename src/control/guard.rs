//! Checks who may call the control API. Loopback does not protect it: a web page can reach it by DNS rebinding or a cross-site
//! POST. So the host, the origin and the content type are checked, and beyond loopback a token is required.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use hyper::Method;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;

use super::ControlError;
use crate::clock::machine;
use crate::contract::error::ErrorKind;
use crate::http::host::host_name;
use crate::util::wording::{counted, quoted};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// A header that no form can set. With the value `1` it replaces the content type of a POST without a body.
const MARK: HeaderName = HeaderName::from_static("x-emulator-control");

/// Who may call.
#[derive(Clone, Debug, Default)]
pub struct Access {
    token: Option<ControlToken>,
    hosts: BTreeSet<String>,
}

#[derive(Clone)]
struct ControlToken(String);

impl std::fmt::Debug for ControlToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ControlToken(…)")
    }
}

/// Wrong tokens, reported in at most one line a second.
#[derive(Debug)]
pub struct WrongTokens {
    /// How long each waits for its answer.
    pub(super) pause: Duration,
    /// When the last line was, and how many came since.
    last: Mutex<Option<(Instant, u64)>>,
}

impl WrongTokens {
    pub fn new(pause: Duration) -> Self {
        Self { pause, last: Mutex::default() }
    }

    /// The line for one that came from this address; `None` if it is only counted, for the next line.
    pub(super) fn line(&self, peer: IpAddr) -> Option<String> {
        self.line_at(machine::monotonic(), peer)
    }

    fn line_at(&self, now: Instant, peer: IpAddr) -> Option<String> {
        let mut last = self.last.lock();
        match &mut *last {
            Some((at, count)) if now.duration_since(*at) < Duration::from_secs(1) => {
                *count += 1;
                None
            }
            last => match last.replace((now, 0)) {
                None | Some((_, 0)) => Some(format!("{peer} sent a wrong control token")),
                Some((_, count)) => {
                    Some(format!("{} came, the last from {peer}", counted(count + 1, "more wrong control token")))
                }
            },
        }
    }
}

impl Access {
    /// Calls require `token` if one is given; `hosts` are accepted besides local names.
    pub fn new(token: Option<String>, hosts: &[String]) -> Self {
        // An empty token would admit every caller.
        let token = token.filter(|token| !token.is_empty());
        Self { token: token.map(ControlToken), hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect() }
    }

    /// Refuses calls that a page of another site could make a browser send. A call that changes something has one of the `accepted`
    /// content types: none of them can be sent across origins without a preflight, which is never granted.
    pub(super) fn check_origin(
        &self,
        parts: &Parts,
        host: &str,
        accepted: &[&str],
        has_body: bool,
    ) -> Result<(), ControlError> {
        self.check_host(host)?;
        check_site(parts, host)?;
        let headers = &parts.headers;
        if accepted.is_empty() || accepted.iter().any(|media| is_of_type(headers, media)) {
            return Ok(());
        }
        let mut expected = accepted.join(" or ");
        if !has_body {
            // A form of another site can send a POST without a body. A browser then sends one of these headers. Every other method
            // requires a preflight anyway.
            let in_browser = headers.contains_key(ORIGIN) || headers.contains_key(FETCH_SITE);
            let is_marked = headers.get(MARK).is_some_and(|value| value == "1");
            if parts.method != Method::POST || is_marked || !in_browser {
                return Ok(());
            }
            expected.push_str(", or X-Emulator-Control: 1");
        }
        Err(ControlError::new(ErrorKind::UnsupportedMediaType, format!("send Content-Type: {expected}")))
    }

    /// Refuses requests for the page's files that a page of another site sends. The page itself may be opened from anywhere: by a
    /// link, or by typing its address.
    pub(super) fn check_page(&self, parts: &Parts, host: &str, is_page: bool) -> Result<(), ControlError> {
        self.check_host(host)?;
        let is = |name: HeaderName, expected: &str| parts.headers.get(name).is_some_and(|value| value == expected);
        if is_page && is(FETCH_MODE, "navigate") && is(FETCH_DEST, "document") {
            return Ok(());
        }
        check_site(parts, host)
    }

    /// Refuses hosts that are neither local nor allowed.
    fn check_host(&self, host: &str) -> Result<(), ControlError> {
        // A browser always sends a host, so a call without one does not come from a page.
        let name = host_name(host).unwrap_or_default();
        if host.is_empty() || self.is_known_host(name) {
            return Ok(());
        }
        let message = format!(
            "the control API does not answer to the host `{}`; start with --allow-host {0} if it is yours",
            quoted(name)
        );
        Err(ControlError::other_host(message))
    }

    /// True if calls require a token.
    pub(super) fn requires_token(&self) -> bool {
        self.token.is_some()
    }

    /// Requires the token, if there is one; compares in constant time.
    pub(super) fn check_token(&self, parts: &Parts) -> Result<(), ControlError> {
        let Some(ControlToken(token)) = &self.token else { return Ok(()) };
        let sent = parts.headers.get(AUTHORIZATION).map(hyper::http::HeaderValue::as_bytes).unwrap_or_default();
        let sent = match sent.split_at_checked(7) {
            Some((scheme, sent)) if scheme.eq_ignore_ascii_case(b"bearer ") => sent.trim_ascii(),
            _ => &[],
        };
        if bool::from(sent.ct_eq(token.as_bytes())) {
            return Ok(());
        }
        let problem = if sent.is_empty() { "the control API requires its token" } else { "the control token is wrong" };
        let message = format!(
            "{problem}, sent as `Authorization: Bearer TOKEN`: that of WRS_EMULATOR_CONTROL_TOKEN or --control-token at the emulator's start, or else the one printed there"
        );
        Err(ControlError::new(ErrorKind::Unauthorized, message))
    }

    /// True if a host name is local or allowed. With any other, a page whose name was rebound to this address could read answers.
    fn is_known_host(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let literal = name.trim_start_matches('[').trim_end_matches(']');
        literal.parse::<IpAddr>().is_ok()
            || is_single_label(&name)
            || name.strip_suffix(".localhost").is_some_and(|labels| labels.split('.').all(is_single_label))
            || name == "host.docker.internal"
            || self.hosts.contains(&name)
    }
}

/// Refuses what a page of another site makes a browser send.
fn check_site(parts: &Parts, host: &str) -> Result<(), ControlError> {
    let headers = &parts.headers;
    let foreign = headers.get_all(ORIGIN).iter().any(|origin| !is_own_origin(origin.as_bytes(), host));
    // Another port of this host counts as the same site, but its pages are not trusted either.
    let mut sites = headers.get_all(FETCH_SITE).iter();
    let from_elsewhere = sites.any(|site| matches!(site.as_bytes(), b"cross-site" | b"same-site"));
    if foreign || from_elsewhere {
        return Err(ControlError::new(ErrorKind::BadRequest, "calls from pages of other sites are refused")
            .coded("cross_origin"));
    }
    Ok(())
}

/// True if a name is a single label, which resolves only in this network. Only plain characters, so that no client reads another name.
fn is_single_label(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn is_own_origin(origin: &[u8], host: &str) -> bool {
    let Ok(origin) = std::str::from_utf8(origin) else { return false };
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}

fn is_of_type(headers: &HeaderMap, expected: &str) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let matches = values.next().is_some_and(|value| {
        let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
        essence.trim_ascii().eq_ignore_ascii_case(expected.as_bytes())
    });
    matches && values.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_tokens_are_a_line_a_second() {
        let (tokens, peer) = (WrongTokens::new(Duration::ZERO), IpAddr::from([192, 0, 2, 1]));
        let begun = machine::monotonic();
        let line = |millis| tokens.line_at(begun + Duration::from_millis(millis), peer);
        assert_eq!(line(0).as_deref(), Some("192.0.2.1 sent a wrong control token"));
        assert!((1..1_000).all(|millis| line(millis).is_none()));
        assert_eq!(line(1_000).as_deref(), Some("1000 more wrong control tokens came, the last from 192.0.2.1"));
        assert_eq!(line(1_500), None);
        assert_eq!(line(2_000).as_deref(), Some("2 more wrong control tokens came, the last from 192.0.2.1"));
        assert_eq!(line(9_000).as_deref(), Some("192.0.2.1 sent a wrong control token"));
    }
}
