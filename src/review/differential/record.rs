//! What a client saw in one run: the answers to its requests, and the deliveries to its receivers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::shape::{Piece, pieces, shape};

/// One run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Oldest first.
    pub exchanges: Vec<Exchange>,
    /// Those that were attempted, in the order in which they were made.
    pub delivered: Vec<Delivered>,
    /// Whether a clock was frozen.
    pub frozen: bool,
}

/// A request and its answer.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// The request's id.
    pub id: String,
    /// Whose: a key, or nobody's.
    pub key: Option<String>,
    /// The method.
    pub method: String,
    /// The path with the query.
    pub target: String,
    /// What it sent.
    pub body: String,
    /// 0 for a broken connection.
    pub status: u16,
    /// Names of headers of the answer.
    pub headers: Vec<String>,
    /// The answer.
    pub answer: String,
}

/// A delivery that was attempted.
#[derive(Clone, Debug, Default)]
pub struct Delivered {
    /// The delivery's id.
    pub id: String,
    /// The event's id.
    pub event: String,
    /// The event's type.
    pub event_type: String,
    /// The subscription's id.
    pub subscription: String,
    /// When it was first attempted, in a form that sorts by time.
    pub first_at: String,
    /// The event as it was sent.
    pub body: String,
}

/// Where a change shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// In `error.message`.
    Message,
    /// In `error.code`.
    Code,
    /// In the names and order of the keys of objects.
    Keys,
    /// In names of headers.
    Header,
    /// In what follows the prefix of an id.
    Id,
    /// In the fraction of a timestamp.
    Time,
    /// In the status.
    Status,
    /// In how often an event comes.
    Copies,
    /// In the order of events.
    Order,
}

/// What shows in a run, as texts that two runs have in common unless something changed.
pub(super) type Features = BTreeSet<String>;

impl Exchange {
    /// The request in a few words.
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
}
