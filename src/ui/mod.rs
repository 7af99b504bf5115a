//! Layer 5, the page and the report: the files in `assets/`, how they are served, and how they become one HTML file; and the pages of
//! the documentation.
//!
//! The page is a client of the control API. A report is the files of the page and a run document as one HTML file, which any browser
//! opens without a network. Its scripts are joined into one, which needs no bundler, because they keep to a few rules: each comes after
//! those that it imports, imports are single lines, everything is exported where it is declared, and no two files declare the same
//! name. Independent of emulators, the control API, and the contents of documents.

mod plain;

use std::io::{self, Write};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_NONE_MATCH, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Response, StatusCode};
use pulldown_cmark::html::push_html;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use sha2::{Digest as _, Sha256};

use crate::http::answer::{answer as answer_of, header_value};
use crate::http::body::ResponseBody;
pub use plain::{Plain, PlainCause};

/// The page's permissions: run its own scripts, ask the emulator that it came from, and nothing else. No text can become markup or
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
    /// Its content as it is served: without indentation and the lines that are comments alone, which are a third of the bytes.
    pub text: String,
    /// Names the content: differs once that does.
    tag: String,
}

macro_rules! files {
    ($folder:literal, $prefix:literal, $($name:literal),+ $(,)?) => {
        [$(Asset::new(concat!($prefix, $name), include_str!(concat!($folder, $name)))),+]
    };
}

/// Every file, each script after those that it imports, then the documentation. A test compares the list with the folders.
pub static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let page = files![
        "assets/",
        "",
        "index.html",
        "style.css",
        "icon.svg",
        "text.js",
        "element.js",
        "filter.js",
        "list.js",
        "shell.js",
        "command.js",
        "parts.js",
        "connect.js",
        "timeline.js",
        "activity.js",
        "signature.js",
        "delivery.js",
        "route.js",
        "settings_words.js",
        "frame.js",
        "keys.js",
        "store.js",
        "live.js",
        "request.js",
        "review.js",
        "scenarios.js",
        "settings.js",
        "subscriptions.js",
        "summary.js",
        "time.js",
        "app.js"
    ];
    let documentation = files![
        "../../docs/",
        "docs/",
        "README.md",
        "SKILL.md",
        "agents.md",
        "ci.md",
        "cli.md",
        "container.md",
        "control-api.md",
        "cookbook.md",
        "findings.md",
        "receivers.md",
        "reports.md",
        "review.md",
        "sandbox.md",
        "supported.md",
        "scenario-language.md",
        "testing.md",
        "waiting.md",
        "webhooks.md"
    ];
    page.into_iter().chain(documentation).collect()
});

impl Asset {
    fn new(name: &'static str, source: &'static str) -> Self {
        let mut asset = Self { name, source, text: source.to_owned(), tag: String::new() };
        if asset.is_script() || asset.content_type().starts_with("text/css") {
            asset.text = without_comments(source);
        } else if name.starts_with("docs/") {
            asset.text = documentation(source);
        }
        let digest = Sha256::digest(&asset.text);
        let tag = digest[..8].iter().fold(String::new(), |tag, byte| format!("{tag}{byte:02x}"));
        Self { tag: format!("\"{tag}\""), ..asset }
    }

    /// Its media type, by the end of its name.
    pub fn content_type(&self) -> &'static str {
        match self.name.rsplit_once('.').map(|(_, end)| end) {
            Some("html" | "md") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        }
    }

    /// True if it is a script.
    pub fn is_script(&self) -> bool {
        self.content_type().starts_with("text/javascript")
    }
}

/// The lines that are not only a comment: `// …`, or from a line that begins with `/*` to the next `*/` at the end of a line; without the
/// types of casts, which are comments within a line.
fn without_comments(source: &str) -> String {
    let (mut text, mut inside) = (String::with_capacity(source.len()), false);
    for line in source.lines() {
        let content = line.trim();
        let ends = content.find("*/").map(|at| content.len() == at + 2);
        // Code may follow a comment: `/** @type {Event} */ (event).preventDefault();`.
        let begins = !inside && content.starts_with("/*") && ends != Some(false);
        if !inside && !begins && !content.is_empty() && !content.starts_with("//") {
            text.push_str(&without_types(content));
            text.push('\n');
        }
        inside = (inside || begins) && ends.is_none();
    }
    text
}

/// A line without the types in it: `/** @type {Event} */ (event)` is `(event)`.
fn without_types(line: &str) -> String {
    let mut parts = line.split("/** @type ");
    let mut code = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        code.push_str(part.split_once("*/").map_or(part, |(_, code)| code.trim_start()));
    }
    code
}

/// A page of the documentation: its Markdown as HTML. What it quotes is no markup, and links lead to other pages and headings alone.
fn documentation(markdown: &str) -> String {
    // The front matter for agents is not part of the page.
    let page = markdown.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"));
    let markdown = page.map_or(markdown, |(_, page)| page);
    let mut events: Vec<Event> = Vec::new();
    let (mut heading, mut title, mut is_link) = (None, String::new(), false);
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match &event {
            Event::Text(text) | Event::Code(text) if heading.is_some() => title.push_str(text),
            _ => {}
        }
        match event {
            // A comment is a note for those who write the page.
            Event::Html(text) | Event::InlineHtml(text) if text.trim_start().starts_with("<!--") => {}
            Event::Html(text) | Event::InlineHtml(text) => events.push(Event::Text(text)),
            Event::Start(Tag::Link { ref dest_url, .. }) => {
                is_link = dest_url.starts_with('#')
                    || (dest_url.split('#').next().is_some_and(|file| file.strip_suffix(".md").is_some())
                        && !dest_url.contains([':', '/']));
                if is_link {
                    events.push(event);
                }
            }
            Event::End(TagEnd::Link) if !is_link => {}
            Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => {}
            Event::Start(Tag::Heading { .. }) => {
                (heading, title) = (Some(events.len()), String::new());
                events.push(event);
            }
            Event::End(TagEnd::Heading(_)) => {
                if let Some(Event::Start(Tag::Heading { id, .. })) = heading.take().and_then(|at| events.get_mut(at)) {
                    *id = Some(anchor(&title).into());
                }
                events.push(event);
            }
            event => events.push(event),
        }
    }
    let mut content = String::with_capacity(markdown.len() * 2);
    push_html(&mut content, events.into_iter());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>wrs-emulator</title>\n<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"../icon.svg\">\n<link rel=\"stylesheet\" href=\"../style.css\">\n<article class=\"doc\">\n<p><a href=\"../\">wrs-emulator</a> / <a href=\"README.md\">Documentation</a></p>\n{content}</article>\n"
    )
}

/// The name of a heading in addresses, as code hosts make it.
fn anchor(title: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

/// The file of this name; the empty one is that of `index.html`.
pub fn find(name: &str) -> Option<&'static Asset> {
    let name = if name.is_empty() { "index.html" } else { name };
    ASSETS.iter().find(|asset| asset.name == name)
}

/// The answer to a GET or HEAD for a file: the file, or 304 if the browser has it already.
pub fn answer(asset: &'static Asset, headers: &HeaderMap) -> Response<ResponseBody> {
    let Asset { text, tag, .. } = asset;
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

/// True if this is a person who opened the address in a browser: a client of the API sends a key, and asks for no HTML.
pub fn asks_for_page(method: &Method, headers: &HeaderMap) -> bool {
    let accepts = || {
        headers
            .get_all(ACCEPT)
            .iter()
            .any(|value| value.to_str().is_ok_and(|accept| accept.to_ascii_lowercase().contains("text/html")))
    };
    (*method == Method::GET || *method == Method::HEAD) && !headers.contains_key(AUTHORIZATION) && accepts()
}

/// Leads a browser from `/` or `/_emulator` to the page. The address is relative because a proxy may serve the emulator below a path.
pub fn to_page() -> Response<ResponseBody> {
    let mut response = answer_of(StatusCode::FOUND, HeaderValue::from_static("text/plain; charset=utf-8"), "");
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("_emulator/"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The parts of a report before and after the document.
pub const DATA_START: &str = "<script type=\"application/json\" id=\"run\">";
/// See [`DATA_START`].
pub const DATA_END: &str = "</script>";

/// The lines of `index.html` that a report replaces.
const STYLE_LINE: &str = "<link rel=\"stylesheet\" href=\"style.css\">\n";
const ICON_LINE: &str = "<link rel=\"icon\" href=\"icon.svg\">\n";
const SCRIPT_LINE: &str = "<script type=\"module\" src=\"app.js\"></script>\n";
const FIRST_LINE: &str = "<meta charset=\"utf-8\">\n";
/// The content without scripts, up to the script: it advises to ask a running emulator.
const NOSCRIPT: &str = "<noscript>";

/// Writes the report of a run document, with its content without scripts. `document` writes the document, which is JSON.
pub fn report(
    out: &mut dyn Write,
    plain: &Plain,
    document: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let text = |name: &str| find(name).map_or("", |asset| asset.text.as_str());
    // In a report there is nothing to connect to.
    let is_needed = |asset: &&Asset| asset.is_script() && asset.name != "connect.js";
    let script = join(ASSETS.iter().filter(is_needed).map(|asset| asset.text.as_str()));
    let style = text("style.css");
    let policy = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; \
         base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'\">\n",
        hash(&script),
        hash(style)
    );
    let icon = STANDARD.encode(text("icon.svg"));
    let index = text("index.html");
    let (before, after) = index.split_once(SCRIPT_LINE).unwrap_or((index, ""));
    let (before, _) = before.split_once(NOSCRIPT).unwrap_or((before, ""));
    let before = before
        .replace(FIRST_LINE, &format!("{FIRST_LINE}{policy}"))
        .replace(STYLE_LINE, &format!("<style>{style}</style>\n"))
        .replace(ICON_LINE, &format!("<link rel=\"icon\" href=\"data:image/svg+xml;base64,{icon}\">\n"));
    write!(out, "{before}{}{DATA_START}", plain.html())?;
    document(&mut Inert(out))?;
    write!(out, "{DATA_END}\n<script type=\"module\">{script}</script>\n{after}")
}

/// Writes JSON so that nothing in it can end the element that it is in, or change how the following is read: a comment, another script.
/// All that begins with `<`, which occurs in strings alone, where JSON may escape it.
struct Inert<'o>(&'o mut dyn Write);

impl Write for Inert<'_> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        let mut parts = json.split(|byte| *byte == b'<');
        self.0.write_all(parts.next().unwrap_or_default())?;
        for part in parts {
            self.0.write_all(b"\\u003c")?;
            self.0.write_all(part)?;
        }
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The hash by which a policy names a script or style.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// The scripts as one: without imports, and with declarations instead of exports.
fn join<'s>(scripts: impl Iterator<Item = &'s str>) -> String {
    let mut script = String::new();
    for line in scripts.flat_map(str::lines).filter(|line| !line.starts_with("import ")) {
        script.push_str(line.strip_prefix("export ").unwrap_or(line));
        script.push('\n');
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_comments_alone_are_not_served() {
        let source = "// The start.\n\n/** One. @type {a} */\nconst a = 1; // kept\n/**\n * Two\n * @returns {b}\n */\n  // three\n  function b() {}\n";
        assert_eq!(without_comments(source), "const a = 1; // kept\nfunction b() {}\n");
        let cast = "x = /** @type {A} */ (/** @type {B} */ (a).b());\n/* x */\nc(); /* y */\nd();\n";
        assert_eq!(without_comments(cast), "x = ((a).b());\nc(); /* y */\nd();\n");
        assert_eq!(without_comments("/* a */\n.b { c: d; }\n/* e\n   f */\n"), ".b { c: d; }\n");
    }
}
