//! Replies, patches, delays and faults, from text to checked values.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use toml::Spanned;
use toml::de::DeValue;

use super::keys::{KeyReader, TableKind, described};
use super::kinds::{ANYTHING, HEADERS, KEEP_ONE, KeyRule, POINTERS, STATUS, TableKeys, ValueKind as Kind, any_of};
use super::reader::{Parser, Table};
use crate::contract::error::ErrorKind;
use crate::contract::headers::is_unscriptable;
use crate::scenario::action::{Action, Delay, Fault, Patch, ReplyBody, ScriptedQuota, ScriptedReply};
use crate::util::wording::quoted;

/// Maximum body bytes that a fault names.
const MAX_BYTES: u64 = 1 << 20;

/// The action for a request: a reply, or changes of the ordinary answer.
pub(super) struct RuleEffect {
    reply: Option<ScriptedReply>,
    patch: Option<Map<String, Value>>,
    remove: Vec<String>,
    pub(super) delay: Option<Delay>,
    fault: Option<Fault>,
    pass: bool,
}

/// A request has one answer; `patch` and `remove` belong together.
pub(super) const ONE_ANSWER: [KeyRule; 3] = [
    KeyRule::Excludes(&["reply"], &["fault", "pass", "patch", "remove"], "a request has one answer", KEEP_ONE),
    KeyRule::Excludes(&["fault"], &["pass", "patch", "remove"], "a request has one answer", KEEP_ONE),
    KeyRule::Excludes(&["pass"], &["patch", "remove"], "a request has one answer", KEEP_ONE),
];

/// The keys that rules and steps share.
pub(super) fn outcome(keys: &mut KeyReader<'_, '_>) -> RuleEffect {
    RuleEffect {
        reply: keys.table("reply", "the answer to give instead of the ordinary one"),
        patch: keys.fields("patch", "fields merged into the ordinary answer's JSON body (RFC 7396)"),
        remove: keys
            .optional(
                "remove",
                POINTERS,
                "JSON pointers of the values to delete from the ordinary answer's body",
                |parser, table, key| Some(parser.pointers(table, key)),
            )
            .unwrap_or_default(),
        delay: keys.delay("delay", "how long the answer is delayed"),
        fault: keys.optional(
            "fault",
            Kind::NameOr(fault_names, TableKeys::of::<Fault>),
            "something that goes wrong on the connection",
            Parser::fault,
        ),
        pass: keys
            .optional(
                "pass",
                Kind::True,
                "true: the ordinary answer, and no later rule applies, except to a path that no endpoint has",
                |_, table, key| table.flag(key),
            )
            .unwrap_or_default(),
    }
}

impl TableKind for ScriptedReply {
    const DEFINITION: &'static str = "reply";
    const PLACE: &'static str = "`reply`";

    fn rules() -> Vec<KeyRule> {
        [&[KeyRule::AnyOf(&["error", "status"])], REPLY_RULES].concat()
    }

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let reply = answer(keys);
        let (parser, table) = keys.input()?;
        parser.checked_reply(table, reply)
    }
}

/// The keys of an answer, in `reply` or written out in a step.
pub(super) fn answer(keys: &mut KeyReader<'_, '_>) -> ScriptedReply {
    ScriptedReply {
        error: keys.one_of(
            "error",
            || ErrorKind::ALL.map(ErrorKind::name).to_vec(),
            "a contract error by its name, with the status, code and headers that belong to it",
            ErrorKind::from_name,
        ),
        status: keys.integer(
            "status",
            STATUS,
            "the HTTP status, 200 to 599; without a body, an error's status is sent with the error envelope",
        ),
        code: keys.name("code", "`error.code` of the answer"),
        message: keys.text("message", "`error.message` of the answer; may use templates"),
        headers: keys
            .optional("headers", HEADERS, "further headers, by name", |parser, table, key| {
                Some(parser.headers(table, key))
            })
            .unwrap_or_default(),
        body: keys.optional(
            "body",
            ANYTHING,
            "a body instead of the error envelope: a string, or a table or array sent as JSON; may use templates",
            Parser::reply_body,
        ),
        quota: keys.table("quota", "values for the quota headers, whose names and forms follow the settings"),
        templates: keys
            .flag("templates", "false: double braces in `message` and `body` are text; true if left out")
            .unwrap_or(true),
    }
}

/// The names of the keys of an answer.
pub(super) static ANSWER: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| described(answer).iter().map(|key| key.name).collect());

/// Keys of an answer that are sent as they are only with an `error` or a `status`.
pub(super) const REPLY_RULES: &[KeyRule] = &[
    KeyRule::Excludes(
        &["body"],
        &["code", "message"],
        "the body replaces the error envelope",
        "write the whole answer in `body`, or drop it",
    ),
    // Excluded together with a status.
    KeyRule::Never(|| {
        let in_body = any_of(&["body", "code", "message", "error"]);
        json!({"required": ["status"], "properties": {"status": {"enum": [204, 304]}}, "allOf": [in_body]})
    }),
    KeyRule::Never(|| json!({"required": ["status", "error"], "properties": {"status": {"maximum": 299}}})),
    KeyRule::Never(|| {
        let success = json!({"status": {"maximum": 399}});
        let of_an_error = any_of(&["code", "message"]);
        json!({"required": ["status"], "not": any_of(&["error"]), "properties": success, "allOf": [of_an_error]})
    }),
    KeyRule::Never(|| json!({"not": any_of(&["error", "status"]), "allOf": [any_of(&ANSWER)]})),
];

impl TableKind for ScriptedQuota {
    const DEFINITION: &'static str = "quota";
    const PLACE: &'static str = "`quota`";

    fn rules() -> Vec<KeyRule> {
        vec![KeyRule::Requires(&["remaining", "reset"], "for example quota = { remaining = 0, reset = \"30s\" }")]
    }

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        Some(Self {
            remaining: keys.integer(
                "remaining",
                0..=u64::from(u32::MAX),
                "requests left; the key's own if left out",
            ),
            reset: keys.duration(
                "reset",
                "time until the quota is full again, and on a 429 until the next request is allowed; the key's own if left out",
            ),
        })
    }
}

/// A delay that is a table of two durations between which it lies.
impl TableKind for Delay {
    const DEFINITION: &'static str = "delay";
    const PLACE: &'static str = "`delay`";

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let min = keys.duration("min", "the shortest delay");
        let max = keys.duration("max", "the longest delay; evenly spread between the two");
        let median = keys.duration("median", "half of the delays are shorter");
        let p99 = keys.duration("p99", "99 in 100 of the delays are shorter");

        let (parser, table) = keys.input()?;
        let pairs = [("min", "max"), ("median", "p99")];
        let Some((low, high)) = pairs.into_iter().find(|(low, high)| table.has(low) && table.has(high)) else {
            let hint = "{ min = \"100ms\", max = \"2s\" } or { median = \"100ms\", p99 = \"2s\" }";
            let message = "a spread delay needs `min` and `max`, or `median` and `p99`";
            return parser.refuse("scenario/missing-key", table.span.clone(), message, hint);
        };
        for other in ["min", "max", "median", "p99"].into_iter().filter(|key| *key != low && *key != high) {
            let message = format!("`{other}` excludes `{low}` and `{high}`");
            parser.clash(table, other, message, "keep one pair");
        }
        let delay = match low {
            "min" => Self::Range { min: min?, max: max? },
            _ => Self::LogNormal { median: median?, p99: p99? },
        };
        if let Self::Range { min: short, max: long } | Self::LogNormal { median: short, p99: long } = delay
            && short > long
        {
            let message = format!("`{low}` is longer than `{high}`");
            parser.error("scenario/bad-value", table.span.clone(), message, "swap the two");
        }
        Some(delay)
    }
}

impl TableKind for Fault {
    const DEFINITION: &'static str = "fault";
    const PLACE: &'static str = "`fault`";

    fn rules() -> Vec<KeyRule> {
        vec![
            KeyRule::Takes(
                "kind",
                &[
                    ("reset", &[]),
                    ("empty", &[]),
                    ("truncate", &["bytes"]),
                    ("garbage", &["bytes"]),
                    ("stall", &["bytes", "duration"]),
                    ("drip", &["bytes", "interval"]),
                ],
            ),
            KeyRule::Never(|| {
                let nothing = json!({"kind": {"enum": ["garbage", "drip"]}, "bytes": {"maximum": 0}});
                json!({"required": ["kind", "bytes"], "properties": nothing})
            }),
        ]
    }

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let kind = keys.required(
            "kind",
            Kind::OneOf(fault_names),
            "reset, empty, truncate, garbage, stall or drip",
            |_, table, key| table.text(key).map(str::to_owned),
        );
        let bytes = keys.integer(
            "bytes",
            0..=MAX_BYTES,
            "truncate and stall: body bytes sent first; garbage: how many; drip: how many at a time",
        );
        let duration =
            keys.duration("duration", "stall: how long the silence lasts; if left out, until the client disconnects");
        let interval = keys.duration("interval", "drip: time from one piece to the next");

        let (parser, table) = keys.input()?;
        let kind = kind?;
        if bytes == Some(0) && matches!(kind.as_str(), "garbage" | "drip") {
            let message = format!("`bytes` must be from 1 to {MAX_BYTES}, found 0");
            parser.error("scenario/bad-value", table.span_of("bytes"), message, table.meaning("bytes"));
        }
        Some(fault(&kind, bytes, duration, interval))
    }
}

fn fault_names() -> Vec<&'static str> {
    Fault::NAMES.to_vec()
}

/// The fault of one of these names.
fn fault(kind: &str, bytes: Option<u64>, duration: Option<Duration>, interval: Option<Duration>) -> Fault {
    match kind {
        "reset" => Fault::Reset,
        "empty" => Fault::Empty,
        "truncate" => Fault::Truncate { bytes },
        "garbage" => Fault::Garbage { bytes: bytes.unwrap_or(64) },
        "stall" => Fault::Stall { bytes: bytes.unwrap_or(0), duration },
        "drip" => Fault::Drip { bytes: bytes.unwrap_or(1), interval: interval.unwrap_or(Duration::from_millis(100)) },
        _ => unreachable!("the key accepts only `Fault::NAMES`"),
    }
}

impl KeyReader<'_, '_> {
    /// A delay: a duration, or a table of two between which it lies.
    pub(super) fn delay(&mut self, name: &'static str, meaning: &'static str) -> Option<Delay> {
        self.optional(name, Kind::Delay(TableKeys::of::<Delay>), meaning, |parser, table, key| {
            match table.duration(key) {
                Some(delay) => Some(Delay::Fixed(delay)),
                None => parser.table_at(table, key),
            }
        })
    }
}

impl Parser<'_> {
    /// The fault at a key: its name, or a table.
    fn fault(&mut self, table: &Table<'_, '_>, key: &'static str) -> Option<Fault> {
        match table.text(key) {
            Some(kind) => Some(fault(kind, None, None, None)),
            None => self.table_at(table, key),
        }
    }

    fn reply_body(&mut self, table: &Table<'_, '_>, key: &'static str) -> Option<ReplyBody> {
        let body = table.get(key)?;
        Some(match body.get_ref() {
            DeValue::String(text) => ReplyBody::Text(text.to_string().into()),
            _ => ReplyBody::json(self.json(body)?),
        })
    }

    /// The action and the delay of a rule or step, if it has them; `None` if the action is wrong.
    pub(super) fn delayed_action(
        &mut self,
        table: &Table<'_, '_>,
        outcome: RuleEffect,
    ) -> Option<(Option<Action>, Option<Delay>)> {
        let RuleEffect { reply, patch, remove, delay, fault, pass } = outcome;
        let Some(key) = table.first_of(&["reply", "fault", "pass", "patch", "remove"]) else {
            return (!table.has_unknown_key()).then_some((None, delay));
        };
        let action = match key {
            "reply" => Action::Reply(Arc::new(reply?)),
            "fault" => Action::Fault(fault?),
            "pass" => pass.then_some(Action::Pass)?,
            _ => {
                let merge = if table.has("patch") { patch? } else { Map::new() };
                if merge.is_empty() && remove.is_empty() && !self.has_errors() {
                    self.warning(
                        "scenario/no-effect",
                        table.span_of(key),
                        "the patch changes nothing",
                        "name a field to change",
                    );
                }
                Action::Patch(Arc::new(Patch { merge, remove }))
            }
        };
        Some((Some(action), delay))
    }

    /// The reply, if it has contents.
    pub(super) fn checked_reply(&mut self, table: &Table<'_, '_>, reply: ScriptedReply) -> Option<ScriptedReply> {
        if reply.templates {
            self.check_templates(table, &["message", "body"]);
        }
        let error = reply.error;
        let Some(status) = reply.status.or_else(|| error.map(ErrorKind::status)) else {
            if !table.has_unknown_key() && !table.has("status") && !table.has("error") {
                let hint = "for example error = \"unauthorized\", or status = 422";
                let message = "the reply needs an `error` or a `status`";
                self.error("scenario/missing-key", table.span.clone(), message, hint);
            }
            return None;
        };
        if let (Some(error), true, 200..400) = (error, table.has("status"), status) {
            let name = error.name();
            let message =
                format!("the error `{name}` is sent with status {status}, which clients do not see as an error");
            let hint = format!("leave `status` out to send {}, or leave `error` out", error.status());
            // An error in a redirect may be meant.
            if status < 300 {
                self.error("scenario/error-status", table.span_of("status"), message, hint);
            } else {
                self.warning("scenario/error-status", table.span_of("status"), message, hint);
            }
        }
        if error.is_none() && (200..400).contains(&status) && !matches!(status, 204 | 205 | 304) {
            let parts = [reply.message.is_some().then_some("message"), reply.code.is_some().then_some("code")];
            for key in parts.into_iter().flatten() {
                let why =
                    format!("`{key}` is part of an error, but the status is {status}, which clients see as a success");
                let hint = "choose a status of 400 or more, or write the whole answer in `body`";
                self.error("scenario/error-status", table.span_of(key), why, hint);
            }
        }
        if matches!(status, 204 | 205 | 304) && ["body", "code", "message", "error"].iter().any(|key| table.has(key)) {
            let message = format!("an answer with status {status} has no body");
            let hint = "drop the body, or choose another status";
            self.error("scenario/clash", table.span_of("status"), message, hint);
        }
        self.warn_of_quota_never_sent(table, &reply);
        self.warn_of_other_status(table, &reply);
        Some(reply)
    }

    fn headers(&mut self, table: &Table<'_, '_>, key: &'static str) -> Vec<(HeaderName, HeaderValue)> {
        let fields = table.fields_at(key).into_iter().flatten();
        fields.filter_map(|(name, value)| self.header(name, value)).collect()
    }

    fn header(
        &mut self,
        key: &Spanned<Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<(HeaderName, HeaderValue)> {
        let Ok(name) = HeaderName::from_bytes(key.get_ref().as_bytes()) else {
            let message = format!("`{}` is not a valid header name", quoted(key.get_ref()));
            return self.refuse("scenario/bad-value", key.span(), message, "for example Retry-After = \"5\"");
        };
        if is_unscriptable(&name) {
            let message = format!("the header `{name}` cannot be set by a scenario");
            let hint = "to break the connection, use `fault`";
            return self.refuse("scenario/bad-value", key.span(), message, hint);
        }
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            _ => {
                self.wrong_type(name.as_str(), "a string", value, "");
                return None;
            }
        };
        if text.contains("{{") || text.contains("{%") {
            let message = "templates are not rendered in headers";
            let hint = "use them in `body` or `message`";
            return self.refuse("scenario/bad-template", value.span(), message, hint);
        }
        let Ok(text) = HeaderValue::from_str(&text) else {
            let message = format!("the value of the header `{name}` holds characters that no header may hold");
            return self.refuse("scenario/bad-value", value.span(), message, "use visible ASCII characters");
        };
        Some((name, text))
    }

    /// JSON pointers, one or several.
    fn pointers(&mut self, table: &Table<'_, '_>, key: &'static str) -> Vec<String> {
        let mut pointers = Vec::new();
        for (span, pointer) in self.texts(table, key, "an array of JSON pointers") {
            if pointer.starts_with('/') {
                pointers.push(pointer.to_owned());
                continue;
            }
            let message = format!("expected a JSON pointer, found \"{}\"", quoted(pointer));
            let right = quoted(&pointer.replace('.', "/"));
            let hint = format!("write \"/{right}\": a pointer begins with a slash");
            self.error("scenario/bad-pointer", span, message, hint);
        }
        pointers
    }
}
