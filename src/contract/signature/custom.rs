//! The scheme a profile describes itself, and what makes such a description unusable.
//!
//! Must not know about TOML, files or the other schemes; `layout` turns it into a row like theirs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mac::{Encoding, Hash};
use super::reading::KeyReading;
use super::template::{self, Field, Piece};

/// What `webhooks.custom` in the profile holds; unset knobs keep their default.
///
/// The default signs `{timestamp}.{body}` the way GitHub signs bodies, under neutral names. The
/// header carries one signature, that of the newest key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(!default)]
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
    /// What stands before the signature in its header, such as `sha256=`; may be empty.
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

/// Why a custom scheme cannot be used; the text names the knob and the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemeProblem {
    /// The signature has no header to stand in.
    #[error("`webhooks.custom.signature_header` is empty: the signature needs a header")]
    NoSignatureHeader,
    /// Not a header name by RFC 9110.
    #[error(
        "`webhooks.custom.{knob}` expects a header name (letters, digits, `-`, `_` …), \
         found `{}`", name.escape_debug()
    )]
    BadHeaderName {
        /// The knob's last part.
        knob: &'static str,
        /// What was found.
        name: String,
    },
    /// The delivery needs this header for itself.
    #[error("`webhooks.custom.{knob}` cannot be `{name}`: every delivery sends that header already")]
    ReservedHeader {
        /// The knob's last part.
        knob: &'static str,
        /// The header's name.
        name: String,
    },
    /// Two of the headers have one name.
    #[error("`webhooks.custom.{first}` and `.{second}` are both `{name}`")]
    SameHeader {
        /// The last part of one knob.
        first: &'static str,
        /// The last part of the other.
        second: &'static str,
        /// The name they share.
        name: String,
    },
    /// A placeholder that means nothing.
    #[error(
        "`webhooks.custom.content` expects `{{id}}`, `{{timestamp}}`, `{{url}}` or `{{body}}`, \
         found `{{{}}}`{}", name.escape_debug(), did_you_mean(*nearest)
    )]
    UnknownPlaceholder {
        /// What stands between the braces.
        name: String,
        /// The placeholder most like it.
        nearest: Option<&'static str>,
    },
    /// A brace that opens or closes nothing.
    #[error("`webhooks.custom.content` has a stray `{brace}`: write it twice to mean the brace")]
    StrayBrace {
        /// The brace.
        brace: String,
    },
    /// The body is not signed.
    #[error("`webhooks.custom.content` leaves out `{{body}}`: anyone could change what is delivered")]
    NoBody,
    /// The content holds a value that the receiver is never sent.
    #[error(
        "`webhooks.custom.content` signs `{{{placeholder}}}` but `webhooks.custom.{knob}` is \
         empty: the receiver could not verify"
    )]
    Unsent {
        /// The placeholder's name.
        placeholder: &'static str,
        /// The last part of the knob that would send it.
        knob: &'static str,
    },
    /// The prefix cannot stand in a header.
    #[error(
        "`webhooks.custom.prefix` expects printable ASCII without a space in front, \
         found `{}`", .0.escape_debug()
    )]
    BadPrefix(String),
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
    /// Whether deliveries can be signed this way and receivers verify them; the first problem.
    pub fn check(&self) -> Result<(), SchemeProblem> {
        self.check_headers()?;
        self.check_content()?;
        let printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if self.prefix.starts_with(' ') || !self.prefix.bytes().all(printable) {
            return Err(SchemeProblem::BadPrefix(self.prefix.clone()));
        }
        Ok(())
    }

    fn check_headers(&self) -> Result<(), SchemeProblem> {
        if self.signature_header.is_empty() {
            return Err(SchemeProblem::NoSignatureHeader);
        }
        let headers = [
            ("id_header", &self.id_header),
            ("timestamp_header", &self.timestamp_header),
            ("signature_header", &self.signature_header),
        ];
        for (at, (knob, name)) in headers.into_iter().enumerate() {
            if name.is_empty() {
                continue;
            }
            let name = name.clone();
            if !name.bytes().all(is_token_byte) {
                return Err(SchemeProblem::BadHeaderName { knob, name });
            }
            if RESERVED.iter().any(|taken| name.eq_ignore_ascii_case(taken)) {
                return Err(SchemeProblem::ReservedHeader { knob, name });
            }
            let earlier = headers[..at].iter();
            if let Some((first, _)) = earlier.into_iter().find(|(_, other)| name.eq_ignore_ascii_case(other)) {
                return Err(SchemeProblem::SameHeader { first, second: knob, name });
            }
        }
        Ok(())
    }

    fn check_content(&self) -> Result<(), SchemeProblem> {
        let pieces = template::pieces(&self.content);
        for piece in &pieces {
            match piece {
                Piece::Unknown(name) => {
                    return Err(SchemeProblem::UnknownPlaceholder {
                        name: (*name).to_owned(),
                        nearest: nearest_placeholder(name),
                    });
                }
                Piece::Stray(brace) => {
                    return Err(SchemeProblem::StrayBrace { brace: (*brace).to_owned() });
                }
                Piece::Text(_) | Piece::Field(_) => {}
            }
        }
        if !pieces.contains(&Piece::Field(Field::Body)) {
            return Err(SchemeProblem::NoBody);
        }
        for (field, knob, header) in
            [(Field::Id, "id_header", &self.id_header), (Field::Timestamp, "timestamp_header", &self.timestamp_header)]
        {
            if header.is_empty() && pieces.contains(&Piece::Field(field)) {
                return Err(SchemeProblem::Unsent { placeholder: field.as_str(), knob });
            }
        }
        Ok(())
    }
}

/// Whether `byte` may stand in a header name: `tchar` of RFC 9110, section 5.6.2.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn nearest_placeholder(name: &str) -> Option<&'static str> {
    let name = name.trim().to_lowercase();
    Field::ALL
        .into_iter()
        .map(|field| (strsim::jaro_winkler(&name, field.as_str()), field))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, field)| field.as_str())
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(": did you mean `{{{name}}}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut CustomScheme), expected: Result<(), &str>) {
        let mut scheme = CustomScheme::default();
        change(&mut scheme);
        let found = scheme.check().map_err(|problem| problem.to_string());
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
