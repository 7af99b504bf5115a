//! The files of the page, as they are in `src/ui/assets/`, and the answers to requests for them.

use std::sync::LazyLock;

use hyper::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_NONE_MATCH, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Response, StatusCode};
use sha2::{Digest as _, Sha256};

use crate::http::answer::{answer as answer_of, header_value};
use crate::http::body::Outgoing;

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
    /// Its content as it is written, with comments.
    pub source: &'static str,
}

/// A file as it is served.
struct Served {
    /// Without comments.
    text: String,
    /// Names the content: differs once that does.
    tag: String,
}

/// The files as they are served, in the order of the list.
static SERVED: LazyLock<Vec<Served>> = LazyLock::new(|| {
    let served = |asset: &Asset| {
        let text = if asset.has_comments() { without_comments(asset.source) } else { asset.source.to_owned() };
        let digest = Sha256::digest(&text);
        let tag = digest[..8].iter().fold(String::new(), |tag, byte| format!("{tag}{byte:02x}"));
        Served { text, tag: format!("\"{tag}\"") }
    };
    ASSETS.iter().map(served).collect()
});

macro_rules! assets {
    ($($name:literal),+ $(,)?) => {
        &[$(Asset { name: $name, source: include_str!(concat!("assets/", $name)) }),+]
    };
}

/// Every file, each script after those that it imports. A test compares the list with the folder.
pub const ASSETS: &[Asset] = assets![
    "index.html",
    "style.css",
    "icon.svg",
    "text.js",
    "element.js",
    "filter.js",
    "list.js",
    "command.js",
    "parts.js",
    "connect.js",
    "activity.js",
    "signature.js",
    "delivery.js",
    "check.js",
    "route.js",
    "frame.js",
    "again.js",
    "keys.js",
    "store.js",
    "live.js",
    "request.js",
    "review.js",
    "scenarios.js",
    "settings.js",
    "subscriptions.js",
    "timeline.js",
    "summary.js",
    "time.js",
    "trigger.js",
    "app.js"
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

    fn has_comments(&self) -> bool {
        self.is_script() || self.content_type().starts_with("text/css")
    }

    /// Its content as it is served: without the lines that are comments alone, which are a third of the bytes.
    pub fn text(&self) -> &'static str {
        &self.served().text
    }

    fn served(&self) -> &'static Served {
        let place = ASSETS.iter().position(|known| known.name == self.name);
        place.and_then(|place| SERVED.get(place)).expect("every asset is in the list")
    }
}

/// The lines that are not only a comment: `// …`, or from a line that begins with `/*` to the next `*/` at the end of a line.
fn without_comments(source: &str) -> String {
    let (mut text, mut inside) = (String::with_capacity(source.len()), false);
    for line in source.lines() {
        let content = line.trim();
        let ends = content.find("*/").map(|at| content.len() == at + 2);
        // Code may follow a comment: `/** @type {Event} */ (event).preventDefault();`.
        let begins = !inside && content.starts_with("/*") && ends != Some(false);
        if !inside && !begins && !content.is_empty() && !content.starts_with("//") {
            text.push_str(line);
            text.push('\n');
        }
        inside = (inside || begins) && ends.is_none();
    }
    text
}

/// The file of this name; the empty one is that of `index.html`.
pub fn find(name: &str) -> Option<&'static Asset> {
    let name = if name.is_empty() { "index.html" } else { name };
    ASSETS.iter().find(|asset| asset.name == name)
}

/// The answer to a GET or HEAD for a file: the file, or 304 if the browser has it already.
pub fn answer(asset: &'static Asset, headers: &HeaderMap) -> Response<Outgoing> {
    let Served { text, tag } = asset.served();
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|tags| tags.split(',')).any(|known| {
        let known = known.trim();
        known == "*" || known.trim_start_matches("W/") == *tag
    });
    let (status, text) = if is_known { (StatusCode::NOT_MODIFIED, "") } else { (StatusCode::OK, text.as_str()) };
    let mut response = answer_of(status, HeaderValue::from_static(asset.content_type()), text);
    let headers = response.headers_mut();
    headers.insert(ETAG, header_value(tag));
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
pub fn to_page() -> Response<Outgoing> {
    let mut response = answer_of(StatusCode::FOUND, HeaderValue::from_static("text/plain; charset=utf-8"), "");
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("_emulator/"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_comments_alone_are_not_served() {
        let source = "// The start.\n\n/** One. @type {a} */\nconst a = 1; // kept\n/**\n * Two\n * @returns {b}\n */\n  // three\nfunction b() {}\n";
        assert_eq!(without_comments(source), "const a = 1; // kept\nfunction b() {}\n");
        let cast = "/** @type {A} */ (a).b();\n/* x */\nc(); /* y */\nd();\n";
        assert_eq!(without_comments(cast), "/** @type {A} */ (a).b();\nc(); /* y */\nd();\n");
        assert_eq!(without_comments("/* a */\n.b { c: d; }\n/* e\n   f */\n"), ".b { c: d; }\n");
    }
}
