//! The signature schemes: their names, the setting that lists them, and each as one row of data: header names, signed content,
//! hash, and how the signature header is put together. A custom scheme is the row that the settings describe.
//!
//! `sign` and `verify` read the same row, so a scheme cannot be signed one way and checked another. The rows follow what the
//! named services send. Independent of time.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use hyper::header::HeaderName;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contract::headers::is_of_deliveries;
use crate::contract::named::named;

named! {
    /// The name of a signature scheme, as `webhooks.scheme` spells it (lower case).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum SchemeName {
        /// Standard Webhooks v1: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
        Standard = "standard",
        /// Svix: the same content and form under `svix-` names.
        Svix = "svix",
        /// Stripe: `stripe-signature: t=…,v1=…`.
        Stripe = "stripe",
        /// GitHub: `x-hub-signature-256: sha256=…` over the body alone.
        Github = "github",
        /// Slack: `x-slack-signature: v0=…` over `v0:timestamp:body`.
        Slack = "slack",
        /// Shopify: `x-shopify-hmac-sha256`, base64 over the body alone.
        Shopify = "shopify",
        /// The scheme that `webhooks.custom` describes.
        Custom = "custom",
    }
}

impl fmt::Display for SchemeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One scheme, or a list of them; a single name is written without brackets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "Value")]
#[schemars(!try_from, untagged)]
pub enum SchemeNames {
    One(SchemeName),
    Many(Vec<SchemeName>),
}

impl TryFrom<Value> for SchemeNames {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let name = |value: &Value| value.as_str().and_then(SchemeName::from_name);
        let names = match &value {
            Value::Array(names) => names.iter().map(name).collect::<Option<_>>().map(Self::Many),
            one => name(one).map(Self::One),
        };
        let known = || SchemeName::ALL.map(SchemeName::name).join(", ");
        names.ok_or_else(|| format!("expected a signature scheme or a list of them: {}", known()))
    }
}

impl SchemeNames {
    /// The schemes in sending order.
    pub fn names(&self) -> &[SchemeName] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }

    /// Refuses a list without a scheme, or with one twice.
    pub fn check(&self) -> Result<(), &'static str> {
        let names = self.names();
        if names.is_empty() {
            return Err("expected at least one signature scheme");
        }
        if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
            return Err("a signature scheme is listed twice");
        }
        Ok(())
    }
}

/// A signature scheme, ready to sign and verify with: one row of data. Header names are in lower case.
///
/// Signing and verifying never fail on a custom scheme that [`CustomScheme::check`] refuses, but the result is only defined for
/// one it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    pub(super) name: SchemeName,
    /// How a custom scheme reads secrets; `auto` leaves it to `webhooks.secret_key`.
    pub(super) key: KeyReading,
    pub(super) id_header: Option<Cow<'static, str>>,
    /// True if receivers refuse a delivery without the id header.
    pub(super) id_required: bool,
    /// A separate header for the timestamp; Stripe's is inside the signature header.
    pub(super) timestamp_header: Option<Cow<'static, str>>,
    pub(super) signature_header: Cow<'static, str>,
    pub(super) content: Cow<'static, str>,
    pub(super) hash: Hash,
    pub(super) encoding: Encoding,
    pub(super) form: HeaderForm,
    /// The prefix of each signature.
    pub(super) prefix: Cow<'static, str>,
    pub(super) wrapping: Wrapping,
    /// Headers without which the service's own libraries do not read a delivery; `None` stands for the event's type.
    pub(super) service_headers: &'static [(&'static str, Option<&'static str>)],
}

named! {
    /// Text around the whole value of a signature header. No scheme adds it, but some intermediaries do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Wrapping {
        None = "none",
        Quotes = "quotes",
        Percent = "percent_encoding",
    }
}

impl Wrapping {
    pub(super) fn wrap(self, value: String) -> String {
        match self {
            Self::None => value,
            Self::Quotes => format!("\"{value}\""),
            Self::Percent => utf8_percent_encode(&value, NON_ALPHANUMERIC).to_string(),
        }
    }

    /// The value without it; empty if it is not around the value. Quotes may be around a part alone.
    pub(super) fn unwrap(self, value: String) -> String {
        let unwrapped = match self {
            Self::None => return value,
            Self::Quotes => value.replace(['"', '\''], ""),
            Self::Percent => percent_decode_str(&value).decode_utf8_lossy().into_owned(),
        };
        if unwrapped == value { String::new() } else { unwrapped }
    }
}

/// How the signature header is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderForm {
    /// Signatures separated by spaces.
    Tokens,
    /// `t=<timestamp>,v1=<signature>`, more `v1=` parts allowed.
    Parts,
    One,
}

impl Scheme {
    pub(super) const STANDARD: Self = Self {
        name: SchemeName::Standard,
        key: KeyReading::Auto,
        id_header: Some(Cow::Borrowed("webhook-id")),
        id_required: true,
        timestamp_header: Some(Cow::Borrowed("webhook-timestamp")),
        signature_header: Cow::Borrowed("webhook-signature"),
        content: Cow::Borrowed("{id}.{timestamp}.{body}"),
        hash: Hash::Sha256,
        encoding: Encoding::Base64,
        form: HeaderForm::Tokens,
        prefix: Cow::Borrowed("v1,"),
        wrapping: Wrapping::None,
        service_headers: &[],
    };

    pub(super) const SVIX: Self = Self {
        name: SchemeName::Svix,
        id_header: Some(Cow::Borrowed("svix-id")),
        timestamp_header: Some(Cow::Borrowed("svix-timestamp")),
        signature_header: Cow::Borrowed("svix-signature"),
        ..Self::STANDARD
    };

    pub(super) const STRIPE: Self = Self {
        name: SchemeName::Stripe,
        key: KeyReading::Auto,
        id_header: None,
        id_required: false,
        timestamp_header: None,
        signature_header: Cow::Borrowed("stripe-signature"),
        content: Cow::Borrowed("{timestamp}.{body}"),
        hash: Hash::Sha256,
        encoding: Encoding::Hex,
        form: HeaderForm::Parts,
        prefix: Cow::Borrowed("v1="),
        wrapping: Wrapping::None,
        service_headers: &[],
    };

    pub(super) const GITHUB: Self = Self {
        name: SchemeName::Github,
        // Neither the id nor a time is signed, and GitHub's libraries ask for the signature alone.
        id_header: Some(Cow::Borrowed("x-github-delivery")),
        signature_header: Cow::Borrowed("x-hub-signature-256"),
        content: Cow::Borrowed("{body}"),
        form: HeaderForm::One,
        prefix: Cow::Borrowed("sha256="),
        service_headers: &[("x-github-event", None)],
        ..Self::STRIPE
    };

    pub(super) const SLACK: Self = Self {
        name: SchemeName::Slack,
        timestamp_header: Some(Cow::Borrowed("x-slack-request-timestamp")),
        signature_header: Cow::Borrowed("x-slack-signature"),
        content: Cow::Borrowed("v0:{timestamp}:{body}"),
        form: HeaderForm::One,
        prefix: Cow::Borrowed("v0="),
        ..Self::STRIPE
    };

    pub(super) const SHOPIFY: Self = Self {
        name: SchemeName::Shopify,
        id_header: Some(Cow::Borrowed("x-shopify-webhook-id")),
        signature_header: Cow::Borrowed("x-shopify-hmac-sha256"),
        encoding: Encoding::Base64,
        prefix: Cow::Borrowed(""),
        service_headers: &[
            ("x-shopify-topic", None),
            ("x-shopify-shop-domain", Some("wrs-emulator.myshopify.com")),
            ("x-shopify-api-version", Some("2025-07")),
        ],
        ..Self::GITHUB
    };

    /// True for Stripe, whose libraries check the time after the signature, against the past alone, and not at all without a tolerance.
    pub(super) fn checks_time_last(&self) -> bool {
        self.name == SchemeName::Stripe
    }

    /// The scheme of that name; `custom` is copied for [`SchemeName::Custom`] and otherwise ignored.
    pub fn new(name: SchemeName, custom: &CustomScheme) -> Self {
        match name {
            SchemeName::Standard => Self::STANDARD,
            SchemeName::Svix => Self::SVIX,
            SchemeName::Stripe => Self::STRIPE,
            SchemeName::Github => Self::GITHUB,
            SchemeName::Slack => Self::SLACK,
            SchemeName::Shopify => Self::SHOPIFY,
            SchemeName::Custom => {
                let header =
                    |name: &str| (!name.is_empty()).then(|| Cow::<'static, str>::Owned(name.to_ascii_lowercase()));
                Self {
                    name,
                    key: custom.key,
                    id_header: header(&custom.id_header),
                    id_required: true,
                    timestamp_header: header(&custom.timestamp_header),
                    signature_header: Cow::Owned(custom.signature_header.to_ascii_lowercase()),
                    content: Cow::Owned(custom.content.clone()),
                    hash: custom.hash,
                    encoding: custom.encoding,
                    form: HeaderForm::One,
                    prefix: Cow::Owned(custom.prefix.clone()),
                    wrapping: Wrapping::None,
                    service_headers: &[],
                }
            }
        }
    }

    pub const fn name(&self) -> SchemeName {
        self.name
    }

    /// The headers that the signature needs, in lower case; the signature header is the last.
    pub fn header_names(&self) -> impl Iterator<Item = &str> {
        let signature = Some(&*self.signature_header);
        [self.id_header.as_deref(), self.timestamp_header.as_deref(), signature].into_iter().flatten()
    }

    /// The signed content: text with `{id}`, `{timestamp}`, `{url}` and `{body}` in it.
    pub fn content(&self) -> &str {
        &self.content
    }

    /// The headers that are sent besides those of the signature, which does not cover them.
    pub fn event_headers<'e>(&self, event_type: &'e str) -> impl Iterator<Item = (&'static str, &'e str)> {
        self.service_headers.iter().map(move |(name, value)| (*name, value.unwrap_or(event_type)))
    }

    /// The reading of secrets in force, and the setting that decided it.
    ///
    /// A custom scheme's own `key` is the more specific setting and wins; its `auto` defers to `webhooks.secret_key`.
    pub fn reading(&self, reading: KeyReading) -> (KeyReading, &'static str) {
        match self.key {
            KeyReading::Auto => (reading, "webhooks.secret_key"),
            own => (own, "webhooks.custom.key"),
        }
    }

    /// One signature as it is written in the header: `v1,…`, `v1=…` or the prefix and the signature.
    pub(super) fn token(&self, mac: &[u8]) -> String {
        [&*self.prefix, &self.encoding.encode(mac)].concat()
    }
}

/// The settings in `webhooks.custom`; those left out keep their defaults.
///
/// The default signs as Standard Webhooks does, and writes the signature as GitHub does. The header carries one signature, that of the
/// newest key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(!default)]
#[serde(default, deny_unknown_fields)]
pub struct CustomScheme {
    /// The header for the event's id; empty for none.
    pub id_header: String,
    /// The header for the attempt's Unix seconds; empty for none.
    pub timestamp_header: String,
    /// The header for the signature; never empty.
    pub signature_header: String,
    /// The signed content: text with `{id}`, `{timestamp}`, `{url}` and `{body}` in it, a brace
    /// itself written twice.
    pub content: String,
    /// The hash under the HMAC.
    pub hash: Hash,
    /// How the signature's bytes are written.
    pub encoding: Encoding,
    /// The prefix of the signature in its header, such as `sha256=`; may be empty.
    pub prefix: String,
    /// How the secret becomes the key; `auto` leaves it to `webhooks.secret_key`.
    pub key: KeyReading,
}

impl Default for CustomScheme {
    fn default() -> Self {
        Self {
            id_header: "webhook-id".to_owned(),
            timestamp_header: "webhook-timestamp".to_owned(),
            signature_header: "webhook-signature".to_owned(),
            content: "{id}.{timestamp}.{body}".to_owned(),
            hash: Hash::Sha256,
            encoding: Encoding::Hex,
            prefix: "sha256=".to_owned(),
            key: KeyReading::Auto,
        }
    }
}

impl CustomScheme {
    /// Checks that deliveries can be signed this way and that receivers can verify them. The error is the first problem; it
    /// names the setting and how to fix it.
    pub fn check(&self) -> Result<(), String> {
        let headers = [
            ("id_header", &self.id_header),
            ("timestamp_header", &self.timestamp_header),
            ("signature_header", &self.signature_header),
        ];
        if self.signature_header.is_empty() {
            return Err("`webhooks.custom.signature_header` is empty: the signature needs a header".to_owned());
        }
        for (at, (setting, name)) in headers.into_iter().enumerate().filter(|(_, (_, name))| !name.is_empty()) {
            let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
                let shown = name.escape_debug();
                return Err(format!(
                    "`webhooks.custom.{setting}` expects a header name (letters, digits, `-`, `_` …), found `{shown}`"
                ));
            };
            if is_of_deliveries(&header) {
                return Err(format!(
                    "`webhooks.custom.{setting}` cannot be `{name}`: every delivery sends that header already"
                ));
            }
            if let Some((first, _)) = headers[..at].iter().find(|(_, other)| name.eq_ignore_ascii_case(other)) {
                return Err(format!("`webhooks.custom.{first}` and `.{setting}` are both `{name}`"));
            }
        }
        let signs = |field| pieces(&self.content).any(|piece| piece == ContentPiece::Field(field));
        if let Some(ContentPiece::Invalid(text)) =
            pieces(&self.content).find(|piece| matches!(piece, ContentPiece::Invalid(_)))
        {
            let found = text.escape_debug();
            return Err(format!(
                "`webhooks.custom.content` expects `{{id}}`, `{{timestamp}}`, `{{url}}` or `{{body}}`, and a brace itself written \
                 twice, found `{found}`"
            ));
        }
        if !signs(Field::Body) {
            return Err("`webhooks.custom.content` leaves out `{body}`: anyone could change the body".to_owned());
        }
        for (field, (setting, header)) in [Field::Id, Field::Timestamp].into_iter().zip(headers) {
            if header.is_empty() && signs(field) {
                return Err(format!(
                    "`webhooks.custom.content` signs `{{{}}}` but `webhooks.custom.{setting}` is empty: the receiver could not verify",
                    field.name()
                ));
            }
        }
        let printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if self.prefix.starts_with(' ') || !self.prefix.bytes().all(printable) {
            return Err(format!(
                "`webhooks.custom.prefix` expects printable ASCII without a space in front, found `{}`",
                self.prefix.escape_debug()
            ));
        }
        Ok(())
    }
}

/// The hash function under the HMAC (`webhooks.custom.hash`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Hash {
    /// SHA-1, 20 bytes.
    Sha1,
    /// SHA-256, 32 bytes.
    Sha256,
    /// SHA-512, 64 bytes.
    Sha512,
}

impl Hash {
    pub(super) const fn length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

named! {
    /// How a signature's bytes are written in its header (`webhooks.custom.encoding`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum Encoding {
        /// Lower-case hexadecimal.
        #[serde(rename = "hex")]
        Hex = "hex",
        /// Base64 of the standard alphabet, padded.
        #[serde(rename = "base64")]
        Base64 = "base64",
        /// Hexadecimal in capitals.
        #[serde(rename = "hex_capitals")]
        HexCapitals = "hex_capitals",
        /// Base64 of the standard alphabet, without padding.
        #[serde(rename = "base64_unpadded")]
        Base64Unpadded = "base64_unpadded",
        /// Base64 of the URL-safe alphabet, padded.
        #[serde(rename = "base64url")]
        Base64Url = "base64url",
        /// Base64 of the URL-safe alphabet, without padding.
        #[serde(rename = "base64url_unpadded")]
        Base64UrlUnpadded = "base64url_unpadded",
        /// Lower-case hexadecimal, and that text again in padded base64.
        #[serde(rename = "base64_of_hex")]
        Base64OfHex = "base64_of_hex",
    }
}

impl Encoding {
    pub(super) fn encode(self, bytes: &[u8]) -> String {
        const DIGITS: [&[u8; 16]; 2] = [b"0123456789abcdef", b"0123456789ABCDEF"];
        let hex = |digits: &[u8; 16]| {
            let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
            nibbles.map(|nibble| char::from(digits[usize::from(nibble)])).collect::<String>()
        };
        match self {
            Self::Hex => hex(DIGITS[0]),
            Self::HexCapitals => hex(DIGITS[1]),
            Self::Base64 => STANDARD.encode(bytes),
            Self::Base64Unpadded => STANDARD_NO_PAD.encode(bytes),
            Self::Base64Url => URL_SAFE.encode(bytes),
            Self::Base64UrlUnpadded => URL_SAFE_NO_PAD.encode(bytes),
            Self::Base64OfHex => STANDARD.encode(hex(DIGITS[0])),
        }
    }

    /// The encoding in a sentence that begins with "in".
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Hex => "hex",
            Self::HexCapitals => "hex in capitals",
            Self::Base64 => "base64",
            Self::Base64Unpadded => "base64 without padding",
            Self::Base64Url => "base64url",
            Self::Base64UrlUnpadded => "base64url without padding",
            Self::Base64OfHex => "hex, and that again in base64",
        }
    }

    /// True if `text` could be `length` bytes in this encoding, going by its length and alphabet.
    ///
    /// Looser than decoding on purpose: a signature with one character changed is still a
    /// signature, only a wrong one.
    pub(super) fn looks_like(self, text: &str, length: usize) -> bool {
        let is_base64 = |length: usize, is_padded: bool, further: [u8; 2]| {
            let (padded, unpadded) = (length.div_ceil(3) * 4, (length * 4).div_ceil(3));
            let digits = if is_padded { text.trim_end_matches('=') } else { text };
            text.len() == (if is_padded { padded } else { unpadded })
                && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || further.contains(&byte))
        };
        match self {
            Self::Hex | Self::HexCapitals => {
                text.len() == 2 * length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
            }
            Self::Base64 => is_base64(length, true, *b"+/"),
            Self::Base64Unpadded => is_base64(length, false, *b"+/"),
            Self::Base64Url => is_base64(length, true, *b"-_"),
            Self::Base64UrlUnpadded => is_base64(length, false, *b"-_"),
            Self::Base64OfHex => is_base64(2 * length, true, *b"+/"),
        }
    }
}

named! {
    /// How the text of a secret becomes key bytes (`webhooks.secret_key`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum KeyReading {
        /// As the scheme's own libraries do. For `standard` and `svix`: base64 after `whsec_`, or the
        /// UTF-8 bytes of a text without that prefix. For the others: the UTF-8 bytes of the whole
        /// text.
        #[default]
        Auto = "auto",
        /// The text, after `whsec_` if it starts with that, is base64 (standard alphabet, padded).
        Base64 = "base64",
        /// The UTF-8 bytes of the text, after `whsec_` if it starts with that.
        Utf8 = "utf8",
        /// The UTF-8 bytes of the whole text.
        Utf8WithPrefix = "utf8_with_prefix",
        /// The text, after `whsec_` if it starts with that, is hexadecimal.
        Hex = "hex",
    }
}

impl fmt::Display for KeyReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Field {
        Id = "id",
        Timestamp = "timestamp",
        Url = "url",
        Body = "body",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentPiece<'a> {
    Text(&'a str),
    Field(Field),
    /// A brace that begins no placeholder, with the text up to the closing brace if there is one.
    Invalid(&'a str),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'a> {
    pub(super) id: &'a str,
    pub(super) timestamp: &'a str,
    pub(super) url: &'a str,
    pub(super) body: &'a [u8],
}

pub(super) fn pieces(template: &str) -> impl Iterator<Item = ContentPiece<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        let (piece, length) = match rest.find(['{', '}']) {
            _ if rest.is_empty() => return None,
            None => (ContentPiece::Text(rest), rest.len()),
            Some(0) if rest.starts_with("{{") || rest.starts_with("}}") => (ContentPiece::Text(&rest[..1]), 2),
            Some(0) => {
                let length = rest.find('}').map_or(1, |end| end + 1);
                let name = rest[..length].strip_prefix('{').and_then(|text| text.strip_suffix('}'));
                let field = name.and_then(Field::from_name);
                (field.map_or(ContentPiece::Invalid(&rest[..length]), ContentPiece::Field), length)
            }
            Some(at) => (ContentPiece::Text(&rest[..at]), at),
        };
        rest = &rest[length..];
        Some(piece)
    })
}

/// The content to sign, byte for byte. Invalid pieces stay as they are written.
pub(super) fn render(template: &str, values: &Values<'_>) -> Vec<u8> {
    let mut content = Vec::with_capacity(template.len() + values.body.len() + values.id.len());
    for piece in pieces(template) {
        content.extend_from_slice(match piece {
            ContentPiece::Text(text) | ContentPiece::Invalid(text) => text.as_bytes(),
            ContentPiece::Field(Field::Id) => values.id.as_bytes(),
            ContentPiece::Field(Field::Timestamp) => values.timestamp.as_bytes(),
            ContentPiece::Field(Field::Url) => values.url.as_bytes(),
            ContentPiece::Field(Field::Body) => values.body,
        });
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_schemes_are_refused() {
        let check = |settings: &str, expected: &str| {
            let scheme: CustomScheme = toml::from_str(settings).expect("a scheme");
            let found = scheme.check().err().unwrap_or_default();
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{settings}: {found}");
        };
        for (settings, expected) in [
            ("", ""),
            ("id_header = ''\ncontent = '{timestamp}.{body}'", ""),
            ("prefix = ''", ""),
            ("prefix = 'HMAC v=1 '", ""),
            ("content = '{id}{{{url}}}{body}'", ""),
            ("timestamp_header = ''\ncontent = '{body}'", ""),
            ("signature_header = ''", "needs a header"),
            ("signature_header = 'a b'", "`a b`"),
            ("id_header = \"x\\r\\ny\"", "`x\\r\\ny`"),
            ("id_header = 'Ключ'", "header name"),
            ("id_header = 'HOST'", "cannot be `HOST`"),
            ("signature_header = 'Webhook-ID'", "`webhooks.custom.id_header` and `.signature_header` are both"),
            ("content = ''", "leaves out `{body}`"),
            ("content = '{{body}}'", "leaves out `{body}`"),
            ("content = '{Body}'", "found `{Body}`"),
            ("content = '{body}}'", "found `}`"),
            ("content = '{body'", "found `{`"),
            ("timestamp_header = ''", "signs `{timestamp}` but `webhooks.custom.timestamp_header` is empty"),
            ("prefix = \"a\\nb\"", "found `a\\nb`"),
            ("prefix = ' a'", "space in front"),
        ] {
            check(settings, expected);
        }
        assert!(toml::from_str::<CustomScheme>("hashes = 1").is_err());
    }

    #[test]
    fn placeholders_are_filled_in_once() {
        let values = Values { id: "{body}", timestamp: "7", url: "u", body: b"\xff{id}\r\n" };
        for (template, expected) in [
            ("", &b""[..]),
            ("{id}.{timestamp}.{body}", b"{body}.7.\xff{id}\r\n"),
            ("{url}|{{url}}|{{{url}}}", b"u|{url}|{u}"),
            ("{nope}}a}{{", "{nope}}a}{".as_bytes()),
            ("\u{e9}{Url} {url", "\u{e9}{Url} {url".as_bytes()),
        ] {
            assert_eq!(render(template, &values), expected, "{template:?}");
        }
    }
}
