//! The text of an HTML page as a person reads it. Not a parser: enough for the pages with which frameworks and proxies refuse a request.

/// Elements whose content is not shown.
const HIDDEN: [&str; 4] = ["script", "style", "template", "svg"];
/// Elements that break no line.
const INLINE: [&str; 12] = ["a", "abbr", "b", "code", "em", "font", "i", "mark", "small", "span", "strong", "u"];

/// True if a body is a page of HTML, by its beginning.
pub fn is_page(body: &[u8]) -> bool {
    let start = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start();
    let begins = |tag: &[u8]| start.get(..tag.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(tag));
    begins(b"<!doctype html") || begins(b"<html")
}

/// The title of a page, and the lines of its body; neither is said twice. `None` if it has no text.
pub fn visible_text(page: &str) -> Option<String> {
    // As long as the page, byte by byte.
    let lower = page.to_ascii_lowercase();
    let (mut title, mut lines, mut line, mut is_title) = (String::new(), Vec::<String>::new(), String::new(), false);
    let mut at = 0;
    loop {
        let next = page[at..].find('<').map_or(page.len(), |found| at + found);
        line.push_str(&page[at..next]);
        let rest = &lower[next..];
        let is_tag =
            rest[1.min(rest.len())..].starts_with(|first: char| first.is_ascii_alphabetic() || "/!?".contains(first));
        if !is_tag && !rest.is_empty() {
            line.push('<');
            at = next + 1;
            continue;
        }
        let end = if rest.starts_with("<!--") {
            rest.find("-->").map(|end| end + 3)
        } else {
            rest.find('>').map(|end| end + 1)
        };
        let end = end.unwrap_or(rest.len());
        let tag = rest[..end].trim_start_matches(['<', '/']);
        let name = tag.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
        at = next + end;
        if INLINE.contains(&name) {
            continue;
        }
        let text = words(&std::mem::take(&mut line));
        if is_title {
            title = text;
        } else if !text.is_empty() && !lines.contains(&text) {
            lines.push(text);
        }
        is_title = name == "title" && !rest.starts_with("</");
        if HIDDEN.contains(&name) && !rest.starts_with("</") {
            at = lower[at..].find(&format!("</{name}")).map_or(page.len(), |found| at + found);
        }
        if at >= page.len() {
            break;
        }
    }
    lines.retain(|line| !title.contains(line.as_str()));
    if lines.iter().any(|line| line.contains(&title)) {
        title.clear();
    }
    let lines = lines.join("; ");
    match (title.is_empty(), lines.is_empty()) {
        (true, true) => None,
        (true, false) => Some(lines),
        (false, true) => Some(title),
        (false, false) => Some(format!("{title}: {lines}")),
    }
}

/// A text of HTML with its entities read and its white space as single blanks.
fn words(text: &str) -> String {
    let mut parts = text.split('&');
    let mut read = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let entity = part.split_once(';').and_then(|(name, rest)| Some((character(name)?, rest)));
        if let Some((character, rest)) = entity {
            read.push(character);
            read.push_str(rest);
        } else {
            read.push('&');
            read.push_str(part);
        }
    }
    read.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn character(entity: &str) -> Option<char> {
    match entity {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some(' '),
        _ => {
            let number = entity.strip_prefix('#')?;
            let hexadecimal = number.strip_prefix(['x', 'X']).map(|digits| u32::from_str_radix(digits, 16).ok());
            char::from_u32(hexadecimal.unwrap_or_else(|| number.parse().ok())?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_a_person_reads_of_it() {
        for (page, expected) in [
            (
                "<!DOCTYPE html>\n<html><head><meta charset=x><title>Error</title></head><body><pre>Cannot POST /h</pre></body></html>",
                Some("Error: Cannot POST /h"),
            ),
            (
                "<html><head><title>403 Refused</title><style>h1 > a { x: '<b>' }</style></head><body><h1>Refused</h1><p>The form <b>token</b> is\n missing.</p>",
                Some("403 Refused: The form token is missing."),
            ),
            ("<!doctype html><title>Refused\n   at /h</title>", Some("Refused at /h")),
            (
                "<html><title>Error</title><pre>Error: KEY is undefined<br> &nbsp; at app.js:5 &lt;x&gt; &#39;&#x27; &copy; a & b</pre>",
                Some("Error: KEY is undefined; at app.js:5 <x> '' &copy; a & b"),
            ),
            (
                "<html><script>a < b</script><!-- <p>no --><P>1 < 2</P><p>1 < 2</p><svg><title>icon</title></svg>",
                Some("1 < 2"),
            ),
            ("<html><body></body></html>", None),
            ("<html><script>never ends", None),
            ("<html><p>cut off <a hr", Some("cut off")),
            ("<", Some("<")),
            ("", None),
        ] {
            assert_eq!(visible_text(page).as_deref(), expected, "{page}");
        }
    }

    #[test]
    fn a_page_begins_as_one() {
        for (body, expected) in [
            ("\u{feff}\n <!DocType HTML>", true),
            ("<html lang='en'>", true),
            ("<?xml version='1.0'?><a/>", false),
            ("{\"html\": \"<html>\"}", false),
            ("", false),
        ] {
            assert_eq!(is_page(body.as_bytes()), expected, "{body}");
        }
    }
}
