//! The actions of a rule: replies, patches, delays and faults, and the draw of a delay.
//!
//! Knows nothing of sockets: a fault is a description that the service carries out.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use rand::{Rng, RngExt};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::contract::error::ErrorKind;

#[derive(Clone, Debug)]
pub enum Action {
    Pass,
    /// A scripted answer instead of the ordinary one; the request changes nothing.
    Reply(Arc<ScriptedReply>),
    /// The ordinary answer, its JSON body changed.
    Patch(Arc<Patch>),
    Fault(Fault),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedReply {
    /// A contract error, with the status, code and headers that belong to it.
    pub error: Option<ErrorKind>,
    pub status: Option<u16>,
    /// `error.code` of the answer.
    pub code: Option<String>,
    /// `error.message` of the answer.
    pub message: Option<String>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Instead of the error envelope.
    pub body: Option<ReplyBody>,
    pub quota: Option<ScriptedQuota>,
    /// True if `message` and `body` may hold templates.
    pub templates: bool,
}

/// Values for the quota headers of one answer, instead of the key's own quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptedQuota {
    pub remaining: Option<u32>,
    /// Time until the quota is full again, and on a 429 until the next request is allowed.
    pub reset: Option<Duration>,
}

impl Action {
    /// True if it starts from the ordinary answer, which a path without an endpoint does not have.
    pub fn is_ordinary(&self) -> bool {
        matches!(self, Self::Pass | Self::Patch(_))
    }
}

impl ScriptedReply {
    /// The status: the error's own unless another is given.
    pub fn status(&self) -> u16 {
        self.status.or_else(|| self.error.map(ErrorKind::status)).unwrap_or(500)
    }

    /// True if the answer has the error envelope: no body was given, but an error, a code, a message, or the status of an error.
    pub fn has_envelope(&self) -> bool {
        let is_error = || ErrorKind::from_status(self.status()).is_some();
        self.body.is_none() && (self.error.is_some() || self.code.is_some() || self.message.is_some() || is_error())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum ReplyBody {
    /// Sent as JSON: the value, and the bytes that it is sent as.
    Json(Value, Bytes),
    /// UTF-8, sent as it is, `text/plain` unless a header names another type.
    Text(Bytes),
}

impl ReplyBody {
    pub fn json(value: Value) -> Self {
        let bytes = serde_json::to_vec(&value).expect("JSON values always serialise");
        Self::Json(value, bytes.into())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// A merge patch (RFC 7396), without the nulls that TOML cannot write. May hold templates.
    pub merge: Map<String, Value>,
    /// JSON pointers (RFC 6901) of the values to delete, after the merge.
    pub remove: Vec<String>,
}

impl Patch {
    /// The body with the changes; `None` if it is not JSON.
    pub fn applied(&self, body: &[u8]) -> Option<Vec<u8>> {
        let fields = Fields::of(std::str::from_utf8(body).ok()?)?;
        let mut patched = Vec::with_capacity(body.len() + 64);
        serde_json::to_writer(&mut patched, &Merged { fields, patch: &self.merge }).ok()?;
        if self.remove.is_empty() {
            return Some(patched);
        }
        let mut body = serde_json::from_slice(&patched).ok()?;
        for pointer in &self.remove {
            remove(&mut body, pointer);
        }
        serde_json::to_vec(&body).ok()
    }
}

/// The fields of an object in JSON text, in order, their values unread.
#[derive(Default)]
struct Fields<'t>(Vec<(Cow<'t, str>, &'t RawValue)>);

impl<'t> Fields<'t> {
    /// The fields of this text, none if it is a value other than an object; `None` if it is not JSON.
    fn of(text: &'t str) -> Option<Self> {
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).ok();
        }
        serde_json::from_str::<IgnoredAny>(text).ok().map(|_| Self::default())
    }
}

impl<'t> Deserialize<'t> for Fields<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'t> Visitor<'t> for FieldsVisitor {
    type Value = Fields<'t>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut object: A) -> Result<Fields<'t>, A::Error> {
        #[derive(Deserialize)]
        struct Name<'t>(#[serde(borrow)] Cow<'t, str>);
        let mut fields = Vec::new();
        while let Some((Name(name), value)) = object.next_entry()? {
            fields.push((name, value));
        }
        Ok(Fields(fields))
    }
}

/// An object with a merge patch applied. Values that the patch does not name are copied as text: reading and writing them costs a
/// request a tenth of its instructions.
struct Merged<'t, 'p> {
    fields: Fields<'t>,
    patch: &'p Map<String, Value>,
}

impl Serialize for Merged<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut merged = serializer.serialize_map(None)?;
        let mut known = Vec::new();
        for (name, value) in &self.fields.0 {
            let Some(change) = self.patch.get(&**name) else {
                merged.serialize_entry(name, value)?;
                continue;
            };
            known.push(&**name);
            match change {
                Value::Null => {}
                Value::Object(patch) => {
                    let fields = Fields::of(value.get()).unwrap_or_default();
                    merged.serialize_entry(name, &Merged { fields, patch })?;
                }
                other => merged.serialize_entry(name, other)?,
            }
        }
        // Sorted, as both sides may have tens of thousands of fields.
        known.sort_unstable();
        for (name, change) in self.patch {
            match change {
                _ if change.is_null() || known.binary_search(&name.as_str()).is_ok() => {}
                Value::Object(patch) => {
                    merged.serialize_entry(name, &Merged { fields: Fields::default(), patch })?;
                }
                other => merged.serialize_entry(name, other)?,
            }
        }
        merged.end()
    }
}

fn remove(body: &mut Value, pointer: &str) {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    let last = last.replace("~1", "/").replace("~0", "~");
    match body.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.shift_remove(&last)),
        Some(Value::Array(values)) => {
            if let Some(at) = last.parse().ok().filter(|at: &usize| *at < values.len()) {
                values.remove(at);
            }
        }
        _ => {}
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Reset,
    /// The connection is closed in order, without a byte.
    Empty,
    /// The answer's head and the first bytes of its body, then the end.
    Truncate {
        /// Body bytes sent; half of the body when absent.
        bytes: Option<u64>,
    },
    Garbage {
        bytes: u64,
    },
    /// The answer's head and the first bytes of its body, then silence, then the end.
    Stall {
        /// Body bytes sent; 0 sends the head only.
        bytes: u64,
        /// How long the silence lasts; until the client leaves when absent.
        duration: Option<Duration>,
    },
    Drip {
        bytes: u64,
        interval: Duration,
    },
}

impl Fault {
    pub const NAMES: [&'static str; 6] = ["reset", "empty", "truncate", "garbage", "stall", "drip"];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Empty => "empty",
            Self::Truncate { .. } => "truncate",
            Self::Garbage { .. } => "garbage",
            Self::Stall { .. } => "stall",
            Self::Drip { .. } => "drip",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    Fixed(Duration),
    Range {
        min: Duration,
        max: Duration,
    },
    /// Log-normal, as response times are: half below the median, one in a hundred above `p99`.
    LogNormal {
        median: Duration,
        p99: Duration,
    },
}

impl Delay {
    /// Draws one delay, in whole milliseconds unless it is fixed. A log-normal draw is at most ten times its `p99`.
    pub fn draw(&self, random: &mut impl Rng) -> Duration {
        match *self {
            Self::Fixed(delay) => delay,
            Self::Range { min, max } => {
                let (low, high) = (millis(min), millis(max).max(millis(min)));
                Duration::from_millis(random.random_range(low..=high))
            }
            Self::LogNormal { median, p99 } => {
                // The 99th percentile of the standard normal distribution.
                const Z99: f64 = 2.326_347_874;
                let (middle, high) = (median.as_secs_f64().max(1e-9), p99.max(median).as_secs_f64().max(1e-9));
                let sigma = (high / middle).ln() / Z99;
                // Box and Muller: two uniform draws make one normal draw. The first is kept off zero for the logarithm.
                let (first, second): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
                let normal = (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos();
                let seconds = (middle * (sigma * normal).exp()).clamp(0.0, high * 10.0);
                Duration::from_millis(millis(Duration::try_from_secs_f64(seconds).unwrap_or(p99)))
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("the ordinary answer"),
            Self::Reply(reply) => match (&reply.code, reply.error) {
                (Some(code), _) => write!(f, "reply {} {}", reply.status(), code.escape_debug()),
                (None, Some(kind)) => write!(f, "reply {} {}", reply.status(), kind.name()),
                (None, None) => write!(f, "reply {}", reply.status()),
            },
            Self::Patch(_) => f.write_str("the ordinary answer, patched"),
            Self::Fault(fault) => write!(f, "fault {}", fault.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::Seed;

    #[test]
    fn patches_merge_and_remove_and_keep_the_rest_as_it_was_written() {
        let body = r#"{"ok":true,"checks":{"database":{"status":"ok"}},"list":[1,2]}"#;
        for (body, merge, remove, expected) in [
            (
                body,
                json!({"checks": {"database": {"status": "fail"}}}),
                &["/ok", "/list/0"][..],
                Some(r#"{"checks":{"database":{"status":"fail"}},"list":[2]}"#),
            ),
            (body, json!({"ok": null, "new": {"a": null, "b": 1}}), &["/checks", "/list"], Some(r#"{"new":{"b":1}}"#)),
            (
                body,
                json!({"list": {"a": 1}}),
                &["/checks/database", "/nowhere/x", "/list/9", "x"],
                Some(r#"{"ok":true,"checks":{},"list":{"a":1}}"#),
            ),
            (r#" {"b" : 1.0e1, "\u0061":2} "#, json!({"a": 3}), &[], Some(r#"{"b":1.0e1,"a":3}"#)),
            (
                r#"{"a":12345678901234567890123}"#,
                json!({"\"": 1}),
                &[],
                Some(r#"{"a":12345678901234567890123,"\"":1}"#),
            ),
            ("[1]", json!({"a": 1}), &[], Some(r#"{"a":1}"#)),
            (r#"{"a":[1]}"#, json!({"a": {"b": null, "c": {"d": null}}}), &[], Some(r#"{"a":{"c":{}}}"#)),
            ("", json!({"a": 1}), &[], None),
            ("{} {}", json!({"a": 1}), &[], None),
        ] {
            let merge = merge.as_object().cloned().expect("an object");
            let patch = Patch { merge, remove: remove.iter().map(|&pointer| pointer.to_owned()).collect() };
            let patched = patch.applied(body.as_bytes()).map(|body| String::from_utf8_lossy(&body).into_owned());
            assert_eq!(patched.as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn delays_keep_to_their_shape() {
        let mut random = Seed::from_number(7).source("delays");
        let ms = Duration::from_millis;
        let range = Delay::Range { min: ms(10), max: ms(20) };
        assert!((0..1_000).all(|_| (ms(10)..=ms(20)).contains(&range.draw(&mut random))));
        let shape = Delay::LogNormal { median: ms(100), p99: ms(1_000) };
        let mut draws: Vec<_> = (0..10_000).map(|_| shape.draw(&mut random)).collect();
        draws.sort();
        assert!((ms(93)..ms(107)).contains(&draws[5_000]), "{:?}", draws[5_000]);
        assert!((ms(800)..ms(1_200)).contains(&draws[9_900]), "{:?}", draws[9_900]);
        assert!(draws[9_999] <= ms(10_000));
        let zero = Delay::LogNormal { median: Duration::ZERO, p99: Duration::ZERO };
        assert_eq!(zero.draw(&mut random), Duration::ZERO);
    }
}
