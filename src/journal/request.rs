//! A request as the journal keeps it: what came, what was answered, and why.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{Method, Uri};
use jiff::Timestamp;

use crate::contract::error::{ErrorKind, FieldProblem};
use crate::contract::keys::{KeyRefusal, mask_parts};
use crate::contract::routes::Operation;
use crate::rate_limit::Verdict;
use crate::workspace::Workspace;

/// One request and its answer.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    /// Form `req_<id>`: the `X-Emulator-Request-Id` of the answer.
    pub id: String,
    /// When it arrived.
    pub at: Timestamp,
    /// Whose it is; `None` without a valid key.
    pub workspace: Option<Arc<Workspace>>,
    /// The key, where the workspace is not named after it; never shown unmasked.
    pub group_key: Option<Arc<str>>,
    /// The operation that the route led to.
    pub operation: Option<Operation>,
    /// Method, target and headers, and the answer's headers; the key masked.
    pub heads: Heads,
    /// The body, as far as it was read and is kept.
    pub body: Bytes,
    /// The answer's status; 0 if the connection was broken instead.
    pub status: u16,
    /// The answer's body, as far as it is kept.
    pub answer_body: Bytes,
    /// From arrival to answer, by the emulator's clock.
    pub latency: Duration,
    /// Why this answer.
    pub reason: Reason,
    /// The quota after this request.
    pub quota: Option<Verdict>,
    /// The scenario rule that decided, if one did.
    pub scripted: Option<Scripted>,
    /// The generation of scenarios and profile that answered.
    pub generation: u64,
}

impl RequestRecord {
    pub(super) fn bytes(&self) -> usize {
        self.heads.text.len() + self.body.len() + self.answer_body.len()
    }

    /// The key, if a valid one came; never shown unmasked.
    pub fn key(&self) -> Option<&str> {
        self.group_key.as_deref().or(self.workspace.as_ref().map(|workspace| workspace.name().as_ref()))
    }
}

/// Why a request was answered as it was.
#[derive(Clone, Debug)]
pub enum Reason {
    /// All checks passed.
    Answered,
    /// A subscription was made or updated.
    Subscribed {
        /// Its id.
        id: String,
        /// False when an earlier one was updated.
        created: bool,
    },
    /// The key was refused.
    Unauthorized(KeyRefusal),
    /// The quota was used up; the verdict is in `quota`.
    RateLimited,
    /// Fields failed validation.
    Invalid(Vec<FieldProblem>),
    /// No such path.
    NotFound,
    /// Announced by the contract, not open.
    Announced(&'static str),
    /// The path has other methods: the `Allow` value.
    MethodNotAllowed(&'static str),
    /// Refused before the contract's rules: no proper HTTP request, too large, too slow.
    Refused(ErrorKind, String),
    /// A scenario rule answered; it is in `scripted`.
    Scripted,
    /// The emulator failed.
    Panicked(String),
}

/// The scenario rule that decided a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scripted {
    /// The scenario's name.
    pub scenario: Arc<str>,
    /// The rule's name, or its position as `rule 2`.
    pub rule: Arc<str>,
    /// Which request in turn this was for the rule, from 1.
    pub turn: u64,
    /// What the rule did, in words.
    pub action: String,
}

/// The request line, the request's headers and the answer's, in one allocation; a key in `Authorization` is masked.
///
/// A copy on purpose: header values handed out by hyper keep its whole read buffer alive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heads {
    /// `METHOD target\r\nname: value\r\n…`, then the answer's `name: value\r\n…`.
    text: String,
    /// Where the answer's headers begin.
    answer: usize,
}

impl Heads {
    /// The heads of a request and its answer.
    pub fn new(method: &Method, uri: &Uri, headers: &HeaderMap, answer_headers: &HeaderMap) -> Self {
        let target = uri.path_and_query().map_or(uri.path(), |target| target.as_str());
        let line = method.as_str().len() + target.len() + 3;
        // A masked key may be a few bytes longer than the key.
        let size = line + size_of_headers(headers) + size_of_headers(answer_headers) + 8;
        let mut text = String::with_capacity(size);
        text.push_str(method.as_str());
        text.push(' ');
        text.push_str(target);
        text.push_str("\r\n");
        push_headers(&mut text, headers);
        let answer = text.len();
        push_headers(&mut text, answer_headers);
        Self { text, answer }
    }

    /// The method and target of the request; empty where there was none.
    pub fn request_line(&self) -> (&str, &str) {
        self.text.split("\r\n").next().and_then(|line| line.split_once(' ')).unwrap_or_default()
    }

    /// The request's names and values in the order in which they came.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text[..self.answer].split("\r\n").skip(1).filter_map(|line| line.split_once(": "))
    }

    /// The answer's names and values.
    pub fn answer_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text[self.answer..].split("\r\n").filter_map(|line| line.split_once(": "))
    }
}

fn size_of_headers(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

fn push_headers(text: &mut String, headers: &HeaderMap) {
    for (name, value) in headers {
        text.push_str(name.as_str());
        text.push_str(": ");
        match value.to_str() {
            Ok(value) if name == AUTHORIZATION => push_credential(text, value),
            Ok(value) => text.push_str(value),
            Err(_) => text.push_str(&value.as_bytes().escape_ascii().to_string()),
        }
        text.push_str("\r\n");
    }
}

fn push_credential(text: &mut String, value: &str) {
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            text.push_str(scheme);
            text.push(' ');
            let (before, after) = mask_parts(token.trim());
            text.push_str(before);
            text.push('…');
            text.push_str(after);
        }
        // Whatever else it is, it is a credential.
        _ => text.push('…'),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn heads_keep_order_and_mask_keys() {
        let (mut headers, mut answer) = (HeaderMap::new(), HeaderMap::new());
        headers.insert("x-a", HeaderValue::from_static("1: 2"));
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer sk_test_abcdefgh"));
        headers.insert("x-b", HeaderValue::from_bytes(b"\xff").expect("opaque bytes are allowed"));
        answer.insert("x-c", HeaderValue::from_static("3"));
        let heads = Heads::new(&Method::GET, &Uri::from_static("/v1/hello?a=b"), &headers, &answer);
        assert_eq!(heads.request_line(), ("GET", "/v1/hello?a=b"));
        let shown: Vec<_> = heads.headers().collect();
        assert_eq!(shown, [("x-a", "1: 2"), ("authorization", "Bearer sk_test_…efgh"), ("x-b", "\\xff")]);
        assert_eq!(heads.answer_headers().collect::<Vec<_>>(), [("x-c", "3")]);
        headers.insert(AUTHORIZATION, HeaderValue::from_static("sk_test_abcdefgh"));
        let bare = Heads::new(&Method::GET, &Uri::from_static("/"), &headers, &answer);
        assert!(!format!("{bare:?}").contains("abcdefgh"));
        assert_eq!(Heads::default().request_line(), ("", ""));
    }
}
