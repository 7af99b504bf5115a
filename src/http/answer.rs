//! Answers: the body type and how JSON answers are put together.

use std::io;

use futures_util::stream::iter;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

/// The body of every answer: bytes that are at hand, or a stream that may be broken off.
pub type AnswerBody = Either<Full<Bytes>, UnsyncBoxBody<Bytes, io::Error>>;

/// The header that names the request in the journal; the same id as `request_id` in an error body.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-emulator-request-id");
/// The header that names the generation of scenarios and profile that answered.
pub const GENERATION: HeaderName = HeaderName::from_static("x-emulator-generation");
/// JSON, as every body of the contract is.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer whose body is at hand.
pub fn answer(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Response<AnswerBody> {
    let mut response = Response::new(Either::Left(Full::new(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// An answer whose body is at hand in pieces: a long one needs no large buffer.
pub fn answer_in_pieces(status: StatusCode, content_type: HeaderValue, pieces: Vec<Bytes>) -> Response<AnswerBody> {
    if let [only] = &pieces[..] {
        return answer(status, content_type, only.clone());
    }
    let length: usize = pieces.iter().map(Bytes::len).sum();
    let frames = pieces.into_iter().map(|piece| Ok(Frame::data(piece)));
    let mut response = Response::new(Either::Right(StreamBody::new(iter(frames)).boxed_unsync()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response.headers_mut().insert(CONTENT_LENGTH, number_value(length as u64));
    response
}

/// A number in a header. `HeaderValue::from` would take two allocations for it; this takes one, and none below ten.
pub fn number_value(number: u64) -> HeaderValue {
    const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    if let Some(digit) = usize::try_from(number).ok().and_then(|number| DIGITS.get(number)) {
        return HeaderValue::from_static(digit);
    }
    let mut buffer = [0; 20];
    let (mut start, mut rest) = (buffer.len(), number);
    while rest > 0 {
        start -= 1;
        // A digit is below ten.
        buffer[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    HeaderValue::from_bytes(&buffer[start..]).expect("digits can stand in a header")
}

/// An id in a header, its bytes taken over rather than copied.
pub fn id_value(id: String) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(id)).expect("ids are letters, digits, `_` and `-`")
}

/// A text that goes into a header: what cannot stand there is escaped.
pub fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| {
        HeaderValue::from_str(&text.escape_default().to_string()).expect("escaped text is printable ASCII")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_full() {
        for number in [0, 9, 10, 99, 100, 4_294_967_295, u64::MAX] {
            assert_eq!(number_value(number).to_str().expect("digits"), number.to_string());
        }
    }
}
