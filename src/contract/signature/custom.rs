//! The signature scheme that a profile itself describes, and what makes such a description unusable.
//!
//! Must not know about TOML, files or the other schemes; `scheme` turns it into a row like theirs.

use serde::{Deserialize, Serialize};

use super::mac::{Encoding, Hash};
use super::reading::KeyReading;
use super::template::{self, ContentPiece, Field};

/// The settings in `webhooks.custom`; those left out keep their defaults.
///
/// The default signs `{timestamp}.{body}` the way GitHub signs bodies, under neutral names. The
/// header carries one signature, that of the newest key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(!default))]
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
    /// What precedes the signature in its header, such as `sha256=`; may be empty.
    pub prefix: String,
    /// How the secret becomes the key; `auto` leaves it to `webhooks.secret_key`.
    pub key: KeyReading,
}

impl Default for CustomScheme {
    fn default() -> Self {
        Self {
            id_header: "x-webhook-id".to_owned(),
            timestamp_header: "x-webhook-timestamp".to_owned(),
            signature_header: "x-webhook-signature".to_owned(),
            content: "{timestamp}.{body}".to_owned(),
            hash: Hash::Sha256,
            encoding: Encoding::Hex,
            prefix: "sha256=".to_owned(),
            key: KeyReading::Auto,
        }
    }
}

/// Headers that belong to the delivery itself or to the connection it travels on.
const RESERVED: [&str; 13] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

impl CustomScheme {
    /// Checks that deliveries can be signed this way and that receivers can verify them. The error is the first problem; it
    /// names the setting and how to fix it.
    pub fn check(&self) -> Result<(), String> {
        self.check_headers()?;
        self.check_content()?;
        let printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if self.prefix.starts_with(' ') || !self.prefix.bytes().all(printable) {
            let found = self.prefix.escape_debug();
            return Err(format!(
                "`webhooks.custom.prefix` expects printable ASCII without a space in front, found `{found}`"
            ));
        }
        Ok(())
    }

    fn check_headers(&self) -> Result<(), String> {
        if self.signature_header.is_empty() {
            return Err("`webhooks.custom.signature_header` is empty: the signature needs a header".to_owned());
        }
        let headers = [
            ("id_header", &self.id_header),
            ("timestamp_header", &self.timestamp_header),
            ("signature_header", &self.signature_header),
        ];
        for (at, (knob, name)) in headers.into_iter().enumerate().filter(|(_, (_, name))| !name.is_empty()) {
            if !name.bytes().all(is_token_byte) {
                let name = name.escape_debug();
                return Err(format!(
                    "`webhooks.custom.{knob}` expects a header name (letters, digits, `-`, `_` …), found `{name}`"
                ));
            }
            if RESERVED.iter().any(|taken| name.eq_ignore_ascii_case(taken)) {
                return Err(format!(
                    "`webhooks.custom.{knob}` cannot be `{name}`: every delivery sends that header already"
                ));
            }
            if let Some((first, _)) = headers[..at].iter().find(|(_, other)| name.eq_ignore_ascii_case(other)) {
                return Err(format!("`webhooks.custom.{first}` and `.{knob}` are both `{name}`"));
            }
        }
        Ok(())
    }

    fn check_content(&self) -> Result<(), String> {
        let pieces: Vec<_> = template::pieces(&self.content).collect();
        for piece in &pieces {
            match piece {
                ContentPiece::Unknown(name) => {
                    let hint = nearest_placeholder(name).map(|near| format!(": did you mean `{{{near}}}`?"));
                    let (name, hint) = (name.escape_debug(), hint.unwrap_or_default());
                    return Err(format!(
                        "`webhooks.custom.content` expects `{{id}}`, `{{timestamp}}`, `{{url}}` or `{{body}}`, found `{{{name}}}`{hint}"
                    ));
                }
                ContentPiece::Stray(brace) => {
                    return Err(format!(
                        "`webhooks.custom.content` has a stray `{brace}`: write it twice to mean the brace"
                    ));
                }
                ContentPiece::Text(_) | ContentPiece::Field(_) => {}
            }
        }
        if !pieces.contains(&ContentPiece::Field(Field::Body)) {
            return Err(
                "`webhooks.custom.content` leaves out `{body}`: anyone could change what is delivered".to_owned()
            );
        }
        let sent =
            [(Field::Id, "id_header", &self.id_header), (Field::Timestamp, "timestamp_header", &self.timestamp_header)];
        for (field, knob, _) in sent.into_iter().filter(|(_, _, header)| header.is_empty()) {
            if pieces.contains(&ContentPiece::Field(field)) {
                let signed = field.name();
                return Err(format!(
                    "`webhooks.custom.content` signs `{{{signed}}}` but `webhooks.custom.{knob}` is empty: the receiver could not verify"
                ));
            }
        }
        Ok(())
    }
}

/// Whether a header name may contain `byte`: `tchar` of RFC 9110, section 5.6.2.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn nearest_placeholder(name: &str) -> Option<&'static str> {
    let name = name.trim().to_lowercase();
    Field::ALL
        .into_iter()
        .map(|field| (strsim::jaro_winkler(&name, field.name()), field))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, field)| field.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut CustomScheme), expected: Result<(), &str>) {
        let mut scheme = CustomScheme::default();
        change(&mut scheme);
        let found = scheme.check();
        match (&found, expected) {
            (Ok(()), Ok(())) => {}
            (Err(problem), Err(part)) if problem.contains(part) => {}
            _ => panic!("expected {expected:?}, found {found:?}"),
        }
    }

    #[test]
    fn usable() {
        check(|_| {}, Ok(()));
        check(|scheme| scheme.id_header.clear(), Ok(()));
        check(|scheme| scheme.prefix.clear(), Ok(()));
        check(|scheme| scheme.prefix = "HMAC v=1 ".into(), Ok(()));
        check(|scheme| scheme.content = "{id}{{{url}}}{body}".into(), Ok(()));
        check(
            |scheme| {
                scheme.timestamp_header.clear();
                scheme.content = "{body}".into();
            },
            Ok(()),
        );
    }

    #[test]
    fn unusable_headers() {
        check(|s| s.signature_header.clear(), Err("needs a header"));
        check(|s| s.signature_header = "a b".into(), Err("`a b`"));
        check(|s| s.id_header = "x\r\ny".into(), Err("`x\\r\\ny`"));
        check(|s| s.id_header = "Ключ".into(), Err("header name"));
        check(|s| s.id_header = "HOST".into(), Err("cannot be `HOST`"));
        check(
            |s| s.signature_header = "X-Webhook-ID".into(),
            Err("`webhooks.custom.id_header` and `.signature_header` are both `X-Webhook-ID`"),
        );
    }

    #[test]
    fn unusable_content_and_prefix() {
        check(|s| s.content.clear(), Err("leaves out `{body}`"));
        check(|s| s.content = "{{body}}".into(), Err("leaves out `{body}`"));
        check(|s| s.content = "{Body}".into(), Err("mean `{body}`?"));
        check(|s| s.content = "{time}{body}".into(), Err("`{timestamp}`?"));
        check(|s| s.content = "{zzz}{body}".into(), Err("found `{zzz}`"));
        check(|s| s.content = "{body}}".into(), Err("stray `}`"));
        check(|s| s.content = "{body".into(), Err("stray `{`"));
        check(
            |s| s.timestamp_header.clear(),
            Err("signs `{timestamp}` but `webhooks.custom.timestamp_header` is empty"),
        );
        check(|s| s.prefix = "a\nb".into(), Err("found `a\\nb`"));
        check(|s| s.prefix = " a".into(), Err("space in front"));
    }

    #[test]
    fn a_partial_table_keeps_the_defaults_and_unknown_knobs_are_refused() {
        let scheme: CustomScheme = toml::from_str("hash = \"sha512\"\nkey = \"utf8_with_prefix\"").unwrap();
        assert_eq!(scheme.hash, Hash::Sha512);
        assert_eq!(scheme.key, KeyReading::Utf8WithPrefix);
        assert_eq!(scheme.prefix, "sha256=");
        assert!(toml::from_str::<CustomScheme>("hashes = 1").is_err());

        let text = toml::to_string(&scheme).unwrap();
        assert_eq!(toml::from_str::<CustomScheme>(&text).unwrap(), scheme);
    }
}
