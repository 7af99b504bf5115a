//! Answers: the body type and how JSON answers are put together.

use std::io;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
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

/// A number in a header; small ones, which most are, without an allocation.
pub fn number_value(number: u64) -> HeaderValue {
    const SMALL: [&str; 16] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"];
    let small = usize::try_from(number).ok().and_then(|number| SMALL.get(number));
    small.map_or_else(|| HeaderValue::from(number), |text| HeaderValue::from_static(text))
}

/// A text that goes into a header: what cannot stand there is escaped.
pub fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| {
        HeaderValue::from_str(&text.escape_default().to_string()).expect("escaped text is printable ASCII")
    })
}
