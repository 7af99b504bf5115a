//! The files of the page, as they are in `src/ui/assets/`, and the answers to requests for them.

use std::sync::LazyLock;

use hyper::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_NONE_MATCH, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Response, StatusCode};
use sha2::{Digest as _, Sha256};

use crate::http::answer::{AnswerBody, answer as answer_of, header_value};

/// What the page may do: run its own scripts, ask the emulator that it came from, and nothing else. No text can become markup or
/// script.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
);
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// One file of the page.
#[derive(Debug)]
pub struct Asset {
    /// Its name, by which the page refers to it.
    pub name: &'static str,
    /// Its content.
    pub text: &'static str,
}

macro_rules! assets {
    ($($name:literal),+ $(,)?) => {
        &[$(Asset { name: $name, text: include_str!(concat!("assets/", $name)) }),+]
    };
}

/// Every file. A test compares the list with the folder.
pub const ASSETS: &[Asset] = assets![
    "index.html",
    "style.css",
    "icon.svg",
    "app.js",
    "activity.js",
    "check.js",
    "command.js",
    "delivery.js",
    "element.js",
    "filter.js",
    "frame.js",
    "keys.js",
    "list.js",
    "live.js",
    "parts.js",
    "request.js",
    "route.js",
    "scenarios.js",
    "settings.js",
    "signature.js",
    "store.js",
    "subscriptions.js",
    "summary.js",
    "text.js",
    "time.js",
    "timeline.js",
    "trigger.js"
];

impl Asset {
    /// Its media type, by the end of its name.
    pub fn content_type(&self) -> &'static str {
        match self.name.rsplit_once('.').map(|(_, end)| end) {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        }
    }

    /// Whether it is a script.
    pub fn is_script(&self) -> bool {
        self.content_type().starts_with("text/javascript")
    }

    /// Names its content: differs once the content does.
    fn tag(&self) -> String {
        static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
            let tag = |asset: &Asset| {
                let digest = Sha256::digest(asset.text);
                digest[..8].iter().fold(String::new(), |tag, byte| format!("{tag}{byte:02x}"))
            };
            ASSETS.iter().map(|asset| format!("\"{}\"", tag(asset))).collect()
        });
        let place = ASSETS.iter().position(|known| known.name == self.name);
        place.and_then(|place| TAGS.get(place).cloned()).unwrap_or_default()
    }
}

/// The file of this name; the empty one is that of `index.html`.
pub fn find(name: &str) -> Option<&'static Asset> {
    let name = if name.is_empty() { "index.html" } else { name };
    ASSETS.iter().find(|asset| asset.name == name)
}

/// The answer to a GET or HEAD for a file: the file, or 304 if the browser has it already.
pub fn answer(asset: &'static Asset, headers: &HeaderMap) -> Response<AnswerBody> {
    let tag = asset.tag();
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|tags| tags.split(',')).any(|known| {
        let known = known.trim();
        known == "*" || known.trim_start_matches("W/") == tag
    });
    let (status, text) = if is_known { (StatusCode::NOT_MODIFIED, "") } else { (StatusCode::OK, asset.text) };
    let mut response = answer_of(status, HeaderValue::from_static(asset.content_type()), text);
    let headers = response.headers_mut();
    headers.insert(ETAG, header_value(&tag));
    // Asked for again each time, as another version of the emulator may listen on this port tomorrow.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// Whether this is a person who opened the address in a browser: a client of the API sends a key, and asks for no HTML.
pub fn asks_for_page(method: &Method, headers: &HeaderMap) -> bool {
    let accepts = || {
        headers
            .get_all(ACCEPT)
            .iter()
            .any(|value| value.to_str().is_ok_and(|accept| accept.to_ascii_lowercase().contains("text/html")))
    };
    (*method == Method::GET || *method == Method::HEAD) && !headers.contains_key(AUTHORIZATION) && accepts()
}

/// Leads a browser from `/` or `/_emulator` to the page. The address is relative, as a proxy may serve the emulator below a path.
pub fn to_page() -> Response<AnswerBody> {
    let mut response = answer_of(StatusCode::FOUND, HeaderValue::from_static("text/plain; charset=utf-8"), "");
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("_emulator/"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
