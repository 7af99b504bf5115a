//! The signature scheme that the settings describe; `scheme` turns it into a row like those of the named schemes.

use hyper::header::HeaderName;
use serde::{Deserialize, Serialize};

use super::mac::{Encoding, Hash, KeyReading};
use super::template::{ContentPiece, Field, pieces};

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

/// Headers that belong to the delivery itself or to the connection.
const RESERVED: &str = " connection content-encoding content-length content-type expect host keep-alive proxy-connection te \
                        trailer transfer-encoding upgrade user-agent ";

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
            let (shown, lower) = (name.escape_debug(), name.to_ascii_lowercase());
            if HeaderName::from_bytes(name.as_bytes()).is_err() {
                return Err(format!(
                    "`webhooks.custom.{setting}` expects a header name (letters, digits, `-`, `_` …), found `{shown}`"
                ));
            }
            if RESERVED.contains(&format!(" {lower} ")) {
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
            return Err(
                "`webhooks.custom.content` leaves out `{body}`: anyone could change what is delivered".to_owned()
            );
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
        for usable in [
            "",
            "id_header = ''",
            "prefix = ''",
            "prefix = 'HMAC v=1 '",
            "content = '{id}{{{url}}}{body}'",
            "timestamp_header = ''\ncontent = '{body}'",
        ] {
            check(usable, "");
        }
        check("signature_header = ''", "needs a header");
        check("signature_header = 'a b'", "`a b`");
        check("id_header = \"x\\r\\ny\"", "`x\\r\\ny`");
        check("id_header = 'Ключ'", "header name");
        check("id_header = 'HOST'", "cannot be `HOST`");
        check(
            "signature_header = 'X-Webhook-ID'",
            "`webhooks.custom.id_header` and `.signature_header` are both `X-Webhook-ID`",
        );
        for (content, expected) in [
            ("", "leaves out `{body}`"),
            ("{{body}}", "leaves out `{body}`"),
            ("{Body}", "found `{Body}`"),
            ("{body}}", "found `}`"),
            ("{body", "found `{`"),
        ] {
            check(&format!("content = '{content}'"), expected);
        }
        check("timestamp_header = ''", "signs `{timestamp}` but `webhooks.custom.timestamp_header` is empty");
        check("prefix = \"a\\nb\"", "found `a\\nb`");
        check("prefix = ' a'", "space in front");
        assert!(toml::from_str::<CustomScheme>("hashes = 1").is_err());
    }
}
