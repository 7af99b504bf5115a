//! What one captured delivery shows: the scheme, and the reading of the secret, that verify it; a scheme of the service's own, from
//! the headers that it has. Pure: the text of a request and a secret in.

use serde_json::{Map, Value, json};

use super::infer::{Seen, Unclear};
use super::report::OtherSource;
use crate::contract::signature::{
    CustomScheme, Encoding, Hash, KeyReading, Message, Scheme, SchemeName, SigningKey, sign, verify,
};

/// A request as an inspection service or a log shows it: request line, headers, an empty line, the body.
#[derive(Debug)]
pub struct CapturedDelivery {
    url: String,
    headers: Vec<(String, String)>,
    /// The body, and as it would be without the line break that an editor adds.
    bodies: Vec<Vec<u8>>,
}

const READINGS: [(KeyReading, &str); 4] = [
    (KeyReading::Auto, "auto"),
    (KeyReading::Base64, "base64"),
    (KeyReading::Utf8, "utf8"),
    (KeyReading::Utf8WithPrefix, "utf8_with_prefix"),
];
/// What services sign, with the parts that a custom scheme knows.
const CONTENTS: [&str; 12] = [
    "{body}",
    "{timestamp}.{body}",
    "{id}.{timestamp}.{body}",
    "{timestamp}.{id}.{body}",
    "{id}.{body}",
    "{timestamp}{body}",
    "{timestamp}:{body}",
    "{id}{timestamp}{body}",
    "{id}:{timestamp}:{body}",
    "v0:{timestamp}:{body}",
    "{url}{body}",
    "{timestamp}{url}{body}",
];

impl CapturedDelivery {
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let ends = [&b"\r\n\r\n"[..], b"\n\n"].into_iter();
        let end =
            ends.filter_map(|end| Some((bytes.windows(end.len()).position(|part| part == end)?, end.len()))).min();
        let (at, length) = end.ok_or("expected the request line, headers, an empty line and the body")?;
        let head = std::str::from_utf8(&bytes[..at]).map_err(|_| "the headers are not text")?;
        let mut lines = head.lines();
        let line = lines.next().unwrap_or_default();
        let target = line.strip_prefix("POST ").and_then(|rest| rest.split(' ').next());
        let target =
            target.ok_or_else(|| format!("expected `POST /path HTTP/1.1`, found `{}`", line.escape_debug()))?;
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers: Vec<_> = lines.filter_map(header).collect();
        let host = headers.iter().find(|(name, _)| name == "host").map_or("", |(_, host)| host.as_str());
        let url = if target.starts_with('/') { format!("https://{host}{target}") } else { target.to_owned() };
        let body = &bytes[at + length..];
        let trimmed = body.strip_suffix(b"\n").map(|body| body.strip_suffix(b"\r").unwrap_or(body));
        Ok(Self { url, headers, bodies: [Some(body), trimmed].into_iter().flatten().map(<[u8]>::to_vec).collect() })
    }

    fn header(&self, name: &str) -> Option<String> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    /// What it shows with the secret of its subscription.
    pub fn shows(&self, secret: &str) -> OtherSource {
        let mut shown = OtherSource { source: "the delivery", ..OtherSource::default() };
        let mut verified: Vec<(SchemeName, Vec<&str>)> = Vec::new();
        for name in SchemeName::ALL.into_iter().filter(|name| *name != SchemeName::Custom) {
            // Svix's libraries take the headers of Standard Webhooks, too.
            let is_sent = name != SchemeName::Svix || self.header("svix-signature").is_some();
            let scheme = Scheme::new(name, &CustomScheme::default());
            let readings = READINGS.iter().filter(|(reading, _)| is_sent && self.verifies(&scheme, secret, *reading));
            let readings: Vec<&str> = readings.map(|(_, name)| *name).collect();
            if !readings.is_empty() {
                verified.push((name, readings));
            }
        }
        let Some((_, mut readings)) = verified.first().cloned() else {
            self.try_custom(secret, &mut shown);
            return shown;
        };
        // One reading is in force for all schemes.
        readings.retain(|reading| verified.iter().all(|(_, readings)| readings.contains(reading)));
        let schemes: Vec<Value> = verified.iter().map(|(name, _)| name.name().into()).collect();
        let scheme = if let [one] = &schemes[..] { one.clone() } else { schemes.into() };
        shown.settings.insert("webhooks.scheme", Ok(Seen::new(scheme, [])));
        let alike = || hidden(format!("this secret is read alike as {}", readings.join(", ")));
        let reading = if let [one] = readings[..] { Ok(Seen::new(one, [])) } else { alike() };
        shown.settings.insert("webhooks.secret_key", reading);
        shown
    }

    fn verifies(&self, scheme: &Scheme, secret: &str, reading: KeyReading) -> bool {
        let Ok(key) = SigningKey::read(secret, scheme, reading) else { return false };
        let header = |name: &str| self.header(name);
        let keys = [key];
        self.bodies.iter().any(|body| verify(scheme, &keys, &header, &self.url, body, 0, i64::MAX).is_ok())
    }

    /// Looks for a scheme of the service's own: which header ends with the signature of which content.
    fn try_custom(&self, secret: &str, shown: &mut OtherSource) {
        let is_time = |value: &str| value.len() == 10 && value.parse::<i64>().is_ok();
        let ids: Vec<String> = self
            .bodies
            .iter()
            .filter_map(|body| {
                serde_json::from_slice::<Map<String, Value>>(body).ok()?.get("id")?.as_str().map(str::to_owned)
            })
            .collect();
        let named = |is_it: &dyn Fn(&str) -> bool| {
            self.headers.iter().find(|(_, value)| is_it(value)).map(|(name, _)| name.clone()).unwrap_or_default()
        };
        let (id_header, timestamp_header) = (named(&|value| ids.iter().any(|id| id == value)), named(&is_time));
        let timestamp = self.header(&timestamp_header).and_then(|text| text.parse().ok()).unwrap_or_default();
        let id = self.header(&id_header).unwrap_or_default();
        for body in &self.bodies {
            for (content, hash, encoding, (key, reading)) in combinations() {
                let needs = |part: &str, header: &str| content.contains(part) && header.is_empty();
                if needs("{id}", &id_header) || needs("{timestamp}", &timestamp_header) {
                    continue;
                }
                let mut custom = CustomScheme {
                    id_header: id_header.clone(),
                    timestamp_header: timestamp_header.clone(),
                    signature_header: "x".to_owned(),
                    content: content.to_owned(),
                    hash,
                    encoding,
                    prefix: String::new(),
                    key,
                };
                let scheme = Scheme::new(SchemeName::Custom, &custom);
                let Ok(signing) = SigningKey::read(secret, &scheme, key) else { continue };
                let signature = sign(&scheme, &[signing], &Message { id: &id, timestamp, url: &self.url, body })
                    .signatures
                    .concat();
                let found = self.headers.iter().find_map(|(name, value)| Some((name, value.strip_suffix(&signature)?)));
                let Some((name, prefix)) = found else { continue };
                (custom.signature_header, custom.prefix) = (name.clone(), prefix.to_owned());
                if custom.check().is_err() {
                    continue;
                }
                let mut value = json!({ "id_header": id_header, "timestamp_header": timestamp_header, "signature_header": name, "content": content, "hash": custom.hash, "encoding": custom.encoding, "prefix": prefix, "key": reading });
                // The reading that comes first is one of several that may have signed.
                if let (KeyReading::Auto, Some(entries)) = (key, value.as_object_mut()) {
                    entries.remove("key");
                }
                shown.settings.insert("webhooks.scheme", Ok(Seen::new("custom", [])));
                shown.settings.insert("webhooks.custom", Ok(Seen::new(value, [])));
                return;
            }
        }
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let reason = format!("no scheme verifies the delivery with this secret; its headers: {}", headers.join(", "));
        shown.settings.insert("webhooks.scheme", hidden(reason));
    }
}

fn hidden(reason: impl Into<String>) -> Result<Seen, Unclear> {
    Err(Unclear::NotObservable(reason.into()))
}

fn combinations() -> impl Iterator<Item = (&'static str, Hash, Encoding, (KeyReading, &'static str))> {
    let forms = [Hash::Sha256, Hash::Sha512, Hash::Sha1]
        .into_iter()
        .flat_map(|hash| [Encoding::Hex, Encoding::Base64].map(|encoding| (hash, encoding)));
    let all = forms.flat_map(|form| CONTENTS.map(|content| (form, content)));
    all.flat_map(|((hash, encoding), content)| READINGS.map(|reading| (content, hash, encoding, reading)))
}
