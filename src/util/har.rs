//! An HTTP Archive (HAR 1.2), which browsers, proxies and load tools read and write: the parts that are used here. What only the program
//! that wrote it knows is in fields that begin with `_`, as the format asks: `L` of the archive, `E` of an entry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::{Deserialize, Serialize};

/// The name that browsers use for a type that is not known.
const UNKNOWN_TYPE: &str = "x-unknown";
const UNKNOWN_SIZE: i64 = -1;

#[derive(Debug, Deserialize, Serialize)]
pub struct Archive<L, E> {
    pub log: ArchiveLog<L, E>,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct ArchiveLog<L, E> {
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub creator: Creator,
    pub entries: Vec<ArchiveEntry<E>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    #[serde(flatten)]
    pub own: L,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Creator {
    pub name: String,
    pub version: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveEntry<E> {
    pub started_date_time: String,
    /// In milliseconds.
    #[serde(default)]
    pub time: f64,
    pub request: ArchivedRequest,
    pub response: ArchivedResponse,
    #[serde(default, skip_deserializing)]
    pub cache: Cache,
    #[serde(default, skip_deserializing)]
    pub timings: Timings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    #[serde(flatten)]
    pub own: E,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedRequest {
    pub method: String,
    pub url: String,
    #[serde(default)]
    pub query_string: Vec<Pair>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_data: Option<Content>,
    #[serde(default, skip_deserializing)]
    pub http_version: HttpVersion,
    #[serde(default, skip_deserializing)]
    pub cookies: [Pair; 0],
    #[serde(default)]
    pub headers: Vec<Pair>,
    #[serde(default = "unknown_size", skip_deserializing)]
    pub headers_size: i64,
    #[serde(default = "unknown_size", skip_deserializing)]
    pub body_size: i64,
}

/// A response; if there was none, its status is 0, and `error` is the reason.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedResponse {
    pub status: i64,
    #[serde(default)]
    pub status_text: String,
    #[serde(default)]
    pub content: Content,
    #[serde(default, rename = "redirectURL")]
    pub redirect_url: String,
    #[serde(default, skip_deserializing)]
    pub http_version: HttpVersion,
    #[serde(default, skip_deserializing)]
    pub cookies: [Pair; 0],
    #[serde(default)]
    pub headers: Vec<Pair>,
    #[serde(default = "unknown_size", skip_deserializing)]
    pub headers_size: i64,
    #[serde(default = "unknown_size", skip_deserializing)]
    pub body_size: i64,
    /// In a field that browsers use too.
    #[serde(default, rename = "_error", skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A body.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// Only a response has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    #[serde(default)]
    pub mime_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// `base64`, or nothing if the text is the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

/// A header or a parameter.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Pair {
    pub name: String,
    #[serde(default)]
    pub value: String,
}

#[derive(Debug, Default, Serialize)]
pub struct Cache {}

/// Only how long the answer took is known.
#[derive(Debug, Default, Serialize)]
pub struct Timings {
    send: f64,
    pub wait: f64,
    receive: f64,
}

/// The only one that is spoken here.
#[derive(Debug, Default, Serialize)]
pub enum HttpVersion {
    #[default]
    #[serde(rename = "HTTP/1.1")]
    One,
}

fn unknown_size() -> i64 {
    UNKNOWN_SIZE
}

impl<L, E> Archive<L, E> {
    /// An archive by this program.
    pub fn new(version: &str, entries: Vec<ArchiveEntry<E>>, own: L) -> Self {
        let creator = Creator { name: env!("CARGO_PKG_NAME").to_owned(), version: version.to_owned() };
        Self { log: ArchiveLog { version: "1.2".to_owned(), creator, entries, comment: None, own } }
    }
}

impl<E> ArchiveEntry<E> {
    pub fn new(started: &str, time: f64, request: ArchivedRequest, response: ArchivedResponse, own: E) -> Self {
        let timings = Timings { wait: time, ..Timings::default() };
        let (started_date_time, cache) = (started.to_owned(), Cache {});
        Self { started_date_time, time, request, response, cache, timings, connection: None, own }
    }
}

impl ArchivedRequest {
    pub fn new(method: &str, url: &str, query: Vec<Pair>, headers: Vec<Pair>, body: Content) -> Self {
        Self {
            method: method.to_owned(),
            url: as_uri(url),
            query_string: query,
            body_size: body.size.unwrap_or_default(),
            post_data: body.text.is_some().then_some(Content { size: None, ..body }),
            http_version: HttpVersion::One,
            cookies: [],
            headers,
            headers_size: UNKNOWN_SIZE,
        }
    }
}

impl ArchivedResponse {
    pub fn new(status: u16, headers: Vec<Pair>, content: Content) -> Self {
        let reason = hyper::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        Self {
            status: status.into(),
            status_text: reason.unwrap_or_default().to_owned(),
            body_size: content.size.unwrap_or_default(),
            content,
            redirect_url: String::new(),
            http_version: HttpVersion::One,
            cookies: [],
            headers,
            headers_size: UNKNOWN_SIZE,
            error: None,
        }
    }
}

impl Content {
    /// A body that is text, or whose bytes are in base64. The size of a masked body is that of the text shown.
    pub fn new(headers: &[Pair], text: &str, is_base64: bool) -> Self {
        let size = if is_base64 { text.trim_end_matches('=').len() * 3 / 4 } else { text.len() };
        Self {
            size: i64::try_from(size).ok(),
            mime_type: value_of(headers, "content-type").unwrap_or(UNKNOWN_TYPE).to_owned(),
            text: Some(text.to_owned()).filter(|text| !text.is_empty()),
            encoding: is_base64.then(|| "base64".to_owned()),
        }
    }

    /// The body as text; `None` if the archive does not have it.
    pub fn body(&self) -> Option<String> {
        match (&self.text, &self.encoding) {
            (None, _) => self.size.is_none_or(|size| size <= 0).then(String::new),
            (Some(text), Some(encoding)) if encoding == "base64" => {
                Some(String::from_utf8_lossy(&STANDARD.decode(text).ok()?).into_owned())
            }
            (Some(text), _) => Some(text.clone()),
        }
    }
}

/// A URL as it was sent, as a replay of the archive compares it. Characters that no URL contains, such as the `…` of a masked part,
/// are encoded.
pub fn as_uri(url: &str) -> String {
    const HIDDEN: &AsciiSet = &CONTROLS.add(b' ');
    utf8_percent_encode(url, HIDDEN).to_string()
}

/// Headers, or parameters.
pub fn pairs(pairs: &[(String, String)]) -> Vec<Pair> {
    pairs.iter().map(|(name, value)| Pair { name: name.clone(), value: value.clone() }).collect()
}

/// The value of the first header of this name.
pub fn value_of<'p>(pairs: &'p [Pair], name: &str) -> Option<&'p str> {
    pairs.iter().find(|pair| pair.name.eq_ignore_ascii_case(name)).map(|pair| pair.value.as_str())
}
