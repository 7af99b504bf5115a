//! Rules about single requests: API keys (where they are sent, by whom, and which), contents (paths, parameters, fields, content
//! types), and signing secrets, of which no text leaves this file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Display;

use url::form_urlencoded;

use super::check::{
    Assessment, Check, Confidence, FindingRule, Judged, OWN_SECRET, Occurrence, SEND_REQUESTS, SUBSCRIBE, Severity,
};
use super::traffic::{JudgedRequest, RecordedRequest, Traffic};
use crate::contract::clauses;
use crate::contract::keys::KeyRefusal;
use crate::contract::routes::Operation;
use crate::contract::signature::{SigningKey, secret_warnings};
use crate::redact::visible;
use crate::settings::Profile;
use crate::state::journal::Reason;
use crate::util::wording::{counted, shorten};

pub(super) const KEY_CHECKS: [Check; 6] = [
    Check::new("key-in-url", Severity::High, "An API key is part of a URL")
        .why("URLs end up in logs, histories and the Referer header of other requests, and the key with them.")
        .clause(clauses::BEARER)
        .remedy("send the key as `Authorization: Bearer KEY` only, and replace the key that was exposed")
        .cwe(598)
        .exercise(SEND_REQUESTS)
        .rule(FindingRule::Request(in_url)),
    Check::new("key-in-body", Severity::High, "An API key is part of a body")
        .why("Bodies are logged and stored where headers with credentials are not.")
        .clause(clauses::BEARER)
        .remedy("send the key as `Authorization: Bearer KEY` only")
        .cwe(522)
        .exercise(SUBSCRIBE)
        .rule(FindingRule::Request(in_body)),
    Check::new("key-in-another-header", Severity::Medium, "An API key is in a header other than Authorization")
        .why("Proxies and log filters hide Authorization, and pass other headers on.")
        .clause(clauses::BEARER)
        .remedy("send the key as `Authorization: Bearer KEY` only")
        .cwe(522)
        .exercise(SEND_REQUESTS)
        .rule(FindingRule::Request(in_other_header)),
    Check::new("key-sent-to-hello", Severity::Low, "A key is sent to the endpoint that needs none")
        .why("A credential that is not needed is one more that can be seen.")
        .clause(clauses::HELLO_KEYLESS)
        .remedy("leave Authorization out of GET /v1/hello")
        .exercise("call GET /v1/hello")
        .rule(FindingRule::Request(sent_to_hello)),
    Check::new("called-from-a-browser", Severity::High, "A key is used in a browser")
        .why("Whoever opens the page can read the key.")
        .clause(clauses::KEY_SECRECY)
        .remedy("call the API from a server, and replace the key that was exposed")
        .confidence("certain if a header that only browsers send shows it; likely if only Origin does")
        .cwe(522)
        .exercise(SEND_REQUESTS)
        .rule(FindingRule::Request(from_browser)),
    Check::new("live-key-in-the-sandbox", Severity::High, "A live key is sent to the sandbox")
        .why("A production credential has left production.")
        .clause("Authentication 3: test keys and live keys have their own prefixes")
        .remedy("use a test key here, and replace the live key that was exposed")
        .cwe(522)
        .exercise("send a request with a key")
        .rule(FindingRule::Request(live_key)),
];

impl JudgedRequest<'_> {
    /// A sighting in this request; the detail begins with its method and path.
    fn certain(&self, what: impl Display) -> Occurrence {
        Occurrence::certain(self.request.id(), format!("{}: {what}", self.request.line()))
    }

    fn likely(&self, what: impl Display) -> Occurrence {
        Occurrence { confidence: Confidence::Likely, ..self.certain(what) }
    }
}

/// The finding that a key is in this text.
fn key_in(it: &JudgedRequest<'_>, text: &str, place: &str) -> Option<Occurrence> {
    it.key_in(text).map(|is_live| key_found(it, is_live, place))
}

fn key_found(it: &JudgedRequest<'_>, is_live: bool, place: &str) -> Occurrence {
    it.certain(format!("{} in {place}", if is_live { "a live key" } else { "a test key" }))
}

fn in_url(it: &JudgedRequest<'_>) -> Assessment {
    Some(key_in(it, &it.request.target(), "the URL"))
}

fn in_body(it: &JudgedRequest<'_>) -> Assessment {
    // A secret that is a key is a separate finding, and what belongs in the body of a path of a scenario is not known.
    if it.request.0.transcript.body().is_empty() || it.request.0.operation == Some(Operation::Stub) {
        return None;
    }
    Some(it.body.key.map(|is_live| key_found(it, is_live, "the body")))
}

fn in_other_header(it: &JudgedRequest<'_>) -> Assessment {
    let mut others = it.request.0.transcript.headers().filter(|(name, _)| *name != "authorization");
    Some(others.find_map(|(name, value)| key_in(it, &value, &format!("the header `{name}`"))))
}

fn sent_to_hello(it: &JudgedRequest<'_>) -> Assessment {
    it.only(Operation::Hello)?;
    let sent = it.request.credentials();
    Some(sent.map(|_| Occurrence::certain(it.request.id(), "GET /v1/hello with an Authorization header")))
}

fn from_browser(it: &JudgedRequest<'_>) -> Assessment {
    let carries_key = it.request.credentials().is_some();
    let asked = it.request.header("access-control-request-headers");
    // Node's own fetch sends `sec-fetch-mode` alone.
    Some(match (it.request.header("sec-fetch-site"), it.request.header("origin")) {
        _ if asked.is_some_and(|names| names.to_ascii_lowercase().contains("authorization")) => {
            Some(it.certain("a browser asks whether it may send Authorization"))
        }
        (Some(site), _) if carries_key => {
            Some(it.certain(format!("`sec-fetch-site: {site}` with a key, which only browsers send")))
        }
        (None, Some(origin)) if carries_key => Some(it.likely(format!("`origin: {origin}` with a key"))),
        _ => None,
    })
}

fn live_key(it: &JudgedRequest<'_>) -> Assessment {
    it.request.credentials()?;
    let is_live = matches!(it.request.0.reason, Reason::Unauthorized { refusal: KeyRefusal::LiveKey, .. });
    Some(is_live.then(|| it.certain("a live key, refused by the sandbox")))
}

pub(super) const CONTENT_CHECKS: [Check; 5] = [
    Check::new("wrong-path", Severity::Medium, "A request matches no endpoint")
        .why("It does nothing, here and in production.")
        .clause("Endpoints; Versioning: the version is part of the path")
        .remedy("correct the path or the method; the answer names the nearest endpoint")
        .exercise(SEND_REQUESTS)
        .rule(FindingRule::Request(wrong_path)),
    Check::new("unknown-parameter", Severity::Low, "A query parameter is unknown")
        .why("It is ignored today, and may be refused tomorrow; most often it is a typing error.")
        .clause("Endpoints: the query parameters of each")
        .remedy("remove or correct the parameter")
        .exercise("send a request with a query, such as include_checks=true")
        .rule(FindingRule::Request(unknown_parameter)),
    Check::new("unknown-field", Severity::Low, "A body has an unknown field")
        .why("It is ignored today, and may be refused tomorrow; most often it is a typing error.")
        .clause("POST /v1/events/subscribe: the fields of the body")
        .remedy("remove or correct the field")
        .exercise(SUBSCRIBE)
        .rule(FindingRule::Request(unknown_field)),
    Check::new("duplicate-json-key", Severity::Medium, "An object of the body has a key twice")
        .why("Parsers disagree on which of the two counts.")
        .clause("RFC 8259 section 4: the names within an object should be unique")
        .remedy("write each key once; build JSON with a library")
        .cwe(436)
        .exercise(SUBSCRIBE)
        .rule(FindingRule::Request(duplicate_key)),
    Check::new("wrong-content-type", Severity::Medium, "A JSON body is not declared as JSON")
        .why("A service may refuse or misread it.")
        .clause(clauses::SUBSCRIBE_TYPE)
        .remedy("send `Content-Type: application/json`")
        .exercise(SUBSCRIBE)
        .rule(FindingRule::Request(wrong_content_type)),
];

/// The fields of a subscribe request, by the contract.
const SUBSCRIBE_FIELDS: [&str; 4] = ["url", "events", "secret", "description"];
/// Maximum number of names that a text repeats, and most characters of each.
const MAX_NAMES: usize = 3;
const MAX_NAME: usize = 40;

/// The first few of these names, quoted.
fn quoted<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let short = |name: &str| format!("`{}`", visible(&shorten(name, MAX_NAME)));
    names.take(MAX_NAMES).map(short).collect::<Vec<_>>().join(", ")
}

fn wrong_path(it: &JudgedRequest<'_>) -> Assessment {
    let why = match &it.request.0.reason {
        _ if it.request.0.is_incidental() => return Some(None),
        Reason::NotFound(_) => "no endpoint has this path".to_owned(),
        Reason::MethodNotAllowed(allow) => format!("this path accepts {allow}"),
        Reason::Announced(path, _) => format!("{path} is announced and not open yet"),
        _ => return Some(None),
    };
    Some(Some(Occurrence::certain(it.request.id(), format!("{}: {why}", visible(&it.request.line())))))
}

fn unknown_parameter(it: &JudgedRequest<'_>) -> Assessment {
    let known: &[&str] = match it.request.0.operation? {
        Operation::SystemStatus => &["include_checks"],
        Operation::EventsSubscribe | Operation::Hello => &[],
        Operation::Stub => return None,
    };
    let mut names = form_urlencoded::parse(it.request.query().as_bytes()).map(|(name, _)| name).peekable();
    names.peek()?;
    Some(unknown(it, names, known, "the query"))
}

fn unknown_field(it: &JudgedRequest<'_>) -> Assessment {
    it.only(Operation::EventsSubscribe)?;
    let names = it.body.names.as_ref()?;
    Some(unknown(it, names.iter().map(Cow::from), &SUBSCRIBE_FIELDS, "the body"))
}

/// The finding that some of these names are not known.
fn unknown<'n>(
    it: &JudgedRequest<'_>,
    names: impl Iterator<Item = Cow<'n, str>>,
    known: &[&str],
    place: &str,
) -> Option<Occurrence> {
    let unknown: Vec<Cow<'_, str>> = names.filter(|name| !known.contains(&&**name)).collect();
    (!unknown.is_empty()).then(|| it.certain(format!("{} in {place}", quoted(unknown.iter().map(Cow::as_ref)))))
}

fn duplicate_key(it: &JudgedRequest<'_>) -> Assessment {
    it.only(Operation::EventsSubscribe).filter(|()| it.body.is_json)?;
    let doubled = it.body.doubled.as_deref();
    Some(doubled.map(|name| it.certain(format!("{} twice in one object", quoted([name].into_iter())))))
}

fn wrong_content_type(it: &JudgedRequest<'_>) -> Assessment {
    it.only(Operation::EventsSubscribe)?;
    let sent = it.request.header("content-type");
    let essence = sent.as_deref().map(|value| value.split(';').next().unwrap_or_default().trim());
    if essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
        return Some(None);
    }
    let sent = essence.map_or("no content type".to_owned(), |essence| quoted([essence].into_iter()));
    Some(Some(it.certain(sent)))
}

pub(super) const SECRET_CHECKS: [Check; 4] = [
    Check::new("secret-weak", Severity::High, "A signing secret can be guessed")
        .why("Whoever guesses it can forge events.")
        .clause(clauses::SIGNED)
        .remedy("leave the secret out, so that the service generates one, or use 32 random bytes")
        .cwe(521)
        .exercise(OWN_SECRET)
        .rule(FindingRule::Request(weak)),
    Check::new("secret-reused", Severity::Medium, "Two URLs have the same signing secret")
        .why("Whoever runs one receiver can forge events for the other.")
        .clause(clauses::SIGNED)
        .remedy("give each subscription its own secret")
        .cwe(323)
        .exercise(OWN_SECRET)
        .rule(FindingRule::All(reused)),
    Check::new("secret-is-a-key", Severity::High, "A signing secret is an API key")
        .why("A receiver that knows its secret then knows the key, and the other way round.")
        .clause("Authentication 5; Events: the body is signed with the subscription secret")
        .remedy("use a secret that is nothing else, and replace the key")
        .cwe(323)
        .exercise(OWN_SECRET)
        .rule(FindingRule::Request(is_key)),
    Check::new("secret-ambiguous", Severity::Low, "Libraries read a signing secret in different ways")
        .why("A receiver in another language would refuse every delivery.")
        .clause(clauses::SIGNATURE)
        .remedy("leave the secret out, so that the service generates one, or use `whsec_` and 24 to 64 random bytes in base64")
        .confidence("likely, because it depends on the receiver's library")
        .exercise(OWN_SECRET)
        .rule(FindingRule::Request(ambiguous)),
];

/// Keys of fewer bytes are guessable.
const SHORT: usize = 16;
/// Words that people put where a secret belongs.
const WORDS: [&str; 8] = ["secret", "password", "changeme", "change-me", "test", "example", "dummy", "placeholder"];

/// The secret of a subscribe request.
fn secret_of<'s>(it: &'s JudgedRequest<'_>) -> Option<&'s str> {
    it.only(Operation::EventsSubscribe)?;
    it.body.secret.as_deref().filter(|secret| !secret.is_empty())
}

/// Why a secret can be guessed.
fn weakness(secret: &str, profile: &Profile) -> Option<String> {
    let text = secret.strip_prefix("whsec_").unwrap_or(secret);
    let is_word = |word: &str| {
        let rest = text.to_ascii_lowercase().replace(word, "");
        rest.len() < text.len() && rest.bytes().all(|byte| !byte.is_ascii_alphabetic())
    };
    if WORDS.into_iter().any(is_word) {
        return Some("a secret made of a common word".to_owned());
    }
    let mut kinds: Vec<u8> = text.bytes().collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.len() < 5 {
        return Some(format!("a secret of {}", counted(kinds.len(), "different character")));
    }
    let scheme = profile.schemes().into_iter().next()?;
    let key = SigningKey::read(secret, &scheme, profile.webhooks.secret_key).ok()?;
    let length = key.as_bytes().len();
    (length < SHORT).then(|| format!("a key of {length} bytes, fewer than {SHORT}"))
}

fn weak(it: &JudgedRequest<'_>) -> Assessment {
    let secret = secret_of(it)?;
    Some(weakness(secret, it.profile).map(|why| Occurrence::certain(it.request.id(), why)))
}

fn reused(traffic: &Traffic<'_>) -> Judged {
    let mut first_url: HashMap<String, String> = HashMap::new();
    let mut judged = Judged::default();
    let subscribes = |request: &RecordedRequest<'_>| request.0.operation == Some(Operation::EventsSubscribe);
    for request in traffic.requests().filter(subscribes) {
        let it = JudgedRequest::read(request, traffic.profile);
        let Some(secret) = secret_of(&it) else { continue };
        let url = it.body.url.as_deref().unwrap_or_default();
        let first = first_url.entry(secret.to_owned()).or_insert_with(|| url.to_owned());
        let detail = || format!("{url} has the secret of {first}");
        judged.count(Some((first != url).then(|| Occurrence::certain(request.id(), detail()))));
    }
    judged
}

fn is_key(it: &JudgedRequest<'_>) -> Assessment {
    let secret = secret_of(it)?;
    let sent = it.request.header("authorization");
    let own = sent.as_deref().and_then(|value| value.split_once(' ')).is_some_and(|(_, key)| key.trim() == secret);
    let found = own || it.key_in(secret).is_some();
    let whose = if own { "the key of the same request" } else { "an API key" };
    Some(found.then(|| Occurrence::certain(it.request.id(), format!("the signing secret is {whose}"))))
}

fn ambiguous(it: &JudgedRequest<'_>) -> Assessment {
    let secret = secret_of(it)?;
    let reading = it.profile.webhooks.secret_key;
    let warnings = it.profile.schemes().into_iter().flat_map(|scheme| secret_warnings(secret, &scheme, reading));
    let mut doubtful = warnings.filter(|warning| !warning.is_of_length);
    Some(doubtful.next().map(|warning| Occurrence::likely(it.request.id(), warning.text)))
}
