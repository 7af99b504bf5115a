//! Where an attempt really goes: the forward map, the built-in sink's names, and what may be dialled.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::Uri;
use hyper::header::HeaderValue;
use parking_lot::Mutex;
use url::{Position, Url};

use crate::webhook::guard::{Reach, judge};

/// Names that end so belong to the built-in receiver.
const SINK_SUFFIX: &str = ".sink.localhost";

/// One `--forward FROM=TO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    from: Url,
    to: Url,
}

impl Forward {
    /// Reads `FROM=TO`; both are absolute http or https URLs without query and fragment.
    pub fn parse(text: &str) -> Result<Self, String> {
        // `=` may stand in a path; the target starts with a scheme, so the last `=http` divides.
        let at = text.rfind("=http").ok_or_else(|| {
            format!(
                "expected FROM=TO with two URLs, such as https://app.example.com=http://localhost:3000, found `{text}`"
            )
        })?;
        let url = |text: &str| -> Result<Url, String> {
            let url = Url::parse(text).map_err(|error| format!("`{text}` is not a URL: {error}"))?;
            let plain = matches!(url.scheme(), "http" | "https")
                && url.host().is_some()
                && url.query().is_none()
                && url.fragment().is_none();
            plain
                .then_some(url)
                .ok_or_else(|| format!("`{text}` must be an http or https URL without query and fragment"))
        };
        Ok(Self { from: url(&text[..at])?, to: url(&text[at + 1..])? })
    }

    /// The target for `url` if this rule covers it: the origin is equal and the path is a prefix by whole segments.
    fn apply(&self, url: &Url) -> Option<Url> {
        if self.from.origin() != url.origin() {
            return None;
        }
        let prefix = self.from.path().trim_end_matches('/');
        let rest = url.path().strip_prefix(prefix)?;
        if !(rest.is_empty() || rest.starts_with('/')) {
            return None;
        }
        let mut target = self.to.clone();
        let joined = format!("{}{rest}", self.to.path().trim_end_matches('/'));
        target.set_path(&joined);
        target.set_query(url.query());
        Some(target)
    }
}

/// Where one attempt goes.
#[derive(Clone, Debug)]
pub enum Destination {
    /// The built-in receiver of this name.
    Sink(Arc<str>),
    /// A server.
    Dial(Arc<Target>),
}

/// A server's URL, with what a request to it needs.
#[derive(Debug)]
pub struct Target {
    /// The URL.
    pub url: Url,
    /// The same as text.
    pub text: Arc<str>,
    /// Scheme, host and port: connections are kept by it.
    pub origin: Arc<str>,
    /// Path and query, as the request line has them.
    pub uri: Uri,
    /// The `Host` header.
    pub host: HeaderValue,
}

impl Target {
    /// A target, unless its parts cannot stand in a request.
    fn new(url: Url) -> Option<Self> {
        let uri = url[Position::BeforePath..Position::AfterQuery].parse().ok()?;
        let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]).ok()?;
        let (text, origin) = (Arc::from(url.as_str()), Arc::from(url.origin().ascii_serialization()));
        Some(Self { url, text, origin, uri, host })
    }
}

/// Most URLs whose destination is remembered.
pub const MOST_KNOWN: usize = 10_000;
/// Most bytes that they hold: each is there as text, read, and as what is sent.
pub const MOST_KNOWN_BYTES: usize = 8 * 1024 * 1024;

#[derive(Debug, Default)]
struct Known {
    by_url: HashMap<Arc<str>, Destination>,
    bytes: usize,
}

/// The egress rules of one emulator.
#[derive(Debug, Default)]
pub struct Egress {
    forwards: Vec<Forward>,
    allowed: BTreeSet<String>,
    allow_any: bool,
    /// Where URLs lead that were asked for before; the rules do not change.
    known: Mutex<Known>,
}

impl Egress {
    /// Rules from `--forward` and `--allow-egress` (host names, or `any`).
    pub fn new(forwards: Vec<Forward>, allowed: &[String]) -> Self {
        let allow_any = allowed.iter().any(|host| host == "any");
        Self {
            forwards,
            allowed: allowed.iter().map(|host| host.to_ascii_lowercase()).collect(),
            allow_any,
            known: Mutex::default(),
        }
    }

    /// Where an attempt at `url` goes; `None` if no request can be made for it.
    pub fn destination(&self, url: &Url, text: &Arc<str>) -> Option<Destination> {
        if let Some(known) = self.known.lock().by_url.get(text) {
            return Some(known.clone());
        }
        let found = self.find_destination(url)?;
        let mut known = self.known.lock();
        let bytes = 512 + 4 * text.len();
        if known.by_url.len() >= MOST_KNOWN || known.bytes + bytes > MOST_KNOWN_BYTES {
            *known = Known::default();
        }
        known.bytes += bytes;
        known.by_url.insert(Arc::clone(text), found.clone());
        Some(found)
    }

    /// The longest forward that covers a URL decides where it leads.
    fn find_destination(&self, url: &Url) -> Option<Destination> {
        let covering =
            self.forwards.iter().filter_map(|forward| Some((forward.from.path().len(), forward.apply(url)?)));
        let url = covering.max_by_key(|(length, _)| *length).map_or_else(|| url.clone(), |(_, target)| target);
        let sink = url.host_str().and_then(|host| host.strip_suffix(SINK_SUFFIX)).filter(|name| !name.is_empty());
        match sink {
            Some(name) => Some(Destination::Sink(Arc::from(name))),
            None => Some(Destination::Dial(Arc::new(Target::new(url)?))),
        }
    }

    /// The first of the resolved addresses that may be dialled, or why none may.
    pub fn choose(&self, host: &str, addresses: &[SocketAddr]) -> Result<Vec<SocketAddr>, String> {
        let mut refusal = None;
        let mut chosen = Vec::new();
        for address in addresses {
            match judge(address.ip()) {
                Reach::Local => chosen.push(*address),
                Reach::Public if self.allow_any || self.allowed.contains(&host.to_ascii_lowercase()) => {
                    chosen.push(*address);
                }
                Reach::Public => {
                    let text = format!(
                        "{} is on the internet; webhooks stay local unless you pass --allow-egress {host}, or --forward it to your machine",
                        address.ip()
                    );
                    refusal.get_or_insert(text);
                }
                Reach::Never(what) => {
                    refusal.get_or_insert_with(|| format!("{} is {what}; it is never dialled", address.ip()));
                }
            }
        }
        match refusal {
            Some(refusal) if chosen.is_empty() => Err(refusal),
            _ => Ok(chosen),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(forwards: &[&str], url: &str) -> String {
        let forwards = forwards.iter().map(|text| Forward::parse(text).expect("the rule is valid")).collect();
        let egress = Egress::new(forwards, &[]);
        let parsed = Url::parse(url).expect("a URL");
        let text: Arc<str> = Arc::from(parsed.as_str());
        // Asked twice, as what is remembered must be what was found.
        egress.destination(&parsed, &text).expect("a destination");
        match egress.destination(&parsed, &text).expect("a destination") {
            Destination::Sink(name) => format!("sink {name}"),
            Destination::Dial(target) => target.url.to_string(),
        }
    }

    #[test]
    fn the_longest_forward_wins_and_paths_are_joined() {
        let forwards = [
            "https://app.example.com=http://localhost:3000",
            "https://app.example.com/hooks=http://localhost:4000/in/",
        ];
        for (url, target) in [
            ("https://app.example.com/x?a=1", "http://localhost:3000/x?a=1"),
            ("https://app.example.com/hooks", "http://localhost:4000/in"),
            ("https://app.example.com/hooks/a", "http://localhost:4000/in/a"),
            ("https://app.example.com/hooksx", "http://localhost:3000/hooksx"),
            ("https://app.example.com:8443/x", "https://app.example.com:8443/x"),
            ("http://app.example.com/x", "http://app.example.com/x"),
            ("https://orders.sink.localhost/x", "sink orders"),
            ("https://sink.localhost/x", "https://sink.localhost/x"),
        ] {
            assert_eq!(destination(&forwards, url), target, "{url}");
        }
        assert_eq!(destination(&["https://a.example=https://b.sink.localhost"], "https://a.example/x"), "sink b");
    }

    #[test]
    fn destinations_are_remembered_up_to_a_number_and_to_some_bytes() {
        let egress = Egress::default();
        for number in 0..2 * MOST_KNOWN {
            let url = Url::parse(&format!("https://a.example/{number}/{}", "x".repeat(1_900))).expect("a URL");
            egress.destination(&url, &Arc::from(url.as_str())).expect("a destination");
            assert!(egress.known.lock().bytes <= MOST_KNOWN_BYTES);
        }
        let egress = Egress::default();
        let mut counts = Vec::new();
        for number in 0..=MOST_KNOWN {
            let url = Url::parse(&format!("https://a.example/{number}")).expect("a URL");
            egress.destination(&url, &Arc::from(url.as_str())).expect("a destination");
            counts.push(egress.known.lock().by_url.len());
        }
        assert_eq!((counts[1], counts[MOST_KNOWN - 1], counts[MOST_KNOWN]), (2, MOST_KNOWN, 1));
    }

    #[test]
    fn malformed_forwards_are_refused() {
        for text in ["", "https://a", "a=b", "https://a=ftp://b", "https://a?x=http://b", "=http://b"] {
            assert!(Forward::parse(text).is_err(), "{text}");
        }
        for text in ["", "app.example.com=localhost:3000"] {
            let problem = Forward::parse(text).expect_err(text);
            let example = problem.split_once("such as ").and_then(|(_, rest)| rest.split(',').next());
            assert!(Forward::parse(example.expect("an example")).is_ok(), "{problem}");
        }
    }

    #[test]
    fn only_allowed_addresses_are_dialled() {
        let addresses =
            |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an address")).collect::<Vec<SocketAddr>>();
        let local = Egress::default();
        assert_eq!(local.choose("a", &addresses(&["8.8.8.8:443", "127.0.0.1:443"])), Ok(addresses(&["127.0.0.1:443"])));
        assert!(local.choose("a", &addresses(&["8.8.8.8:443"])).expect_err("public").contains("--allow-egress a"));
        let named = Egress::new(Vec::new(), &["A.example".to_owned()]);
        assert!(named.choose("a.EXAMPLE", &addresses(&["8.8.8.8:443"])).is_ok());
        assert!(named.choose("b.example", &addresses(&["8.8.8.8:443"])).is_err());
        let any = Egress::new(Vec::new(), &["any".to_owned()]);
        for never in [
            "169.254.169.254:80",
            "168.63.129.16:80",
            "192.0.0.192:80",
            "[fd00:ec2::23]:80",
            "[fd20:ce::254]:80",
            "[::ffff:168.63.129.16]:80",
            "[2002:c000:c0::1]:80",
        ] {
            assert!(any.choose("b.example", &addresses(&[never])).expect_err(never).contains("never"));
            // Nor where it is the host itself that is allowed.
            let named = Egress::new(Vec::new(), &["169.254.169.254".to_owned(), "b.example".to_owned()]);
            assert!(named.choose("b.example", &addresses(&[never])).expect_err(never).contains("never"));
        }
    }
}
