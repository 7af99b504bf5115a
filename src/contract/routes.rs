//! The route table as data: method, path, operation, credential (contract: Endpoints); and the answer to a path that leads to no
//! endpoint, which names the nearest one, or all of them and how to answer the path from a scenario.
//!
//! The service reads this table.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use hyper::Method;

use crate::contract::named::named;

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Operation {
        SystemStatus = "system.status",
        EventsSubscribe = "events.subscribe",
        Hello = "hello",
        /// A path without an endpoint that a scenario answers. No route has it.
        Stub = "stub",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// An API key as a Bearer token; the operation is counted against the key's quota.
    Bearer,
    None,
}

#[derive(Clone, Debug)]
pub struct Route {
    /// The method; HEAD is answered wherever GET is.
    pub method: Method,
    pub path: &'static str,
    pub operation: Operation,
    pub credential: Credential,
}

/// The target of a request: an endpoint, or a path that a scenario answers.
#[derive(Clone, Copy, Debug)]
pub struct RequestTarget {
    pub operation: Operation,
    pub credential: Credential,
    pub has_body: bool,
}

impl Route {
    pub fn target(&self) -> RequestTarget {
        RequestTarget { operation: self.operation, credential: self.credential, has_body: self.has_body() }
    }

    pub fn has_body(&self) -> bool {
        self.method == Method::POST
    }

    fn takes(&self, method: &Method) -> bool {
        *method == self.method || (self.method == Method::GET && *method == Method::HEAD)
    }

    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// Every endpoint. Paths have one method each.
pub const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/v1/system/status",
        operation: Operation::SystemStatus,
        credential: Credential::Bearer,
    },
    Route {
        method: Method::POST,
        path: "/v1/events/subscribe",
        operation: Operation::EventsSubscribe,
        credential: Credential::Bearer,
    },
    Route { method: Method::GET, path: "/v1/hello", operation: Operation::Hello, credential: Credential::None },
];

/// Something the contract announces without opening it.
#[derive(Clone, Debug)]
pub struct Announced {
    pub path: &'static str,
    pub what: &'static str,
}

/// Everything announced. The OAuth path is assumed: the contract shows none.
pub const ANNOUNCED: &[Announced] = &[
    Announced { path: "/v1/workflows", what: "the workflow endpoints" },
    Announced { path: "/v1/users", what: "the read-only users endpoint" },
    Announced { path: "/v1/oauth", what: "OAuth 2.0 client credentials" },
];

#[derive(Clone, Debug)]
pub enum Lookup {
    Found(&'static Route),
    /// The path exists with other methods, given as an `Allow` value.
    MethodNotAllowed(String),
    Announced(&'static Announced),
    /// The target is [`ALL_OF_SERVER`]: the `Allow` value of all endpoints.
    Server(String),
    Unknown,
}

/// The target of an OPTIONS request for the server as a whole (RFC 9112 §3.2.4).
pub const ALL_OF_SERVER: &str = "*";

/// Looks a request up by its [`plain_path`]; `//`, a trailing slash, `%2F`, `%00` and `%2e%2e` lead nowhere.
pub fn look_up(method: &Method, path: &str) -> Lookup {
    if path == ALL_OF_SERVER {
        let methods: BTreeMap<_, _> = ROUTES.iter().map(|route| (route.method.as_str(), &route.method)).collect();
        return Lookup::Server(allow(methods.into_values()));
    }
    if let Some(route) = ROUTES.iter().find(|route| route.path == path) {
        let is_taken = route.takes(method);
        return if is_taken {
            Lookup::Found(route)
        } else {
            Lookup::MethodNotAllowed(allow([&route.method].into_iter()))
        };
    }
    let announced = ANNOUNCED
        .iter()
        .find(|entry| path.strip_prefix(entry.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    announced.map_or(Lookup::Unknown, Lookup::Announced)
}

/// The `Allow` value of a path with these methods: HEAD is answered wherever GET is.
pub fn allow<'m>(methods: impl Iterator<Item = &'m Method>) -> String {
    let names = methods.map(|method| if *method == Method::GET { "GET, HEAD" } else { method.as_str() });
    names.collect::<Vec<_>>().join(", ")
}

/// The path as routes, rules and filters compare it. Percent-encoded unreserved characters equal themselves (RFC 3986 §6.2.2.2);
/// nothing else is normalised.
pub fn plain_path(path: &str) -> Cow<'_, str> {
    if !path.as_bytes().contains(&b'%') {
        return Cow::Borrowed(path);
    }
    let mut decoded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        decoded.push_str(&rest[..at]);
        let byte = rest.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                decoded.push(char::from(byte));
                rest = &rest[at + 3..];
            }
            _ => {
                decoded.push('%');
                rest = &rest[at + 1..];
            }
        }
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

/// Longest path that is compared. A longer one cannot be a misspelt endpoint.
const MAX_COMPARED: usize = 64;
/// Maximum characters of a path that are repeated.
const MAX_REPEATED: usize = 80;
/// The similarity, from 0 to 1, from which a path is taken for a misspelt endpoint.
const LIKELY: f64 = 0.65;

/// Paths that programs ask until a server is ready.
const POLLED: [&str; 6] = ["/", "/health", "/healthz", "/ready", "/readyz", "/livez"];

/// True for a request that only asks whether a server is ready.
pub fn is_poll(method: &str, path: &str) -> bool {
    matches!(method, "GET" | "HEAD") && POLLED.contains(&path)
}

/// Why no route has this path, and which was probably meant, or else which there are and how a scenario can answer it.
pub fn no_endpoint(method: &Method, path: &str) -> String {
    let shown = echoed(path);
    if let Some((above, _)) = path.split_once("/_emulator").filter(|(above, _)| !above.is_empty()) {
        let above = echoed(above);
        return format!(
            "no endpoint `{shown}`; the control API is at `/_emulator`, so leave `{above}` out of the emulator's URL"
        );
    }
    if is_poll(method.as_str(), path) {
        return format!("no endpoint `{path}`; GET /_emulator/health says whether the emulator is ready");
    }
    if let Some(route) = nearest_route(method, path) {
        return format!("no endpoint `{shown}`; did you mean {}?", route.name());
    }
    let names: Vec<String> = ROUTES.iter().map(Route::name).collect();
    let (last, others) = names.split_last().expect("the contract has endpoints");
    format!(
        "no endpoint `{shown}`; there are {} and {last}; a scenario's rule with `when.path` and `reply` can answer it",
        others.join(", ")
    )
}

/// The route that a path without an endpoint was probably meant for.
pub fn nearest_route(method: &Method, path: &str) -> Option<&'static Route> {
    if path.len() > MAX_COMPARED {
        return None;
    }
    let sent = comparable_path(path);
    if sent.is_empty() {
        return None;
    }
    let likeness = |route: &Route| strsim::normalized_damerau_levenshtein(&sent, &comparable_path(route.path));
    let ranked = ROUTES.iter().map(|route| (likeness(route), route.method == *method, route));
    // The first of several that are equal.
    let best = ranked.rev().max_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    best.filter(|(likeness, ..)| *likeness >= LIKELY).map(|(.., route)| route)
}

/// A path without its version, its empty segments and its case, which are what people get wrong first.
fn comparable_path(path: &str) -> String {
    let lower = path.to_ascii_lowercase();
    let segments = lower.split('/').filter(|segment| !segment.is_empty());
    let is_version = |segment: &str| {
        segment.strip_prefix('v').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    segments.skip_while(|segment| is_version(segment)).collect::<Vec<_>>().join("/")
}

/// The beginning of a path, safe to repeat: everything but letters, digits and the punctuation of plain paths is percent-encoded.
fn echoed(path: &str) -> String {
    let mut shown = String::new();
    for byte in path.bytes().take(MAX_REPEATED) {
        if byte.is_ascii_alphanumeric() || b"/-._~%:@!$*+,;=".contains(&byte) {
            shown.push(char::from(byte));
        } else {
            // A write to a String cannot fail.
            let _ = write!(shown, "%{byte:02X}");
        }
    }
    if path.len() > MAX_REPEATED {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_methods_are_unique() {
        for (at, route) in ROUTES.iter().enumerate() {
            for other in &ROUTES[at + 1..] {
                assert_ne!(route.path, other.path);
                assert_ne!(route.operation, other.operation);
            }
        }
    }
}
