//! The template of the signed content: literal text and the placeholders `{id}`, `{timestamp}`,
//! `{url}` and `{body}`; a brace itself is doubled, `{{` or `}}`.
//!
//! Every scheme has such a template, built in or from the profile, so the signed bytes are made in
//! one place only. Must not know about headers, keys or hashes.

use crate::contract::named::named;

named! {
    /// What one placeholder is replaced with.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Field {
        /// The event's id.
        Id = "id",
        /// Unix seconds of the attempt.
        Timestamp = "timestamp",
        /// The URL the delivery is addressed to.
        Url = "url",
        /// The body's bytes.
        Body = "body",
    }
}

/// A piece of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentPiece<'a> {
    Text(&'a str),
    Field(Field),
    /// A well-formed placeholder that means nothing; the name between its braces.
    Unknown(&'a str),
    /// A brace that opens or closes nothing.
    Stray(&'a str),
}

/// What the placeholders are filled with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'a> {
    pub(super) id: &'a str,
    pub(super) timestamp: &'a str,
    pub(super) url: &'a str,
    pub(super) body: &'a [u8],
}

/// Cuts a template into pieces; never fails, so that every problem can be reported at once.
pub(super) fn pieces(template: &str) -> impl Iterator<Item = ContentPiece<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        let (piece, length) = match brace(rest) {
            _ if rest.is_empty() => return None,
            None => (ContentPiece::Text(rest), rest.len()),
            Some(0) if rest.starts_with("{{") || rest.starts_with("}}") => (ContentPiece::Text(&rest[..1]), 2),
            Some(0) => match brace(&rest[1..]) {
                Some(end) if rest.starts_with('{') && rest[1 + end..].starts_with('}') => {
                    (placeholder(&rest[1..=end]), end + 2)
                }
                _ => (ContentPiece::Stray(&rest[..1]), 1),
            },
            Some(at) => (ContentPiece::Text(&rest[..at]), at),
        };
        rest = &rest[length..];
        Some(piece)
    })
}

/// Where the first brace is.
fn brace(text: &str) -> Option<usize> {
    text.bytes().position(|byte| matches!(byte, b'{' | b'}'))
}

/// The content to sign: the template with its placeholders filled, byte for byte.
///
/// What [`pieces`] could not make sense of stays as it is written.
pub(super) fn render(template: &str, values: &Values<'_>) -> Vec<u8> {
    let mut content = Vec::with_capacity(template.len() + values.body.len() + values.id.len());
    for piece in pieces(template) {
        match piece {
            ContentPiece::Text(text) | ContentPiece::Stray(text) => content.extend_from_slice(text.as_bytes()),
            ContentPiece::Field(Field::Id) => content.extend_from_slice(values.id.as_bytes()),
            ContentPiece::Field(Field::Timestamp) => {
                content.extend_from_slice(values.timestamp.as_bytes());
            }
            ContentPiece::Field(Field::Url) => content.extend_from_slice(values.url.as_bytes()),
            ContentPiece::Field(Field::Body) => content.extend_from_slice(values.body),
            ContentPiece::Unknown(name) => {
                content.push(b'{');
                content.extend_from_slice(name.as_bytes());
                content.push(b'}');
            }
        }
    }
    content
}

fn placeholder(name: &str) -> ContentPiece<'_> {
    Field::from_name(name).map_or(ContentPiece::Unknown(name), ContentPiece::Field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts() {
        use ContentPiece::{Field as F, Stray, Text, Unknown};
        let check = |template: &str, expected: &[ContentPiece<'_>]| {
            assert_eq!(pieces(template).collect::<Vec<_>>(), expected, "{template:?}");
        };
        check("", &[]);
        check("v0:{timestamp}:{body}", &[Text("v0:"), F(Field::Timestamp), Text(":"), F(Field::Body)]);
        check("{id}{url}", &[F(Field::Id), F(Field::Url)]);
        check("{Body}{}", &[Unknown("Body"), Unknown("")]);
        check("{{body}}", &[Text("{"), Text("body"), Text("}")]);
        check("{body", &[Stray("{"), Text("body")]);
        check("a}b", &[Text("a"), Stray("}"), Text("b")]);
        check("{a{body}", &[Stray("{"), Text("a"), F(Field::Body)]);
        check("é{ü}", &[Text("é"), Unknown("ü")]);
        check("{", &[Stray("{")]);
    }

    #[test]
    fn fills_in_bytes_as_they_are() {
        let values = Values { id: "{body}", timestamp: "7", url: "u", body: b"\xff{id}\r\n" };
        let check = |template: &str, expected: &[u8]| {
            assert_eq!(render(template, &values), expected, "{template:?}");
        };
        // Placeholders in a value that was filled in stay as they are.
        check("{id}.{timestamp}.{body}", b"{body}.7.\xff{id}\r\n");
        check("{url}|{{x}}", b"u|{x}");
        check("{nope}}", b"{nope}}");
    }
}
