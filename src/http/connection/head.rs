//! Header blocks as bytes: how much of the next one a read has brought, and the answers that hyper writes by itself.

use hyper::StatusCode;

/// What follows the last blank line of a read: a further header block, unless it is a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartialHead {
    Nothing,
    PartOfALine,
    Lines,
}

impl PartialHead {
    /// How much of the next header block this read has brought.
    pub(super) fn after_blank_line(read: &[u8]) -> Self {
        if read.ends_with(b"\n\r\n") || read.ends_with(b"\n\n") {
            return Self::Nothing;
        }
        let blank = read.windows(3).rposition(|three| three == b"\n\r\n" || three.ends_with(b"\n\n"));
        match blank {
            Some(at) if !read[at + 3..].contains(&b'\n') => Self::PartOfALine,
            None if !read.contains(&b'\n') => Self::PartOfALine,
            _ => Self::Lines,
        }
    }
}

/// Makes a request line with a fragment invalid: hyper would drop `#` and what follows it, and answer for another target.
pub(super) fn refuse_fragment(read: &mut [u8]) {
    let line = read.iter().position(|byte| *byte == b'\n').unwrap_or(read.len());
    if let Some(mark) = read[..line].iter_mut().find(|byte| **byte == b'#') {
        *mark = 0;
    }
}

/// The status of an answer that hyper wrote by itself: no body and, unlike any that a handler gives, no content type.
pub(super) fn status_of_refusal(bytes: &[u8]) -> Option<StatusCode> {
    let rest = bytes.strip_prefix(b"HTTP/1.1 4").or_else(|| bytes.strip_prefix(b"HTTP/1.0 4"))?;
    let status = StatusCode::from_bytes(bytes.get(9..12)?).ok()?;
    let has = |part: &[u8]| rest.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part));
    let own = rest.ends_with(b"\r\n\r\n") && has(b"\r\ncontent-length: 0\r\n") && !has(b"\r\ncontent-type:");
    own.then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_empty_answers_of_hyper_are_replaced() {
        let status = |text: &str| status_of_refusal(text.as_bytes()).map(|status| status.as_u16());
        assert_eq!(
            status(
                "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n"
            ),
            Some(431)
        );
        assert_eq!(status("HTTP/1.0 400 Bad Request\r\ncontent-length: 0\r\n\r\n"), Some(400));
        let scripted = "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(status(scripted), None);
        assert_eq!(status("HTTP/1.1 400 Bad Request\r\ncontent-length: 20\r\n\r\n{}"), None);
        assert_eq!(status("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), None);
        assert_eq!(status("HTTP/1.1 4"), None);
    }

    #[test]
    fn what_follows_the_last_blank_line_is_seen() {
        for (read, expected) in [
            (&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], PartialHead::Nothing),
            (b"GET / HTTP/1.1\nHost: a\n\n", PartialHead::Nothing),
            (b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /", PartialHead::PartOfALine),
            (b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHo", PartialHead::Lines),
            (b"GET / HTTP/1.1\nHost: a\n\nGET /", PartialHead::PartOfALine),
            (b"GET /", PartialHead::PartOfALine),
            (b"GET / HTTP/1.1\r\nHo", PartialHead::Lines),
        ] {
            assert_eq!(PartialHead::after_blank_line(read), expected, "{}", read.escape_ascii());
        }
    }
}
