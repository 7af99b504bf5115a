//! Changes to a body before a receiver verifies it, and the bodies that may have been sent: one table of rewrites, and one of texts that
//! have lost the body. Guesses are bounded, so that a large body costs little.

use std::borrow::Cow;
use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Most bytes of guesses beyond the commonest, and most ways to write numbers or to order keys.
const MAX_GUESSED_BYTES: usize = 8 * 1024 * 1024;
const MAX_GUESSES: usize = 5040;
/// How many rows of the table are tried whatever the size of the body.
const COMMONEST: usize = 5;

/// A rewrite that is undone: words that complete "the body …", and the bodies that it may have been.
type Rewrite = (&'static str, fn(&Received<'_>) -> Bodies);
type Bodies = Box<dyn Iterator<Item = Vec<u8>>>;

/// The commonest come first.
const REWRITES: &[Rewrite] = &[
    ("without its last newline", |body| {
        let rest = body.bytes.strip_suffix(b"\r\n").or_else(|| body.bytes.strip_suffix(b"\n"));
        bodies(rest.map(<[u8]>::to_vec))
    }),
    ("as compact JSON", |body| body.json(&[(Layout::Compact, Strings::AsTheyAre), (Layout::Compact, Strings::Plain)])),
    ("with a newline at its end", |body| bodies([[body.bytes, b"\n"].concat()])),
    ("as JSON with spaces after `,` and `:`", |body| {
        body.json(&[(Layout::Spaced, Strings::AsTheyAre), (Layout::Spaced, Strings::Plain)])
    }),
    ("as JSON with spaces after `,` and `:` in ASCII", |body| body.json(&[(Layout::Spaced, Strings::Ascii)])),
    ("without white space around it", |body| bodies([body.bytes.trim_ascii().to_vec()])),
    ("with CR LF at its end", |body| bodies([[body.bytes, b"\r\n"].concat()])),
    ("with CR LF instead of LF", |body| {
        bodies(body.text.map(|text| text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes()))
    }),
    ("with LF instead of CR LF", |body| bodies(body.text.map(|text| text.replace("\r\n", "\n").into_bytes()))),
    ("without its byte order mark", |body| bodies(body.bytes.strip_prefix(b"\xef\xbb\xbf").map(<[u8]>::to_vec))),
    ("as compact JSON in ASCII", |body| body.json(&[(Layout::Compact, Strings::Ascii)])),
    ("as JSON indented by 2", |body| body.indented("  ")),
    ("as JSON indented by 4", |body| body.indented("    ")),
    ("as JSON indented by tabs", |body| body.indented("\t")),
    ("as JSON with `/` escaped", |body| {
        let layouts = [Layout::Compact, Layout::Spaced, Layout::Indented("    ")];
        body.json(&layouts.map(|layout| [(layout, Strings::Slashes), (layout, Strings::SlashesAscii)]).concat())
    }),
    ("as JSON with `<`, `>` and `&` escaped", |body| body.json(&[(Layout::Compact, Strings::Html)])),
    ("decoded from base64", |body| bodies(STANDARD.decode(body.bytes.trim_ascii()).ok())),
    ("that is the content of this JSON string", |body| {
        bodies(serde_json::from_slice::<String>(body.bytes).ok().map(String::into_bytes))
    }),
    ("whose bytes are listed here", |body| bodies(listed_bytes(body.bytes))),
    ("without Python's `b'…'` around it", |body| bodies(body.text.and_then(python_bytes))),
    ("in UTF-8, not Latin-1", |body| {
        let decoded = || body.bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes();
        bodies(body.text.is_none().then(decoded))
    }),
    ("before it was decoded as Latin-1", |body| bodies(body.text.and_then(encoded_once))),
    ("with sorted keys", |body| {
        let sorted = body.json.as_ref().map(Node::sorted);
        let forms = [(Layout::Compact, Strings::AsTheyAre), (Layout::Spaced, Strings::AsTheyAre)];
        let spaced = [(Layout::Spaced, Strings::Ascii)];
        bodies(
            sorted
                .iter()
                .flat_map(|node| forms.iter().chain(&spaced).map(|form| node.written(*form)))
                .collect::<Vec<_>>(),
        )
    }),
    ("with numbers in another form, such as `1.0` for `1`", |body| body.guessed(Node::numbers)),
    ("with the keys in another order", |body| body.guessed(Node::orders)),
];

/// Texts that have lost the body, by their start, and what happened.
const LOST: &[(&str, &str)] = &[
    ("[object ", "the body is an object that JavaScript turned into text: pass the raw bytes, not the parsed body"),
    ("<Buffer ", "the body is a printed Buffer: pass its bytes"),
    ("{'", "the body is a dictionary that Python turned into text: pass the raw bytes, not the parsed body"),
    ("{\"id\"=>", "the body is a hash that Ruby turned into text: pass the raw bytes, not the parsed body"),
    ("map[", "the body is a map that Go turned into text: pass the raw bytes, not the parsed body"),
];
/// What is left of a body that something else has read or parsed before.
const CONSUMED: [&str; 5] = ["", "{}", "null", "undefined", "None"];

/// A body as it was received.
struct Received<'b> {
    bytes: &'b [u8],
    text: Option<&'b str>,
    json: Option<Node<'b>>,
}

/// Every body that `body` may have been before something changed its bytes, with words that complete "the body …"; never `body`
/// itself, and none twice.
pub fn rewrites(body: &[u8]) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let text = std::str::from_utf8(body).ok();
    let received = Received { bytes: body, text, json: text.and_then(Node::read) };
    let mut known = HashSet::from([body.to_vec()]);
    let mut guessed = 0;
    let found =
        (0..).zip(REWRITES).flat_map(move |(at, (what, undo))| undo(&received).map(move |body| (at, *what, body)));
    let bounded = found.take_while(move |(at, _, body)| {
        guessed += if *at < COMMONEST { 0 } else { body.len() };
        guessed <= MAX_GUESSED_BYTES
    });
    bounded.filter(move |(_, _, body)| known.insert(body.clone())).map(|(_, what, body)| (what, body))
}

/// Why nothing can verify a body like this, if it is none any more.
pub(super) fn lost_body(body: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if CONSUMED.contains(&text) {
        return Some("the body is empty, as if something had read or parsed it before: keep the raw bytes");
    }
    let lost = LOST.iter().find(|(start, _)| text.starts_with(start)).map(|(_, what)| *what);
    let replaced = std::str::from_utf8(body).is_ok_and(|text| text.contains('\u{fffd}'));
    lost.or(replaced.then_some("the body has `\u{fffd}`, where bytes were lost when it was decoded: pass the raw bytes"))
}

fn bodies(found: impl IntoIterator<Item = Vec<u8>, IntoIter: 'static>) -> Bodies {
    Box::new(found.into_iter())
}

/// The bytes of `{"type":"Buffer","data":[…]}` or `[…]`.
fn listed_bytes(body: &[u8]) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let list = value.get("data").unwrap_or(&value).as_array().filter(|list| !list.is_empty())?;
    list.iter().map(|byte| u8::try_from(byte.as_u64()?).ok()).collect()
}

/// The bytes that Python prints as `b'…'`.
fn python_bytes(text: &str) -> Option<Vec<u8>> {
    let inner = text.trim().strip_prefix('b')?;
    let quoted = |quote| inner.strip_prefix(quote)?.strip_suffix(quote);
    let mut rest = quoted('\'').or_else(|| quoted('"'))?.bytes();
    let mut found = Vec::new();
    while let Some(byte) = rest.next() {
        found.push(match byte {
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                other => other,
            },
            other => other,
        });
    }
    Some(found)
}

/// The text that was decoded as Latin-1, or as Windows does, and encoded in UTF-8 once more.
fn encoded_once(text: &str) -> Option<Vec<u8>> {
    const WINDOWS: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";
    let byte = |c: char| match u8::try_from(c) {
        Ok(byte) => Some(byte),
        Err(_) => WINDOWS.chars().zip(0x80..).find_map(|(known, byte)| (known == c).then_some(byte)),
    };
    let bytes: Vec<u8> = text.chars().map(byte).collect::<Option<_>>()?;
    String::from_utf8(bytes).ok().map(String::into_bytes)
}

impl<'b> Received<'b> {
    fn json(&self, forms: &[(Layout, Strings)]) -> Bodies {
        let Some(json) = &self.json else { return bodies([]) };
        bodies(forms.iter().map(|form| json.written(*form)).collect::<Vec<_>>())
    }

    /// As a file may have it, too: with a newline at its end.
    fn indented(&self, by: &'static str) -> Bodies {
        let found = self.json(&[(Layout::Indented(by), Strings::AsTheyAre), (Layout::Indented(by), Strings::Plain)]);
        bodies(found.flat_map(|body| [[&body[..], b"\n"].concat(), body]).collect::<Vec<_>>())
    }

    /// Variants of the JSON, without spaces and with them.
    fn guessed(&self, variants: fn(&Node<'b>, usize) -> Vec<Node<'b>>) -> Bodies {
        let Some(json) = &self.json else { return bodies([]) };
        let most = MAX_GUESSES.min(MAX_GUESSED_BYTES / 4 / self.bytes.len().max(1));
        let found = variants(json, most);
        let written = |layout| found.iter().map(move |node| node.written((layout, Strings::AsTheyAre)));
        bodies(written(Layout::Compact).chain(written(Layout::Spaced)).collect::<Vec<_>>())
    }
}

/// JSON whose numbers and strings are as they were written.
#[derive(Clone)]
enum Node<'j> {
    Scalar(&'j str),
    Number(Cow<'j, str>),
    List(Vec<Node<'j>>),
    Object(Fields<'j>),
}

type Fields<'j> = Vec<(&'j str, Node<'j>)>;

#[derive(Clone, Copy)]
enum Layout {
    Compact,
    /// `, ` and `: ` on one line, as Python's `json.dumps` writes.
    Spaced,
    Indented(&'static str),
}

/// How strings are written.
#[derive(Clone, Copy)]
enum Strings {
    AsTheyAre,
    /// Escaped only where they must be.
    Plain,
    Ascii,
    /// `\/`, as PHP writes; it also escapes all but ASCII, unless asked not to.
    Slashes,
    SlashesAscii,
    /// `\u003c`, as Go writes.
    Html,
}

impl<'j> Node<'j> {
    fn read(text: &'j str) -> Option<Self> {
        // What follows expects valid JSON that is not nested too deeply.
        serde_json::from_str::<Value>(text).ok()?;
        Self::parse(&mut { text })
    }

    fn parse(rest: &mut &'j str) -> Option<Self> {
        let first = next_byte(rest)?;
        if first == b'"' {
            return string(rest).map(Self::Scalar);
        }
        if !matches!(first, b'{' | b'[') {
            let end = rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
            let token = take(rest, end);
            return Some(if first.is_ascii_alphabetic() { Self::Scalar(token) } else { Self::Number(token.into()) });
        }
        take(rest, 1);
        let (mut list, mut fields) = (Vec::new(), Vec::new());
        loop {
            match next_byte(rest)? {
                b',' => _ = take(rest, 1),
                b']' | b'}' => break,
                _ if first == b'[' => list.push(Self::parse(rest)?),
                _ => {
                    let name = string(rest)?;
                    next_byte(rest)?;
                    take(rest, 1);
                    fields.push((name, Self::parse(rest)?));
                }
            }
        }
        take(rest, 1);
        Some(if first == b'[' { Self::List(list) } else { Self::Object(fields) })
    }

    fn written(&self, (layout, strings): (Layout, Strings)) -> Vec<u8> {
        let mut out = String::new();
        self.write(&mut out, layout, strings, 1);
        out.into_bytes()
    }

    fn write(&self, out: &mut String, layout: Layout, strings: Strings, depth: usize) {
        let line = |out: &mut String, depth: usize| {
            if let Layout::Indented(by) = layout {
                out.push('\n');
                out.push_str(&by.repeat(depth));
            }
        };
        let before = |out: &mut String, at: usize| {
            if at > 0 {
                out.push_str(if matches!(layout, Layout::Spaced) { ", " } else { "," });
            }
            line(out, depth);
        };
        match self {
            Self::Scalar(text) => out.push_str(&spelled(text, strings)),
            Self::Number(text) => out.push_str(text),
            Self::List(list) if list.is_empty() => out.push_str("[]"),
            Self::Object(fields) if fields.is_empty() => out.push_str("{}"),
            Self::List(list) => {
                out.push('[');
                for (at, value) in list.iter().enumerate() {
                    before(out, at);
                    value.write(out, layout, strings, depth + 1);
                }
                line(out, depth - 1);
                out.push(']');
            }
            Self::Object(fields) => {
                out.push('{');
                for (at, (name, value)) in fields.iter().enumerate() {
                    before(out, at);
                    out.push_str(&spelled(name, strings));
                    out.push_str(if matches!(layout, Layout::Compact) { ":" } else { ": " });
                    value.write(out, layout, strings, depth + 1);
                }
                line(out, depth - 1);
                out.push('}');
            }
        }
    }

    /// The same tree with each object's fields and each number changed.
    fn changed(&self, fields: &mut dyn FnMut(&mut Fields<'j>), number: &mut dyn FnMut(&mut Cow<'j, str>)) -> Self {
        let mut node = self.clone();
        node.change(fields, number);
        node
    }

    fn change(&mut self, fields: &mut dyn FnMut(&mut Fields<'j>), number: &mut dyn FnMut(&mut Cow<'j, str>)) {
        match self {
            Self::Scalar(_) => {}
            Self::Number(text) => number(text),
            Self::List(list) => {
                for value in list {
                    value.change(fields, number);
                }
            }
            Self::Object(found) => {
                fields(found);
                for (_, value) in found {
                    value.change(fields, number);
                }
            }
        }
    }

    fn sorted(&self) -> Self {
        self.changed(&mut |fields| fields.sort_by_key(|(name, _)| *name), &mut |_| {})
    }

    /// The same with numbers in other forms: all alike, then in every combination.
    fn numbers(&self, most: usize) -> Vec<Self> {
        let mut forms: Vec<Vec<String>> = Vec::new();
        self.changed(&mut |_| {}, &mut |text| forms.push(number_forms(text)));
        let total = forms.iter().fold(1_usize, |total, forms| total.saturating_mul(forms.len()));
        let alike = (1..4).map(|form| {
            self.changed(&mut |_| {}, &mut |text| {
                let forms = number_forms(text);
                *text = forms[form.min(forms.len() - 1)].clone().into();
            })
        });
        let combined = (1..total).map(|choice| {
            let mut choice = choice;
            self.changed(&mut |_| {}, &mut |text| {
                let forms = number_forms(text);
                *text = forms[choice % forms.len()].clone().into();
                choice /= forms.len();
            })
        });
        alike.chain(combined).take(most).collect()
    }

    /// The same with keys in another order, if they are sorted here: then something may have sorted them.
    fn orders(&self, most: usize) -> Vec<Self> {
        let (mut is_sorted, mut total) = (true, 1_usize);
        self.changed(
            &mut |fields| {
                is_sorted &= fields.is_sorted_by_key(|(name, _)| *name);
                total = total.saturating_mul(orders_of(fields.len()));
            },
            &mut |_| {},
        );
        let order = |choice: usize| {
            let mut choice = choice;
            self.changed(
                &mut |fields| {
                    let is_tried = orders_of(fields.len()) > 1;
                    for at in (0..fields.len()).filter(|_| is_tried) {
                        let left = fields.len() - at;
                        fields[at..=at + choice % left].rotate_right(1);
                        choice /= left;
                    }
                },
                &mut |_| {},
            )
        };
        (1..total).take(if is_sorted { most } else { 0 }).map(order).collect()
    }
}

/// In how many orders the fields of an object are tried.
fn orders_of(fields: usize) -> usize {
    if fields <= 7 { (1..=fields).product() } else { 1 }
}

/// A number as it is, and as other programs write the same one.
fn number_forms(text: &str) -> Vec<String> {
    let mut found = vec![text.to_owned()];
    if let Some(whole) = text.strip_suffix(".0") {
        found.push(whole.to_owned());
    } else if !text.contains(['.', 'e', 'E']) {
        found.push(format!("{text}.0"));
    } else if text.contains('.') && !text.contains(['e', 'E']) {
        found.push(format!("{text}0"));
    }
    let whole = text.strip_suffix(".0").unwrap_or(text);
    let digits = whole.trim_end_matches('0');
    let zeros = whole.len() - digits.len();
    if zeros > 1 && !digits.is_empty() && !whole.contains(['.', 'e', 'E']) {
        found.push(format!("{digits}e{zeros}"));
        found.push(format!("{digits}E{zeros}"));
    }
    found
}

/// The next byte that is not white space.
fn next_byte(rest: &mut &str) -> Option<u8> {
    *rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
    rest.bytes().next()
}

fn take<'j>(rest: &mut &'j str, length: usize) -> &'j str {
    let (taken, after) = rest.split_at(length);
    *rest = after;
    taken
}

/// A string with its quotes.
fn string<'j>(rest: &mut &'j str) -> Option<&'j str> {
    let mut is_escaped = false;
    let end = rest.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    Some(take(rest, end + 2))
}

/// A string or a word of JSON, spelled in this way.
fn spelled(text: &str, strings: Strings) -> Cow<'_, str> {
    let plain = || serde_json::to_string(&serde_json::from_str::<String>(text).ok()?).ok();
    let Some(plain) = (!matches!(strings, Strings::AsTheyAre)).then(plain).flatten() else { return text.into() };
    match strings {
        Strings::AsTheyAre | Strings::Plain => plain,
        Strings::Ascii => in_ascii(&plain),
        Strings::Slashes => plain.replace('/', r"\/"),
        Strings::SlashesAscii => in_ascii(&plain.replace('/', r"\/")),
        Strings::Html => plain.replace('<', r"\u003c").replace('>', r"\u003e").replace('&', r"\u0026"),
    }
    .into()
}

fn in_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Parsed JSON is written as it was read.
        #[test]
        fn json_is_read_as_it_is(text in r#"(\[|\]|\{|\}|,|:|"[a-z\\\\"é]{0,3}"|[0-9]{1,3}|true|null| ){0,12}"#, value in any::<Vec<(String, f64)>>()) {
            let fields: serde_json::Map<String, Value> = value.into_iter().map(|(name, number)| (name, number.into())).collect();
            let whole = Value::from(vec![Value::Object(fields), Value::from(text.as_str())]);
            let node = Node::read(&whole.to_string()).map(|node| node.written((Layout::Compact, Strings::AsTheyAre)));
            prop_assert_eq!(node, Some(whole.to_string().into_bytes()));
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                let written = Node::read(&text).map(|node| node.written((Layout::Indented(" "), Strings::Plain))).expect("JSON");
                prop_assert_eq!(serde_json::from_slice::<Value>(&written).expect("JSON"), value);
            }
        }
    }

    #[test]
    fn each_rewritten_body_is_undone() {
        let body = r#"{"type":"workflow.completed","data":{"z":1,"a":"é"}}"#;
        let python = r#"{"type": "workflow.completed", "data": {"z": 1, "a": "\u00e9"}}"#;
        let indented = "{\n  \"type\": \"workflow.completed\",\n  \"data\": {\n    \"z\": 1,\n    \"a\": \"é\"\n  }\n}";
        let (compact, spaced) = ("as compact JSON", "as JSON with spaces after `,` and `:`");
        let numbers = "with numbers in another form, such as `1.0` for `1`";
        let order = "with the keys in another order";
        let slashes = "as JSON with `/` escaped";
        for (sent, taken, what) in [
            ("{}", "{}\n", "without its last newline"),
            ("{}", "{}\r\n", "without its last newline"),
            ("{}\n", "{}", "with a newline at its end"),
            ("{}\r\n", "{}", "with CR LF at its end"),
            ("{}", " {}", compact),
            ("x", " x", "without white space around it"),
            ("a\nb", "a\r\nb", "with LF instead of CR LF"),
            ("a\r\nb", "a\nb", "with CR LF instead of LF"),
            ("{}", "\u{feff}{}", "without its byte order mark"),
            (body, python, compact),
            (body, indented, compact),
            (r#"{"a":"\u00e9\ud83d\ude00"}"#, r#"{"a": "é😀"}"#, "as compact JSON in ASCII"),
            (python, body, "as JSON with spaces after `,` and `:` in ASCII"),
            (r#"{"b": [1, 2], "a": {}}"#, r#"{"b":[1,2],"a":{}}"#, spaced),
            (indented, body, "as JSON indented by 2"),
            ("{\n    \"a\": []\n}\n", r#"{"a":[]}"#, "as JSON indented by 4"),
            ("{\n\t\"a\": [\n\t\t[\n\t\t\t{}\n\t\t]\n\t]\n}", r#"{"a":[[{}]]}"#, "as JSON indented by tabs"),
            // Numbers keep their form when only the layout changes.
            (
                r#"{"a":1.50,"b":1e3,"c":12345678901234567890}"#,
                "{\n\"a\": 1.50, \"b\": 1e3, \"c\": 12345678901234567890}",
                compact,
            ),
            (r#"{"a":1.0,"b":7}"#, r#"{"a":1,"b":7}"#, numbers),
            (r#"{"a": 1.0, "b": [2, 3.50]}"#, r#"{"a":1,"b":[2,3.5]}"#, numbers),
            (r#"{"a":1e3}"#, r#"{"a":1000}"#, numbers),
            (r#"{"a":1,"b":2000}"#, r#"{"a":1.0,"b":2000.0}"#, numbers),
            (r#"{"a":"https:\/\/a.example\/"}"#, r#"{"a":"https://a.example/"}"#, slashes),
            (r#"{"a":"\/ \u00e9"}"#, r#"{"a":"/ é"}"#, slashes),
            (r#"{"a":"/"}"#, r#"{"a":"\/"}"#, compact),
            (r#"{"a":"\u003cb\u003e \u0026"}"#, r#"{"a":"<b> &"}"#, "as JSON with `<`, `>` and `&` escaped"),
            (r#"{"a":"<"}"#, r#"{"a":"\u003c"}"#, compact),
            (body, &STANDARD.encode(body), "decoded from base64"),
            (body, &serde_json::to_string(body).unwrap(), "that is the content of this JSON string"),
            ("{}", r#"{"type":"Buffer","data":[123,125]}"#, "whose bytes are listed here"),
            ("{\"a\":\"é\n'\"}", r#"b'{"a":"\xc3\xa9\n\'"}'"#, "without Python's `b'…'` around it"),
            (r#"{"a":"é"}"#, r#"{"a":"Ã©"}"#, "before it was decoded as Latin-1"),
            (r#"{"a":"’"}"#, r#"{"a":"â€™"}"#, "before it was decoded as Latin-1"),
            (r#"{"a":{"b":1,"c":2},"d":3}"#, r#"{"d":3,"a":{"c":2,"b":1}}"#, "with sorted keys"),
            (
                r#"{"id":1,"type":2,"created_at":3,"data":{"b":5,"a":4}}"#,
                r#"{"created_at":3,"data":{"a":4,"b":5},"id":1,"type":2}"#,
                order,
            ),
            (
                r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":{"y":1,"x":2}}"#,
                r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":{"x":2,"y":1}}"#,
                order,
            ),
        ] {
            let found = rewrites(taken.as_bytes()).find(|(_, body)| body == sent.as_bytes());
            assert_eq!(found.map(|(what, _)| what), Some(what), "{taken} to {sent}");
        }
        let forms = ["0", "15", "10", "200", "200.0", "1.500", "1.5e3"].map(|text| number_forms(text).join(" "));
        let expected =
            ["0 0.0", "15 15.0", "10 10.0", "200 200.0 2e2 2E2", "200.0 200 2e2 2E2", "1.500 1.5000", "1.5e3"];
        assert_eq!(forms, expected);
        // Every other order of four keys, without spaces and with them; none if the keys are not sorted.
        let orders = |body: &[u8]| rewrites(body).filter(|(what, _)| *what == order).count();
        assert_eq!([orders(br#"{"a":1,"b":2,"c":3,"d":4}"#), orders(br#"{"b":1,"a":2,"c":3}"#)], [2 * 23, 0]);
        let latin = rewrites(b"{\"a\":\"\xe9\"}").find(|(what, _)| *what == "in UTF-8, not Latin-1").expect("a body").1;
        assert_eq!(latin, "{\"a\":\"é\"}".as_bytes());
        assert!(rewrites(b"\xff\x00").all(|(what, _)| !what.contains("JSON")));
    }

    /// However large or strange a body is, the effort is bounded.
    #[test]
    fn guesses_are_bounded() {
        let commonest: Vec<_> = REWRITES[..COMMONEST].iter().map(|(what, _)| *what).collect();
        let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
        let fields: Vec<String> = (10..17).map(|at| format!(r#""k{at}":{{"a":1,"b":2,"c":1000}}"#)).collect();
        for body in [
            list("1000", 1_000),
            list(r#"{"a":1,"b":2,"c":3}"#, 20_000),
            list("\"é\"", 200_000),
            format!("{{{}}}", fields.join(",")),
            "[".repeat(100_000),
            String::new(),
        ] {
            let guessed = rewrites(body.as_bytes()).filter(|(what, _)| !commonest.contains(what));
            let (count, bytes) = guessed.fold((0, 0), |(count, bytes), (_, found)| (count + 1, bytes + found.len()));
            assert!(count <= 5 * MAX_GUESSES, "{count}");
            assert!(bytes <= MAX_GUESSED_BYTES, "{bytes}");
        }
        let numbers = list("1000", 1_000);
        let received = Received { bytes: numbers.as_bytes(), text: None, json: Node::read(&numbers) };
        assert!(received.guessed(Node::numbers).map(|body| body.len()).sum::<usize>() <= MAX_GUESSED_BYTES);
        // The commonest are tried whatever the size, and nothing else is.
        let large = [b" ", &*vec![b'x'; MAX_GUESSED_BYTES + 1], b"\n"].concat();
        let tried: Vec<_> = rewrites(&large).map(|(what, _)| what).collect();
        assert_eq!(tried, ["without its last newline", "with a newline at its end"]);
    }

    #[test]
    fn a_lost_body_is_named() {
        for (body, says) in [
            ("", "the body is empty"),
            ("{}\n", "the body is empty"),
            ("undefined", "the body is empty"),
            ("[object Object]", "JavaScript"),
            ("<Buffer 7b 7d>", "Buffer"),
            ("{'id': 'evt_1'}", "Python"),
            ("map[id:evt_1]", "Go"),
            ("{\"a\":\"\u{fffd}\"}", "bytes were lost"),
        ] {
            assert!(lost_body(body.as_bytes()).is_some_and(|found| found.contains(says)), "{body}");
        }
        for body in [&br#"{"id":"evt_1"}"#[..], b"\xff\xfe", b"[1]"] {
            assert_eq!(lost_body(body), None);
        }
    }
}
