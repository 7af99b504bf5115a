//! What a client saw in one run: the answers to its requests and the deliveries to its receivers, and the text of both without
//! what differs from run to run.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

#[derive(Clone, Debug, Default)]
pub struct Record {
    pub exchanges: Vec<Exchange>,
    /// Those that were attempted, in the order in which they were made.
    pub delivered: Vec<Delivered>,
    pub frozen: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Exchange {
    pub id: String,
    pub key: Option<String>,
    pub method: String,
    pub target: String,
    pub body: String,
    pub status: u16,
    pub headers: Vec<String>,
    pub answer: String,
}

#[derive(Clone, Debug, Default)]
pub struct Delivered {
    pub id: String,
    pub event: String,
    pub event_type: String,
    pub subscription: String,
    /// When it was first attempted, in a form that sorts by time.
    pub first_at: String,
    pub body: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    Message,
    Code,
    /// In the names and order of the keys of objects.
    Keys,
    Header,
    Id,
    Time,
    Status,
    Copies,
    /// In the order of events.
    Order,
}

/// What shows in a run, as texts that two runs have in common unless something changed.
pub(super) type Features = BTreeSet<String>;

impl Exchange {
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.method, self.target)
    }

    /// The request without what differs from run to run.
    pub(super) fn shape(&self) -> String {
        shape(&format!("{}\n{}", self.title(), self.body))
    }

    /// What the answer shows of one aspect.
    pub(super) fn features(&self, aspect: Aspect) -> Features {
        match aspect {
            Aspect::Header => self.headers.iter().map(|name| name.to_ascii_lowercase()).collect(),
            Aspect::Status => Features::from([format!("{} {}", self.shape(), self.status)]),
            Aspect::Copies | Aspect::Order => Features::new(),
            Aspect::Message | Aspect::Code | Aspect::Keys | Aspect::Id | Aspect::Time => of_body(&self.answer, aspect),
        }
    }
}

impl Delivered {
    /// What the event shows of one aspect.
    pub(super) fn features(&self, aspect: Aspect) -> Features {
        if matches!(aspect, Aspect::Keys | Aspect::Id | Aspect::Time) {
            of_body(&self.body, aspect)
        } else {
            Features::new()
        }
    }
}

impl Record {
    /// What the whole run shows of one aspect.
    pub(super) fn features(&self, aspect: Aspect) -> Features {
        let answers = self.exchanges.iter().flat_map(|exchange| exchange.features(aspect));
        let mut found: Features = answers.chain(self.delivered.iter().flat_map(|one| one.features(aspect))).collect();
        found.extend(self.unusual(aspect).next().map(|_| "an unusual delivery".to_owned()));
        found
    }

    /// Deliveries of an event that came before, or that overtook another, if that is the aspect.
    pub(super) fn unusual(&self, aspect: Aspect) -> impl Iterator<Item = &Delivered> {
        let is_unusual = move |one: &Delivered, later: &Delivered| match aspect {
            Aspect::Copies => one.event == later.event,
            Aspect::Order => one.event != later.event && one.first_at > later.first_at,
            _ => false,
        };
        self.delivered.iter().enumerate().filter_map(move |(at, later)| {
            let mut earlier = self.delivered[..at].iter();
            earlier.any(|one| one.subscription == later.subscription && is_unusual(one, later)).then_some(later)
        })
    }
}

fn of_body(body: &str, aspect: Aspect) -> Features {
    let mut found = Features::new();
    match aspect {
        Aspect::Id | Aspect::Time => found.extend(pieces(body).filter_map(|piece| match (piece, aspect) {
            (Piece::Id(_, rest), Aspect::Id) => Some(rest.len().to_string()),
            (Piece::Time(time), Aspect::Time) => Some(time.len().to_string()),
            _ => None,
        })),
        _ => {
            let Ok(value) = serde_json::from_str::<Value>(body) else { return found };
            let text = |name| value["error"][name].as_str().map(shape);
            match aspect {
                Aspect::Message => found.extend(text("message")),
                Aspect::Code => found.extend(text("code")),
                _ => add_keys(&value, &mut found),
            }
        }
    }
    found
}

/// Adds the keys of each object, in their order.
fn add_keys(value: &Value, found: &mut Features) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| add_keys(value, found)),
        Value::Object(fields) => {
            found.insert(fields.keys().map(String::as_str).collect::<Vec<_>>().join(","));
            fields.values().for_each(|value| add_keys(value, found));
        }
        _ => {}
    }
}

const PREFIXES: [&str; 7] = ["sub_", "evt_", "req_", "wf_", "ref_", "usr_", "dlv_"];
/// Words of at least this many characters with a digit in them count as random, and numbers of at least `LONG_NUMBER` as ports or
/// times.
const LONG_WORD: usize = 16;
const LONG_NUMBER: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'t> {
    Id(&'static str, &'t str),
    Time(&'t str),
    /// A word drawn by chance, or a large number.
    Drawn,
    Plain(&'t str),
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let taken = match time_length(rest) {
            Some(length) => (length, Piece::Time(&rest[..length])),
            None if word == 0 => {
                let length = rest.find(is_word).unwrap_or(rest.len());
                (length, Piece::Plain(&rest[..length]))
            }
            None => (word, classified(&rest[..word])),
        };
        rest = &rest[taken.0..];
        Some(taken.1)
    })
}

fn classified(word: &str) -> Piece<'_> {
    let id = PREFIXES.into_iter().find_map(|prefix| Some((prefix, word.strip_prefix(prefix)?)));
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    match id {
        Some((prefix, rest)) if !rest.is_empty() => Piece::Id(prefix, rest),
        _ if digits == word.len() && digits >= LONG_NUMBER => Piece::Drawn,
        _ if digits > 0 && word.len() >= LONG_WORD => Piece::Drawn,
        _ => Piece::Plain(word),
    }
}

/// The length of the timestamp that a text begins with, such as `2026-01-31T09:30:00.000Z`.
fn time_length(text: &str) -> Option<usize> {
    const PATTERN: &[u8] = b"0000-00-00T00:00:00";
    let matches = |(at, pattern): (usize, &u8)| match (text.as_bytes().get(at), pattern) {
        (Some(byte), b'0') => byte.is_ascii_digit(),
        (byte, pattern) => byte == Some(pattern),
    };
    if !PATTERN.iter().enumerate().all(matches) {
        return None;
    }
    let rest = &text[PATTERN.len()..];
    let end = rest.find(|c: char| !matches!(c, '0'..='9' | '.' | ':' | '+' | 'Z')).unwrap_or(rest.len());
    Some(PATTERN.len() + end)
}

/// The text with each id, timestamp and drawn word replaced.
pub(super) fn shape(text: &str) -> String {
    let shown = |piece| match piece {
        Piece::Id(prefix, _) => Cow::Owned(format!("{prefix}…")),
        Piece::Time(_) => "TIME".into(),
        Piece::Drawn => "…".into(),
        Piece::Plain(text) => Cow::Borrowed(text),
    };
    pieces(text).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, answer: &str) -> Exchange {
        Exchange { method: "GET".into(), target: "/a".into(), status, answer: answer.into(), ..Exchange::default() }
    }

    #[test]
    fn each_aspect_shows_its_own_change_and_nothing_else() {
        const AT: &str = "2026-01-31T09:30:00";
        let error = |code: &str, message: &str| {
            format!("{{\"error\":{{\"code\":\"{code}\",\"message\":\"{message}\",\"request_id\":\"req_1\"}}}}")
        };
        for (one, other, aspect, differs) in [
            (error("a", "b"), error("a", "c"), Aspect::Message, true),
            (error("a", "b"), error("a", "c"), Aspect::Code, false),
            (error("a", "b"), error("x", "b"), Aspect::Code, true),
            (error("a", "b 12345"), error("a", "b 23456"), Aspect::Message, false),
            ("{\"a\":1,\"b\":2}".into(), "{\"b\":2,\"a\":1}".into(), Aspect::Keys, true),
            ("[{\"a\":1}]".into(), "[{\"a\":2}]".into(), Aspect::Keys, false),
            ("{\"id\":\"sub_123\"}".into(), "{\"id\":\"sub_456\"}".into(), Aspect::Id, false),
            ("{\"id\":\"sub_123\"}".into(), "{\"id\":\"sub_1234\"}".into(), Aspect::Id, true),
            (format!("\"{AT}.123Z\""), format!("\"{AT}.456Z\""), Aspect::Time, false),
            (format!("\"{AT}.123Z\""), format!("\"{AT}Z\""), Aspect::Time, true),
        ] {
            let [before, after] = [&one, &other].map(|text| answered(200, text).features(aspect));
            assert_eq!(before != after, differs, "{aspect:?}: {one} {other}");
        }
        assert_ne!(answered(400, "").features(Aspect::Status), answered(422, "").features(Aspect::Status));
    }

    #[test]
    fn events_are_seen_twice_and_overtaken() {
        let delivered = |event: &str, first_at: &str| Delivered {
            event: event.into(),
            first_at: first_at.into(),
            ..Delivered::default()
        };
        for (delivered, copies, order) in [
            (vec![delivered("a", "1"), delivered("b", "2")], 0, 0),
            (vec![delivered("a", "1"), delivered("a", "2")], 1, 0),
            (vec![delivered("a", "2"), delivered("b", "1")], 0, 1),
        ] {
            let record = Record { delivered, ..Record::default() };
            assert_eq!(record.features(Aspect::Copies).len(), copies);
            assert_eq!(record.features(Aspect::Order).len(), order);
        }
    }

    #[test]
    fn what_differs_from_run_to_run_is_replaced() {
        for (text, expected) in [
            ("", ""),
            ("/v1/workflows/wf_01k9/cancel", "/v1/workflows/wf_…/cancel"),
            ("wf_a-b_c9,", "wf_…,"),
            ("http://127.0.0.1:54321/hooks?limit=10", "http://127.0.0.1:…/hooks?limit=10"),
            ("{\"at\":\"2026-01-31T09:30:00.123Z\"}", "{\"at\":\"TIME\"}"),
            ("2026-01-31T09:30:00Z", "TIME"),
            ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "…"),
            ("workflow.completed", "workflow.completed"),
            ("a-word-without-any-digit", "a-word-without-any-digit"),
            ("sub_", "sub_"),
            ("Grüße 世界", "Grüße 世界"),
        ] {
            assert_eq!(shape(text), expected, "{text}");
        }
    }
}
