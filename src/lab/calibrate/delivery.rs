//! Inference from one captured delivery: the schemes that verify it, one of the service's own among them, how they read the secret, and the
//! event's envelope. Pure: the text of a request and a secret in.

use std::slice::from_ref;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};
use url::Url;

use super::evidence::{Observation, Seen, contradiction, hidden};
use super::infer::style_of;
use super::promises::{COMPLETED, EVENT};
use super::report::OtherSource;
use crate::contract::ids::IdKind;
use crate::contract::signature::{
    CustomScheme, Encoding, Hash, KeyReading, Message, Scheme, SchemeName, Signed, SigningKey, sign, sign_as,
};
use crate::contract::types::{EVENT_TYPES, WORKFLOW_COMPLETED};
use crate::util::captured::{self, CapturedMessage, Header};
use crate::util::wording::shorten;

/// A request as an inspection service, a log or a command shows it, with its body.
#[derive(Debug)]
pub struct CapturedDelivery {
    /// Event types that may have been subscribed.
    urls: Vec<String>,
    /// Names in lower case.
    headers: Vec<Header>,
    /// The body, and as it would be without what an editor adds.
    bodies: Vec<Vec<u8>>,
    /// The event; null if the body is none.
    event: Value,
}

/// A scheme whose signature is in the delivery.
struct MatchingScheme<'d> {
    name: SchemeName,
    /// The scheme of the service's own, if it is one.
    custom: CustomScheme,
    /// The headers that it sends, the signature's last.
    headers: Vec<String>,
    /// The readings of the secret that sign alike.
    readings: Vec<KeyReading>,
    /// The id and the time that are signed; empty if none is.
    id: &'d str,
    time: &'d str,
}

const MAX: usize = 256 * 1024;
const MAX_CANDIDATES: usize = 4;
/// Maximum number of headers that are compared with signatures of the service's own.
const MAX_HEADERS: usize = 16;
/// Maximum bytes that are signed to find the scheme, and how many a signature counts at least.
const MAX_SIGNED: usize = 128 * 1024 * 1024;
const LEAST_SIGNED: usize = 4 * 1024;
/// Contents that services sign, with or without separators.
const CONTENTS: &str = "{body},{timestamp} {body},{id} {timestamp} {body},{timestamp} {id} {body},{id} {body},v0 {timestamp} {body},\
                        {url} {body},{timestamp} {url} {body},{body} {timestamp}";
const BETWEEN: [&str; 5] = [".", ":", "", "|", "\n"];
/// Headers with what looks like a signature or a time and is none.
const OTHERS: [&str; 6] = ["authorization", "content-digest", "content-length", "cookie", "digest", "repr-digest"];
const SECONDS: &str = "Unix seconds";
const ISO: &str = "ISO 8601";

/// The search for the schemes of a delivery, and its cost.
struct Search<'d> {
    delivery: &'d CapturedDelivery,
    secret: &'d str,
    /// The ids and times that may be signed.
    ids: Vec<&'d str>,
    times: Vec<&'d str>,
    signatures: usize,
    bytes: usize,
    /// True if something was not tried.
    is_cut: bool,
}

static SIGNATURE: LazyLock<Regex> = LazyLock::new(|| {
    let hex = "[0-9a-fA-F]{40}|[0-9a-fA-F]{64}|[0-9a-fA-F]{128}";
    let base64 = "[A-Za-z0-9+/_-]{27}=|[A-Za-z0-9+/_-]{43}=|[A-Za-z0-9+/_-]{86}==";
    Regex::new(&format!("(?:^|[^0-9A-Za-z])(?:{hex}|{base64})$")).expect("a valid expression")
});

/// Possible further signatures, if compared with one: other tokens look similar.
static RARE_SIGNATURE: LazyLock<Regex> = LazyLock::new(|| {
    let unpadded = "[A-Za-z0-9+/_-]{27}|[A-Za-z0-9+/_-]{43}|[A-Za-z0-9+/_-]{86}";
    let of_hex = "[A-Za-z0-9]{54}==|[A-Za-z0-9]{86}==|[A-Za-z0-9]{171}=";
    Regex::new(&format!("(?:^|[^0-9A-Za-z])(?:{unpadded}|{of_hex})$")).expect("a valid expression")
});

impl CapturedDelivery {
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let is_delivery = |message: &CapturedMessage| message.method.as_deref().is_none_or(|method| method == "POST");
        let mut found: Vec<CapturedMessage> = captured::messages(bytes)?;
        found.retain(|message| is_delivery(message) && message.body.is_some());
        // The last signed one, if there are several.
        let is_signed =
            |message: &CapturedMessage| about_signatures(&message.headers).any(|(_, value)| SIGNATURE.is_match(value));
        let message = found.into_iter().max_by_key(is_signed);
        let message = message.ok_or("expected a request with `POST`, headers and a body")?;
        let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if headers + message.body.as_deref().unwrap_or_default().len() > MAX {
            return Err("the delivery is larger than 256 KiB".to_owned());
        }
        let target = message.target.as_deref().unwrap_or_default();
        let hosts = ["x-forwarded-host", "host"].into_iter().flat_map(|name| message.values(name));
        let whole = |host: &str| ["https", "http"].map(|scheme| format!("{scheme}://{host}{target}"));
        let urls: Vec<String> =
            if target.starts_with('/') { hosts.flat_map(whole).collect() } else { vec![target.to_owned()] };
        let body = message.body.as_deref().unwrap_or_default();
        let mut bodies = vec![body.to_vec()];
        for other in [message.sent_body().unwrap_or(body), body.trim_ascii_end()] {
            if bodies.iter().all(|known| known != other) {
                bodies.push(other.to_vec());
            }
        }
        let urls = urls.into_iter().map(|url| Url::parse(&url).map_or(url, String::from)).collect();
        Ok(Self {
            urls,
            event: bodies.iter().find_map(|body| serde_json::from_slice(body).ok()).unwrap_or_default(),
            headers: message.headers.clone(),
            bodies,
        })
    }

    /// Inference with the secret of its subscription.
    pub fn shows(&self, secret: &str) -> OtherSource {
        let settings = self
            .signature(&mut Search::new(self, secret))
            .into_iter()
            .chain(self.envelope())
            .chain([self.user_agent()])
            .collect();
        OtherSource { source: "the delivery", settings }
    }

    fn signature<'d>(&'d self, search: &mut Search<'d>) -> Vec<(&'static str, Observation)> {
        let named = SchemeName::ALL.into_iter().filter(|name| *name != SchemeName::Custom);
        let mut schemes: Vec<MatchingScheme<'_>> = named.filter_map(|name| search.named(name)).collect();
        let is_named = !schemes.is_empty();
        let own = if is_named { hidden("a named scheme verifies it") } else { search.own(&mut schemes) };
        schemes.sort_by_key(|scheme| self.headers.iter().rposition(|(name, _)| Some(name) == scheme.headers.last()));
        let names: Vec<&str> = schemes.iter().map(|scheme| scheme.name.name()).collect();
        let all = names.join(", ");
        let is_known = |name: &String| schemes.iter().any(|scheme| scheme.headers.contains(name));
        let further = self.others().find(|(name, value)| !is_known(name) && SIGNATURE.is_match(value));
        let form = schemes.iter().map(|scheme| form(scheme.time)).find(|form| !form.is_empty()).unwrap_or_default();
        let is_odd = !["", SECONDS].contains(&form);
        let note = if is_odd { format!("its time is in {form}, which is in {SECONDS} here") } else { String::new() };
        let scheme = match (&names[..], further) {
            ([], _) => own.clone(),
            (_, Some((name, _))) => hidden(format!("{all} verifies it, and `{name}` looks like one more signature")),
            ([one], _) => Ok(Seen::new(*one, []).noted(note)),
            _ if self.headers.iter().filter(|(name, _)| name != "host").is_sorted() => {
                hidden(format!("{all} verify it; their order is hidden by sorted headers"))
            }
            _ => Ok(Seen::new(json!(names), []).noted(note)),
        };
        let is_shared = |reading: &KeyReading| schemes.iter().all(|scheme| scheme.readings.contains(reading));
        let readings: Vec<&str> = KeyReading::ALL.iter().filter(|key| is_shared(key)).map(|key| key.name()).collect();
        let alike = readings.join(", ");
        let reading = match readings[..] {
            _ if schemes.is_empty() => hidden("no scheme verifies the delivery with this secret"),
            // `webhooks.custom.key` would have read it alike, so this is only needed if no library reads it so by itself.
            [one] if !is_named && one != KeyReading::Auto.name() => Ok(Seen::new(one, [])),
            _ if !is_named => hidden(format!("the secret is read as {alike}, by `key` or webhooks.secret_key")),
            [] => hidden("the schemes read the secret differently"),
            [one] => Ok(Seen::new(one, [])),
            _ => hidden(format!("this secret is read alike as {alike}")),
        };
        let time = if form.is_empty() { "no header has its time".to_owned() } else { format!("its time is in {form}") };
        vec![
            ("webhooks.scheme", scheme),
            ("webhooks.custom", own),
            ("webhooks.secret_key", reading),
            ("webhooks.timestamp", hidden(format!("{time}; the service has one clock"))),
        ]
    }

    /// The headers that may be about the signature.
    fn others(&self) -> impl Iterator<Item = (&String, &str)> {
        about_signatures(&self.headers)
    }

    /// The headers with something at their end that may be a signature like this one.
    fn ending_like(&self, token: &str, encoding: Encoding) -> Vec<&Header> {
        // Hexadecimal text is not tried as base64.
        let is_hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        // Nor is a text tried in an encoding that it cannot have.
        let is_written = |end: &str| match encoding {
            Encoding::Hex => !end.bytes().any(|byte| byte.is_ascii_uppercase()),
            Encoding::HexCapitals => !end.bytes().any(|byte| byte.is_ascii_lowercase()),
            Encoding::Base64Url | Encoding::Base64UrlUnpadded => end.contains(['-', '_']),
            Encoding::Base64 | Encoding::Base64Unpadded | Encoding::Base64OfHex => !end.contains(['-', '_']),
        };
        let is_any = |end: &str| SIGNATURE.is_match(end) || RARE_SIGNATURE.is_match(end);
        let is_alike = |end: &str| is_any(end) && is_hexadecimal(end) == is_hexadecimal(token) && is_written(end);
        let ends = |value: &str| {
            let end = value.len().checked_sub(token.len()).and_then(|at| value.get(at..));
            end.is_some_and(is_alike)
        };
        self.headers.iter().filter(|(_, value)| ends(value)).take(MAX_HEADERS).collect()
    }

    /// Inference from the body.
    fn user_agent(&self) -> (&'static str, Observation) {
        let sent = self.headers.iter().find(|(name, _)| name == "user-agent").map(|(_, value)| value.as_str());
        let seen = match sent {
            Some(agent) => Ok(Seen::new(agent, [])),
            None => hidden("the capture has no User-Agent, and may have lost it"),
        };
        ("webhooks.user_agent", seen)
    }

    fn envelope(&self) -> Vec<(&'static str, Observation)> {
        let text = |name: &str| self.event[name].as_str().unwrap_or_default();
        let shown = |name: &str| format!("`{name}` is {}", shorten(&self.event[name].to_string(), 60));
        let event_type = text("type");
        let further = if event_type == WORKFLOW_COMPLETED { COMPLETED } else { &[] };
        // The observed value of a field, unless it breaks a promise.
        let field = |name: &str, seen: Observation| {
            let promises = EVENT.iter().chain(further).filter(|promise| promise.field.starts_with(name));
            let broken =
                promises.into_iter().find_map(|promise| Some((promise.clause, promise.broken_by(&self.event)?)));
            broken.map_or(seen, |(clause, how)| contradiction(clause, how))
        };
        let style = style_of(IdKind::Event, text("id")).map(|style| Seen::new(style, []));
        let precision =
            format!("{}; to tell whether others have as many digits needs more deliveries", shown("created_at"));
        let data = format!("{}; one value does not show how it is made", shown("data"));
        let mut found = vec![
            ("ids.style", field("/id", style)),
            ("time.precision", field("/created_at", hidden(precision))),
            ("events.data", field("/data", hidden(data))),
        ];
        if !EVENT_TYPES.contains(&event_type) {
            let types = format!("{}; one delivery does not show all types", shown("type"));
            found.push(("events.extra", field("/type", hidden(types))));
        }
        found
    }
}

fn about_signatures(headers: &[Header]) -> impl Iterator<Item = (&String, &str)> {
    let others = headers.iter().filter(|(name, _)| !OTHERS.contains(&name.as_str()));
    others.map(|(name, value)| (name, value.as_str()))
}

/// The headers of a scheme, made with a dummy key.
fn sample(scheme: &Scheme) -> Signed {
    let key = SigningKey::from_bytes(vec![0; 32]).expect("it is not empty");
    sign(scheme, &[key], &Message { id: "", timestamp: 0, url: "", body: b"" })
}

impl<'d> Search<'d> {
    fn new(delivery: &'d CapturedDelivery, secret: &'d str) -> Self {
        let in_headers = delivery.others().filter(|(name, _)| name.ends_with("id")).map(|(_, value)| value);
        let ids = delivery.event["id"].as_str().into_iter().chain(in_headers).take(MAX_CANDIDATES);
        let parts = delivery.others().flat_map(|(_, value)| value.split([',', ';', ' ', '=']));
        let times = parts.filter(|part| !form(part).is_empty()).take(MAX_CANDIDATES);
        let (ids, times) = (ids.collect(), times.collect());
        Self { delivery, secret, ids, times, signatures: 0, bytes: 0, is_cut: false }
    }

    /// Counts signatures of a text of this size; false if that is too much, and for everything after it.
    fn spend(&mut self, size: usize, signatures: usize) -> bool {
        let bytes = self.bytes + size.max(LEAST_SIGNED) * signatures;
        self.is_cut |= bytes > MAX_SIGNED;
        if !self.is_cut {
            (self.bytes, self.signatures) = (bytes, self.signatures + signatures);
        }
        !self.is_cut
    }

    /// A scheme that has a name, if its headers are there.
    fn named(&mut self, name: SchemeName) -> Option<MatchingScheme<'d>> {
        let custom = CustomScheme::default();
        let sent = sample(&Scheme::new(name, &custom)).headers;
        let all = &self.delivery.headers;
        let has_all = sent.iter().all(|(name, _)| all.iter().any(|(known, _)| name == known));
        let is_signature = |(known, _): &&Header| has_all && sent.last().is_some_and(|(name, _)| name == known);
        let headers: Vec<&Header> = all.iter().filter(is_signature).take(MAX_HEADERS).collect();
        self.find(name, &custom, &headers)
    }

    /// Signs what may have been signed under a scheme, until a signature is found in a header: in the scheme's, or at the end of any, if it
    /// is one of the service's own.
    fn find(&mut self, name: SchemeName, custom: &CustomScheme, headers: &[&'d Header]) -> Option<MatchingScheme<'d>> {
        let (delivery, scheme) = (self.delivery, Scheme::new(name, custom));
        // Readings that are the same key sign alike.
        let mut keys: Vec<(Vec<KeyReading>, SigningKey)> = Vec::new();
        for reading in KeyReading::ALL {
            let scheme = Scheme::new(name, &CustomScheme { key: reading, ..custom.clone() });
            let Ok(key) = SigningKey::read(self.secret, &scheme, reading) else { continue };
            match keys.iter_mut().find(|(_, known)| known.as_bytes() == key.as_bytes()) {
                Some((readings, _)) => readings.push(reading),
                None => keys.push((vec![reading], key)),
            }
        }
        let if_signed =
            |part, values: &[&'d str]| if scheme.content().contains(part) { values.to_vec() } else { vec![""] };
        let (ids, times) = (if_signed("{id}", &self.ids), if_signed("{timestamp}", &self.times));
        let urls = if_signed("{url}", &delivery.urls.iter().map(String::as_str).collect::<Vec<_>>());
        let with_time = ids.iter().flat_map(|id| times.iter().map(move |time| (*id, *time)));
        let with_url = with_time.flat_map(|parts| urls.iter().map(move |url| (parts, *url)));
        let candidates = with_url.flat_map(|parts| delivery.bodies.iter().map(move |body| (parts, body)));
        for (((id, time), url), body) in candidates.filter(|_| !headers.is_empty()) {
            if !self.spend(id.len() + time.len() + url.len() + body.len(), keys.len()) {
                return None;
            }
            let message = Message { id, timestamp: 0, url, body };
            let signed: Vec<_> = keys
                .iter()
                .map(|(readings, key)| (readings, sign_as(&scheme, from_ref(key), &message, time.to_owned())))
                .collect();
            let is_own = name == SchemeName::Custom;
            for (header, value) in headers {
                let in_value = |token: &str| if is_own { value.ends_with(token) } else { value.contains(token) };
                let Some((readings, found)) = signed.iter().find(|(_, signed)| in_value(&signed.signatures[0])) else {
                    continue;
                };
                let prefix = value.len().saturating_sub(found.signatures[0].len());
                let custom = CustomScheme {
                    signature_header: header.clone(),
                    prefix: value.get(..prefix).unwrap_or_default().to_owned(),
                    ..custom.clone()
                };
                let headers = found.headers.iter().map(|(name, _)| name.to_string()).collect();
                return Some(MatchingScheme { name, custom, headers, readings: (*readings).clone(), id, time });
            }
        }
        None
    }

    /// The fields of `webhooks.custom` that are shown by a scheme of the service's own, which is added to the schemes.
    fn own(&mut self, schemes: &mut Vec<MatchingScheme<'d>>) -> Observation {
        let contents = CONTENTS.split(',').flat_map(|parts| BETWEEN.map(|between| parts.replace(' ', between)));
        let hashes = [Hash::Sha256, Hash::Sha512, Hash::Sha1];
        let forms = hashes.map(|hash| Encoding::ALL.map(|encoding| (hash, encoding))).concat();
        let sent_form = |(hash, encoding)| {
            let custom = CustomScheme { hash, encoding, prefix: String::new(), ..CustomScheme::default() };
            let headers =
                self.delivery.ending_like(&sample(&Scheme::new(SchemeName::Custom, &custom)).signatures[0], encoding);
            (!headers.is_empty()).then_some((custom, headers))
        };
        let forms: Vec<_> = forms.into_iter().filter_map(sent_form).collect();
        let mut customs = contents.flat_map(|content| {
            let custom = move |custom: &CustomScheme| CustomScheme { content: content.clone(), ..custom.clone() };
            forms.iter().map(move |(form, headers)| (custom(form), headers))
        });
        let found = customs.find_map(|(custom, headers)| self.find(SchemeName::Custom, &custom, headers));
        let Some(mut found) = found else { return hidden(self.unverified()) };
        let delivery = self.delivery;
        let (custom, time) = (&found.custom, found.time);
        let is_beside = !time.is_empty() && delivery.others().all(|(_, value)| value != time);
        if is_beside || self.times.iter().any(|time| custom.prefix.contains(time)) {
            let (name, content, hash) = (&custom.signature_header, json!(custom.content), json!(custom.hash));
            return hidden(format!("`{name}` has {hash} of {content} besides the time, which no setting sends"));
        }
        // The header that must be meant; none if several may be.
        let only = |is_it: &dyn Fn(&str) -> bool| {
            let mut found = delivery.others().filter(|(_, value)| is_it(value)).map(|(name, _)| name.as_str());
            let first = found.next().unwrap_or_default();
            found.next().is_none().then_some(first)
        };
        let id_header = match found.id {
            "" => only(&|value| delivery.event["id"] == value),
            id => only(&|value| value == id),
        };
        let time_header = match time {
            "" => only(&|value| form(value) == SECONDS),
            time => only(&|value| value == time),
        };
        let sent = [id_header, time_header, Some(&custom.signature_header)].into_iter().flatten();
        let headers = sent.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let mut fields = json!(custom);
        (fields["id_header"], fields["timestamp_header"]) = (json!(id_header), json!(time_header));
        let shown = fields.as_object().into_iter().flatten().filter(|(name, value)| *name != "key" && !value.is_null());
        let shown: Map<String, Value> = shown.map(|(name, value)| (name.clone(), value.clone())).collect();
        found.headers = headers;
        schemes.push(found);
        Ok(Seen::new(shown, []))
    }

    fn unverified(&self) -> String {
        let names: Vec<&str> = self.delivery.headers.iter().map(|(name, _)| name.as_str()).collect();
        let length = self.delivery.headers.iter().find(|(name, _)| name == "content-length");
        let sent: usize = length.and_then(|(_, length)| length.parse().ok()).unwrap_or_default();
        let found = self.delivery.bodies[0].len();
        let cut = if sent > found { format!("; the body has {found} of {sent} bytes") } else { String::new() };
        let tried = match self.signatures {
            count if self.is_cut => {
                format!(" among {count} signatures; for a delivery of this size no more are tried")
            }
            _ => String::new(),
        };
        format!("no scheme verifies the delivery with this secret{tried}; its headers: {}{cut}", names.join(", "))
    }
}

/// The form of a time; empty if it is none.
fn form(text: &str) -> &'static str {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.len() {
        9..=11 if is_number => SECONDS,
        12..=14 if is_number => "milliseconds",
        15..=19 if is_number => "a fraction of milliseconds",
        _ if text.parse::<jiff::Timestamp>().is_ok() => ISO,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    /// The cost of the search for a delivery with these headers and a body of this size, and its reason.
    fn effort(headers: &str, size: usize) -> (usize, usize, String) {
        let body = format!("{{\"id\":\"evt_1\",\"x\":\"{}\"}}\n", "x".repeat(size));
        let raw = format!("POST /hooks HTTP/1.1\nhost: a.example\ncontent-length: {size}\n{headers}\n\n{body}");
        let delivery = CapturedDelivery::read(raw.as_bytes()).expect("a delivery");
        let mut search = Search::new(&delivery, SECRET);
        let found = delivery.signature(&mut search);
        let reason = found.into_iter().find_map(|(_, found)| found.err()).expect("no scheme").reason;
        (search.signatures, search.bytes, reason)
    }

    #[test]
    fn the_search_for_the_scheme_ends() {
        // Nothing that looks like a signature, however long it is.
        let (signatures, ..) = effort("x-own: none\nx-time: 1769851800\n", 200_000);
        assert_eq!(signatures, 0);
        // The usual: one signature, an id and a time.
        let usual = format!("x-sign: v1={}\nx-time: 1769851800\nx-id: 1\n", "a".repeat(64));
        let (signatures, _, reason) = effort(&usual, 2_000);
        assert!((100..2_000).contains(&signatures) && !reason.contains("no more"), "{signatures} {reason}");
        // Every form, and as many ids, times and headers as there is room for.
        let any = |form: fn(usize) -> String| (0..100).map(form).collect::<String>();
        let signed = any(|at| {
            let tokens = [40, 64, 128].map(|length| "a".repeat(length));
            let base64 = [27, 43, 86].map(|length| format!("{}{}", "+".repeat(length), &"=="[..=length % 3 / 2]));
            tokens.iter().chain(&base64).map(|token| format!("x-{at}: {token}\n")).collect()
        });
        let others = any(|at| format!("x-{at}-id: {at}\nx-{at}-time: 17698518{at:02}\n"));
        for size in [10, 150_000] {
            let (signatures, bytes, reason) = effort(&format!("{signed}{others}"), size);
            assert!(signatures > 100 && bytes <= MAX_SIGNED, "{size}: {signatures}, {bytes}");
            assert!(signatures <= MAX_SIGNED / LEAST_SIGNED, "{size}: {signatures}");
            assert_eq!(reason.contains("no more are tried"), size > 10, "{size}: {signatures}, {reason}");
        }
    }
}
