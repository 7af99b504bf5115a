//! The template of the signed content: literal text and the placeholders `{id}`, `{timestamp}`,
//! `{url}` and `{body}`; a brace itself is doubled, `{{` or `}}`.
//!
//! Every scheme has such a template, built in or from the profile, so the signed bytes are made in
//! one place only. Must not know about headers, keys or hashes.

/// What one placeholder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Id,
    Timestamp,
    Url,
    Body,
}

impl Field {
    pub(super) const ALL: [Self; 4] = [Self::Id, Self::Timestamp, Self::Url, Self::Body];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Timestamp => "timestamp",
            Self::Url => "url",
            Self::Body => "body",
        }
    }
}

/// A piece of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
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

/// Cuts a template into pieces; never fails, so that every problem can be told at once.
pub(super) fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        if at > 0 {
            pieces.push(Piece::Text(&rest[..at]));
        }
        let tail = &rest[at..];
        let (piece, length) = if tail.starts_with("{{") || tail.starts_with("}}") {
            (Piece::Text(&tail[..1]), 2)
        } else {
            match tail[1..].find(['{', '}']) {
                Some(end) if tail.starts_with('{') && tail[1 + end..].starts_with('}') => {
                    (placeholder(&tail[1..=end]), end + 2)
                }
                _ => (Piece::Stray(&tail[..1]), 1),
            }
        };
        pieces.push(piece);
        rest = &tail[length..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

/// The content to sign: the template with its placeholders filled, byte for byte.
///
/// What [`pieces`] could not make sense of stays as it is written.
pub(super) fn render(template: &str, values: &Values<'_>) -> Vec<u8> {
    let mut content = Vec::with_capacity(template.len() + values.body.len() + values.id.len());
    for piece in pieces(template) {
        match piece {
            Piece::Text(text) | Piece::Stray(text) => content.extend_from_slice(text.as_bytes()),
            Piece::Field(Field::Id) => content.extend_from_slice(values.id.as_bytes()),
            Piece::Field(Field::Timestamp) => {
                content.extend_from_slice(values.timestamp.as_bytes());
            }
            Piece::Field(Field::Url) => content.extend_from_slice(values.url.as_bytes()),
            Piece::Field(Field::Body) => content.extend_from_slice(values.body),
            Piece::Unknown(name) => {
                content.push(b'{');
                content.extend_from_slice(name.as_bytes());
                content.push(b'}');
            }
        }
    }
    content
}

fn placeholder(name: &str) -> Piece<'_> {
    Field::ALL.into_iter().find(|field| field.as_str() == name).map_or(Piece::Unknown(name), Piece::Field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts() {
        use Piece::{Field as F, Stray, Text, Unknown};
        let check = |template: &str, expected: &[Piece<'_>]| {
            assert_eq!(pieces(template), expected, "{template:?}");
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
        // What is filled in is not filled in again.
        check("{id}.{timestamp}.{body}", b"{body}.7.\xff{id}\r\n");
        check("{url}|{{x}}", b"u|{x}");
        check("{nope}}", b"{nope}}");
    }
}
