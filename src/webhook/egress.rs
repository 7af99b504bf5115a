//! Where an attempt goes: applies forwards, recognises the names of built-in receivers, and permits addresses. The address that is
//! dialled is judged: names are resolved first, and IPv6 addresses that embed an IPv4 address are judged by that.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use url::{Host, Position, Url};

use crate::advice::{Advice, Hint};
use crate::settings::{Forward, Forwards};
use crate::state::workspace::{AttemptOutcome, FailureReason};

const SINK_SUFFIX: &str = ".sink.localhost";

/// Why there is no connection to a server, or none any more.
#[derive(Clone, Debug)]
pub struct DialProblem {
    pub reason: FailureReason,
    /// The problem.
    pub detail: String,
    /// The remedy.
    pub hint: Option<Box<Hint>>,
}

impl DialProblem {
    pub(crate) fn new(reason: FailureReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), hint: None }
    }

    pub(super) fn with_hint(self, hint: Option<Hint>) -> Self {
        Self { hint: hint.map(Box::new), ..self }
    }
}

impl From<DialProblem> for AttemptOutcome {
    fn from(DialProblem { reason, detail, hint }: DialProblem) -> Self {
        Self::Failed { reason, detail, hint }
    }
}

#[derive(Clone, Debug)]
pub enum Destination {
    Sink(Arc<str>),
    Dial(Arc<DialTarget>),
}

#[derive(Debug)]
pub struct DialTarget {
    pub url: Url,
    pub text: Arc<str>,
    /// Scheme, host and port: connections are kept by it.
    pub origin: Arc<str>,
    /// Path and query in the form of the request line.
    pub uri: Uri,
    pub host: HeaderValue,
    /// The user and password of the URL, which is kept without them.
    pub authorization: Option<HeaderValue>,
    pub forwarded: Option<Arc<str>>,
    /// The URL that was forwarded.
    pub original: Option<Original>,
}

/// The subscribed URL as the receiver sees it, where a forward leads elsewhere.
#[derive(Debug)]
pub struct Original {
    scheme: HeaderValue,
    pub host: HeaderValue,
}

impl Original {
    /// The headers of a proxy in front of the receiver.
    pub fn headers(&self) -> [(HeaderName, HeaderValue); 3] {
        [
            (FORWARDED_PROTO, self.scheme.clone()),
            (FORWARDED_HOST, self.host.clone()),
            // The service that is emulated calls from this machine.
            (FORWARDED_FOR, HeaderValue::from_static("127.0.0.1")),
        ]
    }
}

pub const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

fn host_of(url: &Url) -> Option<HeaderValue> {
    HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]).ok()
}

/// True if a URL leads to this machine by its name or loopback address.
pub fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// True if the name of a host would be looked up on the internet. A command that was not asked to call the host does not look it up:
/// the subscriber would learn of that.
pub fn is_looked_up_far(url: &Url) -> bool {
    matches!(url.host(), Some(Host::Domain(name)) if name.contains('.')) && !is_here(url)
}

impl DialTarget {
    pub(crate) fn new(mut url: Url, forwarded: Option<&str>) -> Option<Self> {
        let authorization = basic_authorization(&url);
        // Neither fails for a URL with a host.
        let _ = (url.set_username(""), url.set_password(None));
        let uri = url[Position::BeforePath..Position::AfterQuery].parse().ok()?;
        let host = host_of(&url)?;
        let (text, origin) = (Arc::from(url.as_str()), Arc::from(url.origin().ascii_serialization()));
        let forwarded = forwarded.map(Arc::from);
        Some(Self { url, text, origin, uri, host, authorization, forwarded, original: None })
    }

    /// The same, reached for this URL.
    pub(crate) fn standing_for(self, url: &Url) -> Self {
        let scheme = HeaderValue::from_str(url.scheme()).ok();
        let original = scheme.zip(host_of(url)).map(|(scheme, host)| Original { scheme, host });
        Self { original, ..self }
    }

    pub fn host_text(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// How to send deliveries elsewhere, unless they are or the target is here.
    pub(super) fn elsewhere(&self) -> Option<Hint> {
        let is_led = self.forwarded.is_some() || is_here(&self.url);
        (!is_led).then(|| Hint::new("to deliver to your own machine:", self.forward_to("http://localhost:PORT")))
    }

    /// The advice if nothing listens at this target.
    pub(super) fn start_receiver(&self) -> Hint {
        match self.elsewhere() {
            Some(elsewhere) => Hint { text: format!("start your receiver there; {}", elsewhere.text), ..elsewhere },
            None => "start your receiver there".into(),
        }
    }

    /// How to deliver over the other of HTTP and HTTPS.
    pub(super) fn over_other_scheme(&self) -> Hint {
        let (own, other, text) = match self.url.scheme() {
            "https" => ("https:", "http:", "to deliver over plain HTTP:"),
            _ => ("http:", "https:", "to deliver over https:"),
        };
        Hint::new(text, self.forward_to(&self.origin.replacen(own, other, 1)))
    }

    /// A forward of the requests for this target.
    pub(super) fn forward_to(&self, to: &str) -> Advice {
        let from = self.forwarded.as_deref().unwrap_or(&self.origin);
        Advice::Forward { url: from.to_owned(), to: to.to_owned() }
    }
}

fn basic_authorization(url: &Url) -> Option<HeaderValue> {
    let decoded = |text| percent_decode_str(text).collect::<Vec<u8>>();
    let (user, password) = (decoded(url.username()), url.password().map(decoded));
    if user.is_empty() && password.is_none() {
        return None;
    }
    let pair = [user, b":".to_vec(), password.unwrap_or_default()].concat();
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Maximum number of destinations remembered. Each needs a few times the bytes of its URL, which has at most 2 KB.
const MAX_KNOWN: usize = 1_000;

/// Destinations by URL, with the forward that led there.
type DestinationCache = HashMap<Arc<Url>, (Option<Forward>, Destination)>;

#[derive(Debug, Default)]
pub struct Egress {
    allowed: BTreeSet<String>,
    known: Mutex<DestinationCache>,
}

impl Egress {
    pub fn new(allowed: &[String]) -> Self {
        Self { allowed: allowed.iter().map(|host| host.to_ascii_lowercase()).collect(), known: Mutex::default() }
    }

    /// Where an attempt at `url` goes under these forwards; `None` if no request can be made for it.
    pub fn destination(&self, forwards: &Forwards, url: &Arc<Url>) -> Option<Destination> {
        let forward = forwards.covering(url);
        if let Some((by, known)) = self.known.lock().get(url)
            && by.as_ref() == forward
        {
            return Some(known.clone());
        }
        let target = forward.and_then(|forward| forward.apply(url)).unwrap_or_else(|| Url::clone(url));
        let sink = target.host_str().and_then(|host| host.strip_suffix(SINK_SUFFIX)).filter(|name| !name.is_empty());
        let found = if let Some(name) = sink {
            Destination::Sink(Arc::from(name))
        } else {
            let target = DialTarget::new(target, forward.map(Forward::from))?;
            Destination::Dial(Arc::new(if forward.is_some() { target.standing_for(url) } else { target }))
        };
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(Arc::clone(url), (forward.cloned(), found.clone()));
        Some(found)
    }

    /// Those of a server's addresses that may be dialled.
    pub(super) fn choose(&self, target: &DialTarget, addresses: &[SocketAddr]) -> Result<Vec<SocketAddr>, DialProblem> {
        let host = target.host_text();
        let is_allowed = ["any", &host.to_ascii_lowercase()].iter().any(|host| self.allowed.contains(*host));
        let mut refusal = None;
        let mut chosen = Vec::new();
        for address in addresses {
            match classify_address(address.ip()) {
                Exposure::Local => chosen.push(*address),
                Exposure::Public if is_allowed => chosen.push(*address),
                Exposure::Public => {
                    refusal.get_or_insert_with(|| {
                        let address = address.ip();
                        let detail = format!(
                            "{address} is on the internet; webhooks stay local unless you pass --allow-egress {host}"
                        );
                        let problem = DialProblem::new(FailureReason::EgressRefused, detail);
                        problem.with_hint(target.elsewhere())
                    });
                }
                Exposure::Never(what) => {
                    refusal.get_or_insert_with(|| {
                        let detail = format!("{} is {what}; it is never dialled", address.ip());
                        DialProblem::new(FailureReason::EgressRefused, detail)
                    });
                }
            }
        }
        match refusal {
            Some(refusal) if chosen.is_empty() => Err(refusal),
            _ => Ok(chosen),
        }
    }
}

/// How far an address reaches, and so whether it may be dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exposure {
    /// Loopback, private or shared: always allowed.
    Local,
    /// On the internet: allowed only by `--allow-egress`.
    Public,
    /// Never allowed, with the reason.
    Never(&'static str),
}

/// Alibaba's is in the shared address space, Azure's and Oracle's look like public addresses.
const METADATA: [Ipv4Addr; 4] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

fn classify_address(address: IpAddr) -> Exposure {
    match address {
        IpAddr::V4(address) => judge_v4(address),
        IpAddr::V6(address) => embedded(address).map_or_else(|| judge_v6(address), judge_v4),
    }
}

fn judge_v4(address: Ipv4Addr) -> Exposure {
    let [a, b, ..] = address.octets();
    match (a, b) {
        _ if METADATA.contains(&address) => Exposure::Never("a cloud metadata address"),
        (0, _) => Exposure::Never("an address of \"this network\""),
        (169, 254) => Exposure::Never("a link-local address"),
        (224..=239, _) => Exposure::Never("a multicast address"),
        (240..=255, _) => Exposure::Never("a reserved or broadcast address"),
        (10 | 127, _) | (172, 16..=31) | (192, 168) | (100, 64..=127) => Exposure::Local,
        _ => Exposure::Public,
    }
}

/// The IPv4 address that an IPv6 address leads to: mapped, compatible, translated, by NAT64 or by 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        // `::` and `::1` are addresses of IPv6 alone.
        [0, 0, 0, 0, 0, 0, 0, low] if low < 2 => None,
        [0, 0, 0, 0, 0, 0xffff | 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}

fn judge_v6(address: Ipv6Addr) -> Exposure {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Exposure::Never("the unspecified address"),
        [0x64, 0xff9b, 1, ..] => Exposure::Never("a local NAT64 address"),
        [0x2001, 0, ..] => Exposure::Never("a Teredo address"),
        // Amazon's and Google's, among the private addresses.
        [0xfd00, 0x0ec2, ..] | [0xfd20, 0x00ce, ..] => Exposure::Never("a cloud metadata address"),
        [0xfe80..=0xfebf, ..] => Exposure::Never("a link-local address"),
        [0xff00..=0xffff, ..] => Exposure::Never("a multicast address"),
        [0, 0, 0, 0, 0, 0, 0, 1] | [0xfc00..=0xfdff, ..] => Exposure::Local,
        _ => Exposure::Public,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn forwards(from: &str, to: &str) -> Forwards {
        Forwards::try_from([(from.to_owned(), to.to_owned())].into_iter().collect::<BTreeMap<_, _>>()).expect("a rule")
    }

    #[test]
    fn forwards_and_built_in_receivers_decide_the_destination() {
        let egress = Egress::default();
        let there = forwards("https://app.example.com", "http://localhost:3000");
        let inside = forwards("https://app.example.com", "https://b.sink.localhost");
        for (forwards, url, expected) in [
            (&there, "https://app.example.com/x", "http://localhost:3000/x from https://app.example.com"),
            (&Forwards::default(), "https://app.example.com/x", "https://app.example.com/x"),
            (&inside, "https://app.example.com/x", "sink b"),
            (&there, "https://orders.sink.localhost/x", "sink orders"),
            (&there, "https://sink.localhost/x", "https://sink.localhost/x"),
        ] {
            let parsed = Arc::new(Url::parse(url).expect("a URL"));
            // Twice, because the cached result must equal the first one.
            for _ in 0..2 {
                let found = match egress.destination(forwards, &parsed).expect("a destination") {
                    Destination::Sink(name) => format!("sink {name}"),
                    Destination::Dial(target) => {
                        let from = target.forwarded.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
                        format!("{}{from}", target.url)
                    }
                };
                assert_eq!(found, expected, "{url}");
            }
        }
    }

    #[test]
    fn user_and_password_become_a_header() {
        for (url, expected) in [
            ("https://a.example/", None),
            ("https://u@a.example/", Some("u:")),
            ("https://:p@a.example/", Some(":p")),
            ("https://u:p%3A%40@a.example/", Some("u:p:@")),
        ] {
            let target = DialTarget::new(Url::parse(url).expect("a URL"), None).expect("a server");
            let expected = expected.map(|pair| format!("Basic {}", STANDARD.encode(pair)));
            assert_eq!(
                target.authorization.as_ref().map(HeaderValue::as_bytes),
                expected.as_deref().map(str::as_bytes),
                "{url}"
            );
            assert!(target.authorization.is_none_or(|value| value.is_sensitive()));
            assert_eq!(&*target.text, "https://a.example/");
        }
    }

    #[test]
    fn only_what_is_not_here_is_to_be_forwarded() {
        let advised = |url: &str, forwarded| {
            let target = DialTarget::new(Url::parse(url).expect("a URL"), forwarded).expect("a server");
            (target.elsewhere().and_then(|hint| hint.advice), target.start_receiver().text)
        };
        let start = "start your receiver there".to_owned();
        for here in ["http://localhost:1", "http://a.localhost:1", "http://127.0.0.2:1", "http://[::1]:1"] {
            assert_eq!(advised(here, None), (None, start.clone()), "{here}");
        }
        for there in ["https://shop.example", "https://notlocalhost", "http://10.0.0.1", "http://[2001:db8::1]"] {
            let forward = Advice::Forward { url: there.to_owned(), to: "http://localhost:PORT".to_owned() };
            let text = format!("{start}; to deliver to your own machine:");
            assert_eq!(advised(there, None), (Some(forward), text), "{there}");
            assert_eq!(advised(there, Some("https://shop.example")), (None, start.clone()), "{there}");
        }
    }

    #[test]
    fn a_bounded_number_of_destinations_is_remembered() {
        let egress = Egress::default();
        let known = [MAX_KNOWN, 1].map(|urls| {
            for number in 0..urls {
                let url = Url::parse(&format!("https://{number}-of-{urls}.example/")).expect("a URL");
                egress.destination(&Forwards::default(), &Arc::new(url)).expect("a destination");
            }
            egress.known.lock().len()
        });
        assert_eq!(known, [MAX_KNOWN, 1]);
    }

    #[test]
    fn addresses_are_judged_by_where_they_lead() {
        for (expected, addresses) in [
            ("local", "127.0.0.1 127.255.255.255 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1"),
            ("local", "::1 fd12::1 fd00:ec1:ffff::1 fd00:ec3:: fd20:cf::254 ::ffff:127.0.0.1 2002:7f00:1::1"),
            ("public", "172.32.0.1 100.128.0.1 8.8.8.8 168.63.129.17 192.0.0.191"),
            ("public", "2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::8.8.8.8"),
            ("a cloud metadata address", "100.100.100.200 169.254.169.254 168.63.129.16 192.0.0.192"),
            ("a cloud metadata address", "fd00:ec2::254 fd00:ec2:ffff::1 fd20:ce::254 fd20:ce:ffff::ffff"),
            ("a cloud metadata address", "::ffff:168.63.129.16 ::192.0.0.192 ::ffff:0:168.63.129.16"),
            ("a cloud metadata address", "64:ff9b::169.254.169.254 2002:a9fe:a9fe::1 2002:c000:c0::1"),
            ("an address of \"this network\"", "0.0.0.0 0.1.2.3 ::2 ::ffff:0.0.0.0"),
            ("a link-local address", "169.254.1.1 fe80::1 febf::1"),
            ("a multicast address", "224.0.0.1 ff02::1"),
            ("a reserved or broadcast address", "255.255.255.255"),
            ("the unspecified address", "::"),
            ("a local NAT64 address", "64:ff9b:1::1 64:ff9b:1::168.63.129.16"),
            ("a Teredo address", "2001::1"),
        ] {
            for address in addresses.split(' ') {
                let found = match classify_address(address.parse().expect("an address")) {
                    Exposure::Local => "local",
                    Exposure::Public => "public",
                    Exposure::Never(what) => what,
                };
                assert_eq!(found, expected, "{address}");
            }
        }
    }

    #[test]
    fn only_allowed_addresses_are_dialled() {
        let public = "8.8.8.8:443";
        let never = "169.254.169.254:80 168.63.129.16:80 192.0.0.192:80 [fd00:ec2::23]:80 [fd20:ce::254]:80 [::ffff:168.63.129.16]:80 [2002:c000:c0::1]:80";
        let chosen = |allowed: &[&str], url: &str, addresses: &[&str]| {
            let egress = Egress::new(&allowed.iter().map(|&host| host.to_owned()).collect::<Vec<_>>());
            let target = DialTarget::new(Url::parse(url).expect("a URL"), None).expect("a server");
            let addresses: Vec<_> = addresses.iter().map(|text| text.parse().expect("an address")).collect();
            let found = egress.choose(&target, &addresses).map_err(|problem| problem.detail)?;
            Ok::<_, String>(found.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&[], "https://a", &[public, "127.0.0.1:443"]), Ok(vec!["127.0.0.1:443".to_owned()]));
        assert!(chosen(&[], "https://a", &[public]).is_err_and(|detail| detail.contains("--allow-egress a")));
        assert!(chosen(&["A.example"], "https://a.EXAMPLE", &[public]).is_ok());
        assert!(chosen(&["A.example"], "https://b.example", &[public]).is_err());
        assert!(chosen(&["any"], "https://b.example", &[public]).is_ok());
        for address in never.split(' ') {
            // Not even if the host itself is allowed.
            for allowed in [&["any"][..], &["169.254.169.254", "b.example"]] {
                let refused = chosen(allowed, "https://b.example", &[address]);
                assert!(refused.is_err_and(|detail| detail.contains("never")), "{address}");
            }
        }
    }

    #[test]
    fn only_names_of_other_hosts_are_looked_up_far() {
        for (url, is_far) in [
            ("https://app.example.com/hooks", true),
            ("https://receiver/hooks", false),
            ("https://localhost/hooks", false),
            ("https://app.sink.localhost/hooks", false),
            ("https://8.8.8.8/hooks", false),
        ] {
            assert_eq!(is_looked_up_far(&url.parse().expect("a URL")), is_far, "{url}");
        }
    }
}
