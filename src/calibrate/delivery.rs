//! What one captured delivery shows: the schemes that verify it, one of the service's own among them, how they read the secret, and the
//! event's envelope. Pure: the text of a request and a secret in.

use std::sync::LazyLock;

use hyper::header::HeaderName;
use regex::Regex;
use serde_json::{Map, Value, json};
use url::Url;

use super::evidence::{Observation, Seen, Unclear, hidden};
use super::infer::style_of;
use super::report::OtherSource;
use crate::contract::ids::IdKind;
use crate::contract::signature::{
    CustomScheme, Encoding, Hash, KeyReading, Message, Scheme, SchemeName, SigningKey, sign, sign_as, verify,
};
use crate::contract::types::{EVENT_TYPES, WORKFLOW_COMPLETED};

/// A request as an inspection service or a log shows it: request line or pseudo headers, headers, an empty line, the body.
#[derive(Debug)]
pub struct CapturedDelivery {
    /// What may have been subscribed.
    urls: Vec<String>,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    /// The body, and as it would be without what an editor adds.
    bodies: Vec<Vec<u8>>,
}

/// A scheme that verifies the delivery.
struct Verifying {
    name: &'static str,
    /// The headers that it sends, the signature's last.
    headers: Vec<String>,
    /// The readings of the secret that verify it.
    readings: Vec<KeyReading>,
    /// The text of its time; empty without one.
    time: String,
}

/// A scheme of the service's own with the readings of the secret, the id and the time that sign.
type Signing<'d> = (CustomScheme, Vec<KeyReading>, &'d str, &'d str);

const LARGEST: usize = 256 * 1024;
const MOST_CANDIDATES: usize = 4;
/// What services sign, with or without something between the parts.
const CONTENTS: &str = "{body},{timestamp} {body},{id} {timestamp} {body},{timestamp} {id} {body},{id} {body},v0 {timestamp} {body},\
                        {url} {body},{timestamp} {url} {body},{body} {timestamp}";
const BETWEEN: [&str; 5] = [".", ":", "", "|", "\n"];
/// Headers with what looks like a signature or a time and is none.
const OTHERS: [&str; 6] = ["authorization", "content-digest", "content-length", "cookie", "digest", "repr-digest"];
const SECONDS: &str = "Unix seconds";
const ISO: &str = "ISO 8601";
const ENVELOPE: &str = "Event envelope: id (form evt_<id>), type, created_at (ISO 8601 UTC) and data (object)";
const COMPLETED: &str = "Events: workflow.completed has workflow_id (form wf_<id>) and status (value completed)";

static SIGNATURE: LazyLock<Regex> = LazyLock::new(|| {
    let hex = "[0-9a-fA-F]{40}|[0-9a-fA-F]{64}|[0-9a-fA-F]{128}";
    let base64 = "[A-Za-z0-9+/_-]{27}=|[A-Za-z0-9+/_-]{43}=|[A-Za-z0-9+/_-]{86}==";
    Regex::new(&format!("(?:^|[^0-9A-Za-z])(?:{hex}|{base64})$")).expect("a valid expression")
});

impl CapturedDelivery {
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
        let ends = [&b"\n\r\n"[..], b"\n\n"].into_iter();
        let end =
            ends.filter_map(|end| Some((bytes.windows(end.len()).position(|part| part == end)?, end.len()))).min();
        let (at, length) = end.ok_or("expected the request line, headers, an empty line and the body")?;
        if bytes.len() > LARGEST {
            return Err("it is larger than 256 KiB".to_owned());
        }
        let head = std::str::from_utf8(&bytes[..at]).map_err(|_| "the headers are not text")?;
        let line = head.lines().next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let pseudo = |name: &str| head.lines().find_map(|line| Some(line.trim().strip_prefix(name)?.trim()));
        let method = pseudo(":method:").or_else(|| words.next());
        let target = pseudo(":path:").or_else(|| words.next()).filter(|_| method == Some("POST"));
        let target =
            target.ok_or_else(|| format!("expected `POST /path HTTP/1.1`, found `{}`", line.escape_debug()))?;
        // Neither the request line nor a pseudo header has a valid name.
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((HeaderName::from_bytes(name.trim().as_bytes()).ok()?.to_string(), value.trim().to_owned()))
        };
        let mut read =
            Self { headers: head.lines().filter_map(header).collect(), urls: Vec::new(), bodies: Vec::new() };
        let hosts =
            [pseudo(":authority:").map(str::to_owned), read.header("x-forwarded-host", 0), read.header("host", 0)];
        let whole = |host| ["https", "http"].map(|scheme| format!("{scheme}://{host}{target}"));
        let urls: Vec<String> = hosts.into_iter().flatten().flat_map(whole).collect();
        let urls = if target.starts_with('/') { urls } else { vec![target.to_owned()] };
        read.urls = urls.into_iter().map(|url| Url::parse(&url).map_or(url, String::from)).collect();
        let body = &bytes[at + length..];
        let sent = read.header("content-length", 0).and_then(|length| body.get(..length.parse().ok()?));
        read.bodies = vec![body.to_vec(), sent.unwrap_or(body).to_vec(), body.trim_ascii_end().to_vec()];
        read.bodies.dedup();
        Ok(read)
    }

    /// What it shows with the secret of its subscription.
    pub fn shows(&self, secret: &str) -> OtherSource {
        let mut shown = OtherSource { source: "the delivery", ..OtherSource::default() };
        let mut say = |setting, found| drop(shown.settings.insert(setting, found));
        self.signature(secret, &mut say);
        self.envelope(&mut say);
        shown
    }

    fn signature(&self, secret: &str, say: &mut impl FnMut(&'static str, Observation)) {
        let named = SchemeName::ALL.into_iter().filter(|name| *name != SchemeName::Custom);
        let mut schemes: Vec<Verifying> = named.filter_map(|name| self.named(name, secret)).collect();
        let is_named = !schemes.is_empty();
        let own = match if is_named { Err("a named scheme verifies it".to_owned()) } else { self.custom(secret) } {
            Ok((scheme, fields)) => {
                schemes.push(scheme);
                Ok(Seen::new(fields, []))
            }
            Err(reason) => hidden(reason),
        };
        schemes.sort_by_key(|scheme| self.headers.iter().rposition(|(name, _)| Some(name) == scheme.headers.last()));
        let names: Vec<&str> = schemes.iter().map(|scheme| scheme.name).collect();
        let all = names.join(", ");
        let is_known = |name: &String| schemes.iter().any(|scheme| scheme.headers.contains(name));
        let further = self.others().find(|(name, value)| !is_known(name) && SIGNATURE.is_match(value));
        let form = schemes.iter().map(|scheme| form(&scheme.time)).find(|form| !form.is_empty());
        let odd = form.filter(|form| *form != SECONDS);
        let note = odd.map_or_else(String::new, |form| format!("its time is in {form}, which is in {SECONDS} here"));
        let scheme = match (&names[..], further) {
            ([], _) => own.clone(),
            (_, Some((name, _))) => hidden(format!("{all} verifies it, and `{name}` looks like one more signature")),
            ([one], _) => Ok(Seen::new(*one, []).noted(note)),
            _ if self.headers.is_sorted() => {
                hidden(format!("{all} verify it; their order is hidden by sorted headers"))
            }
            _ => Ok(Seen::new(json!(names), []).noted(note)),
        };
        let is_shared = |reading: &KeyReading| schemes.iter().all(|scheme| scheme.readings.contains(reading));
        let readings: Vec<&str> = KeyReading::ALL.iter().filter(|key| is_shared(key)).map(|key| key.name()).collect();
        let alike = readings.join(", ");
        let reading = match &readings[..] {
            _ if schemes.is_empty() => hidden("no scheme verifies the delivery with this secret"),
            // `webhooks.custom.key` would have read it alike.
            _ if !is_named => hidden(format!("the secret is read as {alike}, by `key` or webhooks.secret_key")),
            [] => hidden("the schemes read the secret differently"),
            [one] => Ok(Seen::new(*one, [])),
            _ => hidden(format!("this secret is read alike as {alike}")),
        };
        let form = form.map_or_else(|| "no header has its time".to_owned(), |form| format!("its time is in {form}"));
        say("webhooks.scheme", scheme);
        say("webhooks.custom", own);
        say("webhooks.secret_key", reading);
        say("webhooks.timestamp", hidden(format!("{form}; the service has one clock")));
    }

    /// The headers that may be about the signature.
    fn others(&self) -> impl Iterator<Item = &(String, String)> {
        self.headers.iter().filter(|(name, _)| !OTHERS.contains(&name.as_str()))
    }

    /// A header's value; of several that are not alike the one at this place, or the last.
    fn header(&self, name: &str, place: usize) -> Option<String> {
        let values: Vec<&String> =
            self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value).collect();
        values.get(place).or(values.last()).map(|value| (*value).clone())
    }

    fn named(&self, name: SchemeName, secret: &str) -> Option<Verifying> {
        let scheme = Scheme::new(name, &CustomScheme::default());
        let any_key = SigningKey::from_bytes(vec![0]).expect("a byte is a key");
        let sent = sign(&scheme, &[any_key], &Message { id: "", timestamp: 0, url: "", body: b"" }).headers;
        // Libraries accept less than is sent.
        let headers: Vec<String> = sent.into_iter().map(|(name, _)| name.into_owned()).collect();
        if headers.iter().any(|name| self.header(name, 0).is_none()) {
            return None;
        }
        let verified = |reading| {
            let keys = [SigningKey::read(secret, &scheme, reading).ok()?];
            let mut tries = (0..MOST_CANDIDATES).flat_map(|place| self.bodies.iter().map(move |body| (place, body)));
            let verify = |place, body: &[u8]| {
                verify(&scheme, &keys, &|name: &str| self.header(name, place), "", body, 0, i64::MAX).ok()
            };
            tries.find_map(|(place, body)| Some((reading, verify(place, body)?.timestamp)))
        };
        let found: Vec<_> = KeyReading::ALL.into_iter().filter_map(verified).collect();
        let time = found.first()?.1.map_or_else(String::new, |time| time.to_string());
        Some(Verifying { name: name.name(), headers, readings: found.into_iter().map(|(key, _)| key).collect(), time })
    }

    /// A scheme of the service's own, with the fields of `webhooks.custom` that are shown; else why there is none.
    fn custom(&self, secret: &str) -> Result<(Verifying, Map<String, Value>), String> {
        let event = self.event();
        let event_id = event.get("id").and_then(Value::as_str);
        let ids = self.others().filter(|(name, _)| name.ends_with("id")).map(|(_, value)| value.as_str());
        let parts = self.others().flat_map(|(_, value)| value.split([',', ';', ' ', '=']));
        let times: Vec<&str> = parts.filter(|part| !form(part).is_empty()).collect();
        let ids: Vec<&str> = event_id.into_iter().chain(ids).collect();
        let (scheme, readings, id, time) = self.search(secret, &ids, &times).ok_or_else(|| self.unverified())?;
        let is_beside = !time.is_empty() && self.others().all(|(_, value)| value != time);
        if is_beside || times.iter().any(|time| scheme.prefix.contains(time)) {
            let (name, content, hash) = (scheme.signature_header, json!(scheme.content), json!(scheme.hash));
            return Err(format!("`{name}` has {hash} of {content} beside the time, which no setting sends"));
        }
        // The header that must be meant; none if several may be.
        let only = |is_it: &dyn Fn(&str) -> bool| {
            let mut found = self.others().filter(|(_, value)| is_it(value)).map(|(name, _)| name.as_str());
            let first = found.next().unwrap_or_default();
            found.next().is_none().then_some(first)
        };
        let [has_id, has_time] = ["{id}", "{timestamp}"].map(|part| scheme.content.contains(part));
        let id_header = only(&|value| if has_id { value == id } else { Some(value) == event_id });
        let time_header = only(&|value| if has_time { value == time } else { form(value) == SECONDS });
        let sent = [id_header, time_header, Some(&scheme.signature_header)].into_iter().flatten();
        let headers = sent.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let mut fields = json!(scheme).as_object().cloned().unwrap_or_default();
        fields.insert("id_header".to_owned(), json!(id_header));
        fields.insert("timestamp_header".to_owned(), json!(time_header));
        fields.retain(|name, value| name != "key" && !value.is_null());
        Ok((Verifying { name: "custom", headers, readings, time: time.to_owned() }, fields))
    }

    /// The first content, hash and encoding whose signature is the end of a header.
    fn search<'d>(&'d self, secret: &str, ids: &[&'d str], times: &[&'d str]) -> Option<Signing<'d>> {
        let urls: Vec<&str> = self.urls.iter().map(String::as_str).collect();
        for content in CONTENTS.split(',').flat_map(|parts| BETWEEN.map(|between| parts.replace(' ', between))) {
            let [ids, times, urls] = [("{id}", ids), ("{timestamp}", times), ("{url}", &urls)].map(|(part, values)| {
                if content.contains(part) { &values[..values.len().min(MOST_CANDIDATES)] } else { &[""] }
            });
            let signed = ids.iter().flat_map(|id| times.iter().map(move |time| (*id, *time)));
            let signed = signed.flat_map(|parts| urls.iter().map(move |url| (parts, *url)));
            for (((id, time), url), body) in signed.flat_map(|parts| self.bodies.iter().map(move |body| (parts, body)))
            {
                let message = Message { id, timestamp: 0, url, body };
                let found = self.signed_by(&content, secret, &message, time);
                if let Some((scheme, readings)) = found {
                    return Some((scheme, readings, id, time));
                }
            }
        }
        None
    }

    /// The scheme that signs this message in a header, and the readings of the secret that do.
    fn signed_by(
        &self,
        content: &str,
        secret: &str,
        message: &Message<'_>,
        time: &str,
    ) -> Option<(CustomScheme, Vec<KeyReading>)> {
        let hashes = [Hash::Sha256, Hash::Sha512, Hash::Sha1];
        for (hash, encoding) in hashes.map(|hash| [(hash, Encoding::Hex), (hash, Encoding::Base64)]).concat() {
            let (content, prefix) = (content.to_owned(), String::new());
            let mut custom = CustomScheme { content, hash, encoding, prefix, ..CustomScheme::default() };
            let signed = |key| {
                let scheme = Scheme::new(SchemeName::Custom, &CustomScheme { key, ..custom.clone() });
                let keys = [SigningKey::read(secret, &scheme, key).ok()?];
                Some((key, sign_as(&scheme, &keys, message, time.to_owned()).signatures.concat()))
            };
            let signed: Vec<_> = KeyReading::ALL.into_iter().filter_map(signed).collect();
            for (name, value) in &self.headers {
                let alike: Vec<_> = signed.iter().filter(|(_, signature)| value.ends_with(signature)).collect();
                if let Some((_, signature)) = alike.first() {
                    let prefix = value[..value.len() - signature.len()].to_owned();
                    (custom.signature_header, custom.prefix) = (name.clone(), prefix);
                    return Some((custom, alike.into_iter().map(|(key, _)| *key).collect()));
                }
            }
        }
        None
    }

    /// The event; empty if the body is none.
    fn event(&self) -> Map<String, Value> {
        self.bodies.iter().find_map(|body| serde_json::from_slice(body).ok()).unwrap_or_default()
    }

    fn unverified(&self) -> String {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let sent: usize = self.header("content-length", 0).and_then(|length| length.parse().ok()).unwrap_or_default();
        let found = self.bodies[0].len();
        let cut = if sent > found { format!("; the body has {found} of {sent} bytes") } else { String::new() };
        format!("no scheme verifies the delivery with this secret; its headers: {}{cut}", names.join(", "))
    }

    /// What the body shows.
    fn envelope(&self, say: &mut impl FnMut(&'static str, Observation)) {
        let event = self.event();
        let text = |name| event.get(name).and_then(Value::as_str).unwrap_or_default();
        let shown = |name: &str| {
            let value = event.get(name).map_or_else(|| "absent".to_owned(), Value::to_string);
            format!("`{name}` is {}", value.chars().take(60).collect::<String>())
        };
        let against = |clause, name| Err(Unclear::Contradicts(clause, shown(name)));
        say("ids.style", style_of(IdKind::Event, text("id")).map(|style| Seen::new(style, [])));
        let (time, event_type) = (text("created_at"), text("type"));
        let is_utc = (time.ends_with('Z') || time.ends_with("+00:00")) && form(time) == ISO;
        let time = hidden(format!("{}; whether others have as many digits takes more deliveries", shown("created_at")));
        say("time.precision", if is_utc { time } else { against(ENVELOPE, "created_at") });
        if event_type.is_empty() {
            say("events.extra", against(ENVELOPE, "type"));
        } else if !EVENT_TYPES.contains(&event_type) {
            say("events.extra", hidden(format!("{}; one delivery does not show all types", shown("type"))));
        }
        let of_data = |name: &str| event["data"].get(name).and_then(Value::as_str).unwrap_or_default();
        let is_completed =
            || of_data("workflow_id").starts_with(IdKind::Workflow.prefix()) && of_data("status") == "completed";
        let names = |fields: &Map<String, Value>| fields.keys().cloned().collect::<Vec<_>>().join(", ");
        let data = match event.get("data").and_then(Value::as_object) {
            None => against(ENVELOPE, "data"),
            Some(_) if event_type == WORKFLOW_COMPLETED && !is_completed() => against(COMPLETED, "data"),
            Some(data) => hidden(format!("its data has {}; one value does not show how it is made", names(data))),
        };
        say("events.data", data);
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
