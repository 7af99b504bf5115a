//! The template of the signed content: literal text and the placeholders `{id}`, `{timestamp}`, `{url}` and `{body}`; a brace
//! itself is doubled, `{{` or `}}`. Every scheme has one, built in or from the settings.

use crate::contract::named::named;

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
