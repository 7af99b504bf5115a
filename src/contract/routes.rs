//! The route table as data: method, path, operation, credential (contract: Endpoints).
//!
//! The service, the `OpenAPI` document and the documentation all read this table; nothing else names a path.

use std::borrow::Cow;

use hyper::Method;

/// An operation of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `GET /v1/system/status`
    SystemStatus,
    /// `POST /v1/events/subscribe`
    EventsSubscribe,
    /// `GET /v1/hello`
    Hello,
}

impl Operation {
    /// The name used in scenarios, the journal and the `OpenAPI` document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SystemStatus => "system.status",
            Self::EventsSubscribe => "events.subscribe",
            Self::Hello => "hello",
        }
    }

    /// The operation with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        ROUTES.iter().map(|route| route.operation).find(|operation| operation.name() == name)
    }
}

/// What a caller must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// An API key as a Bearer token; the operation is counted against the key's quota.
    Bearer,
    /// Nothing.
    None,
}

/// One endpoint.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method; HEAD is answered wherever GET is.
    pub method: Method,
    /// The exact path.
    pub path: &'static str,
    /// What it does.
    pub operation: Operation,
    /// What a caller must show.
    pub credential: Credential,
    /// One line for documents.
    pub summary: &'static str,
}

/// Every open endpoint.
pub const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/v1/system/status",
        operation: Operation::SystemStatus,
        credential: Credential::Bearer,
        summary: "Health and connection check",
    },
    Route {
        method: Method::POST,
        path: "/v1/events/subscribe",
        operation: Operation::EventsSubscribe,
        credential: Credential::Bearer,
        summary: "Register an HTTPS endpoint for webhook events",
    },
    Route {
        method: Method::GET,
        path: "/v1/hello",
        operation: Operation::Hello,
        credential: Credential::None,
        summary: "Unauthenticated hello world",
    },
];

/// Something the contract announces without opening it.
#[derive(Clone, Debug)]
pub struct Announced {
    /// The path; everything below it belongs to it.
    pub path: &'static str,
    /// What the contract calls it.
    pub what: &'static str,
}

/// Everything announced. The OAuth path is assumed: the contract shows none.
pub const ANNOUNCED: &[Announced] = &[
    Announced { path: "/v1/workflows", what: "the workflow endpoints" },
    Announced { path: "/v1/users", what: "the read-only users endpoint" },
    Announced { path: "/v1/oauth", what: "OAuth 2.0 client credentials" },
];

/// What a method and path lead to.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// An endpoint.
    Found(&'static Route),
    /// The path exists with other methods, given as an `Allow` value.
    MethodNotAllowed(&'static str),
    /// Announced, not open.
    Announced(&'static Announced),
    /// Nothing.
    Unknown,
}

/// Looks a request up. Percent-encoded unreserved characters equal themselves (RFC 3986 §6.2.2.2); nothing else is
/// normalised, so `//`, a trailing slash, `%2F`, `%00` and `%2e%2e` lead nowhere.
pub fn look_up(method: &Method, path: &str) -> Lookup {
    let path = decode_unreserved(path);
    let Some(route) = ROUTES.iter().find(|route| route.path == path) else {
        let announced = ANNOUNCED
            .iter()
            .find(|entry| path.strip_prefix(entry.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
        return announced.map_or(Lookup::Unknown, Lookup::Announced);
    };
    // Paths have one method each, which a test holds; a second would make this a search.
    if *method == route.method || (route.method == Method::GET && *method == Method::HEAD) {
        return Lookup::Found(route);
    }
    Lookup::MethodNotAllowed(if route.method == Method::GET { "GET, HEAD" } else { "POST" })
}

fn decode_unreserved(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_names_are_unique_and_methods_are_get_or_post() {
        for (at, route) in ROUTES.iter().enumerate() {
            assert!(matches!(route.method, Method::GET | Method::POST), "{}", route.path);
            assert_eq!(Operation::from_name(route.operation.name()), Some(route.operation));
            for other in &ROUTES[at + 1..] {
                assert_ne!(route.path, other.path);
                assert_ne!(route.operation.name(), other.operation.name());
            }
        }
    }

    #[test]
    fn look_ups_lead_where_the_contract_says() {
        let kind = |method: &str, path: &str| match look_up(&method.parse().expect("a method"), path) {
            Lookup::Found(route) => route.operation.name().to_owned(),
            Lookup::MethodNotAllowed(allow) => format!("405 {allow}"),
            Lookup::Announced(entry) => format!("announced {}", entry.path),
            Lookup::Unknown => "404".to_owned(),
        };
        for (method, path, expected) in [
            ("GET", "/v1/system/status", "system.status"),
            ("HEAD", "/v1/system/status", "system.status"),
            ("GET", "/v1/system/st%61tus", "system.status"),
            ("POST", "/v1/events/subscribe", "events.subscribe"),
            ("HEAD", "/v1/events/subscribe", "405 POST"),
            ("OPTIONS", "/v1/hello", "405 GET, HEAD"),
            ("get", "/v1/hello", "405 GET, HEAD"),
            ("TRACE", "/v1/hello", "405 GET, HEAD"),
            ("GET", "/v1/hello/", "404"),
            ("GET", "//v1/hello", "404"),
            ("GET", "/v1%2Fhello", "404"),
            ("GET", "/v1/hello%00", "404"),
            ("GET", "/v1/x/%2e%2e/hello", "404"),
            ("GET", "/v1/hell%6", "404"),
            ("GET", "/v1/hell%é", "404"),
            ("GET", "/V1/hello", "404"),
            ("GET", "/", "404"),
            ("POST", "/v1/workflows", "announced /v1/workflows"),
            ("GET", "/v1/workflows/wf_1", "announced /v1/workflows"),
            ("GET", "/v1/workflowsx", "404"),
            ("GET", "/v1/users", "announced /v1/users"),
            ("POST", "/v1/oauth/token", "announced /v1/oauth"),
        ] {
            assert_eq!(kind(method, path), expected, "{method} {path}");
        }
    }
}
