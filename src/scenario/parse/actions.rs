//! What a rule or a sequence step does: text to checked replies, patches, delays, faults and sequences.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use serde_json::Map;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Parser;
use super::advice::{STRING, nearest_hint};
use super::reader::{Place, shown};
use super::words;
use crate::contract::error::ErrorKind;
use crate::scenario::action::{Action, Delay, Fault, Patch, ReplyBody, ScriptedReply};
use crate::scenario::rule::{Sequence, Then};

/// Headers that belong to the message's framing; a scripted value would break the connection, which is what faults are for.
const FRAMING: [&str; 5] = ["content-length", "transfer-encoding", "connection", "upgrade", "trailer"];
/// Headers with which the emulator names its own answers; a script must not forge them.
const OWN_PREFIX: &str = "x-emulator-";

impl Parser<'_> {
    /// What a `[[rule]]` does, whose keys were checked already.
    pub(super) fn rule_actions(&mut self, table: &DeTable<'_>, span: std::ops::Range<usize>) -> Option<Sequence> {
        if let (Some((then, _)), None) = (table.get_key_value("then"), table.get("sequence")) {
            let message = "`then` needs a `sequence`";
            self.problems.error(
                "scenario/clash",
                then.span(),
                message,
                "add `sequence`, or use `next` for a story's step",
            );
        }
        let Some(steps) = table.get("sequence") else {
            let only = ["reply", "fault", "pass", "patch"];
            // Both are read before either is given up, so that the problems of each are reported.
            let (action, delay) = (self.action(table, &only), self.delay(table));
            let action = action?;
            // An unknown key was reported already, and is most likely the one that is missing.
            let is_known = table.keys().all(|key| words::RULE.has(key.get_ref()));
            if action.is_none() && !is_known {
                return None;
            }
            if action.is_none() && !table.contains_key("delay") && !table.contains_key("next") {
                let hint = "add reply, patch, remove, delay, fault, sequence, or pass = true";
                return self.problems.refuse("scenario/missing-key", span, "the rule does not say what it does", hint);
            }
            return Some(Sequence::always(delay, action.unwrap_or(Action::Pass)));
        };
        let excluded = ["sequence", "reply", "patch", "remove", "fault", "pass", "delay"];
        self.problems.only_one(table, &excluded, "each step of the sequence says what it does");
        let then = match self.problems.choice(table, &words::RULE, "then") {
            Some("stay") => Then::Stay,
            Some("repeat") => Then::Repeat,
            _ => Then::End,
        };
        let tables = self.problems.tables("sequence", steps, &words::STEP);
        let mut checked = Vec::new();
        for (span, step) in &tables {
            checked.extend(self.step(step, span.clone()));
        }
        if steps.get_ref().as_array().is_some_and(|steps| steps.is_empty()) {
            let hint = "for example sequence = [{ error = \"rate_limit_exceeded\", times = 2 }, { pass = true }]";
            self.problems.error("scenario/missing-key", steps.span(), "`sequence` has no steps", hint);
        }
        (!checked.is_empty()).then(|| Sequence::of(checked, then))
    }

    fn step(&mut self, table: &DeTable<'_>, span: std::ops::Range<usize>) -> Option<(u64, Option<Delay>, Action)> {
        let times = self.problems.number(table, &words::STEP, "times").unwrap_or(1);
        let written_out = words::REPLY.keys().map(|key| key.name).find(|key| table.contains_key(*key));
        let action = match written_out {
            Some(first) => {
                let others = [first, "reply", "fault", "pass", "patch", "remove"];
                self.problems.only_one(table, &others, "the step's answer is written out already");
                self.reply(table, span.clone()).map(|reply| Some(Action::Reply(Arc::new(reply))))
            }
            None => self.action(table, &["reply", "fault", "pass", "patch"]),
        };
        let delay = self.delay(table);
        let action = action?;
        if action.is_none() && !table.keys().all(|key| words::STEP.has(key.get_ref())) {
            return None;
        }
        if action.is_none() && !table.contains_key("delay") {
            let hint = "say { pass = true } for the ordinary answer";
            return self.problems.refuse("scenario/missing-key", span, "the step does not say what happens", hint);
        }
        Some((times, delay, action.unwrap_or(Action::Pass)))
    }

    /// The one action among the keys; `Some(None)` if there is none, `None` if it is wrong.
    #[allow(clippy::option_option, reason = "nothing said and something wrong are different things here")]
    fn action(&mut self, table: &DeTable<'_>, keys: &[&'static str; 4]) -> Option<Option<Action>> {
        // `patch` and `remove` belong together; `remove` alone takes the place of `patch`.
        let keys = if table.contains_key("patch") { *keys } else { [keys[0], keys[1], keys[2], "remove"] };
        let Some(first) = self.problems.only_one(table, &keys, "a request has one answer") else { return Some(None) };
        let value = table.get(first)?;
        Some(Some(match first {
            "reply" => {
                let reply = self.problems.table("reply", value, &words::REPLY)?;
                Action::Reply(Arc::new(self.reply(reply, value.span())?))
            }
            "fault" => Action::Fault(self.fault(value)?),
            "pass" => {
                if self.problems.flag(table, "pass")? {
                    Action::Pass
                } else {
                    let hint = "leave `pass` out, or say `pass = true`";
                    return self.problems.refuse("scenario/bad-value", value.span(), "`pass` can only be true", hint);
                }
            }
            _ => Action::Patch(Arc::new(self.patch(table)?)),
        }))
    }

    fn reply(&mut self, table: &DeTable<'_>, span: std::ops::Range<usize>) -> Option<ScriptedReply> {
        let error = self.error_kind(table);
        let status = self.problems.number(table, &words::REPLY, "status").and_then(|status| u16::try_from(status).ok());
        let code = self.problems.filled_text(table, "code").map(str::to_owned);
        let message = self.problems.text(table, "message").map(str::to_owned);
        self.problems.check_body(["message", "body"].into_iter().filter_map(|key| table.get(key)));
        let headers = self.headers(table);
        let body = table.get("body").and_then(|body| {
            for key in ["code", "message"] {
                if let Some((key, _)) = table.get_key_value(key) {
                    let why =
                        format!("`{}` would not be seen: `body` takes the place of the error envelope", key.get_ref());
                    self.problems.error(
                        "scenario/clash",
                        key.span(),
                        why,
                        "write the whole answer in `body`, or drop it",
                    );
                }
            }
            Some(match body.get_ref() {
                DeValue::String(text) => ReplyBody::Text(text.to_string()),
                _ => ReplyBody::json(self.problems.json(body)?),
            })
        });
        let Some(status) = status.or_else(|| error.map(ErrorKind::status)) else {
            // An unknown key was reported already, and is most likely the one that is missing.
            if table.keys().all(|key| words::STEP.has(key.get_ref()))
                && !table.contains_key("status")
                && !table.contains_key("error")
            {
                let hint = "for example error = \"unauthorized\", or status = 422";
                self.problems.error("scenario/missing-key", span, "the reply needs an `error` or a `status`", hint);
            }
            return None;
        };
        if let (Some(error), Some(given), 200..400) = (error, table.get("status"), status) {
            let message = format!(
                "the error `{}` is sent with status {status}, which clients do not take for an error",
                error.name()
            );
            let hint = format!("leave `status` out to send {}, or leave `error` out", error.status());
            self.problems.warning("scenario/error-status", given.span(), message, hint);
        }
        if matches!(status, 204 | 304)
            && ["body", "code", "message", "error"].iter().any(|key| table.contains_key(*key))
        {
            let span = table.get("status").map_or(span, Spanned::span);
            let message = format!("an answer with status {status} has no body");
            self.problems.error("scenario/clash", span, message, "drop the body, or choose another status");
        }
        Some(ScriptedReply { error, status, code, message, headers, body })
    }

    fn error_kind(&mut self, table: &DeTable<'_>) -> Option<ErrorKind> {
        let name = self.problems.text(table, "error")?;
        let kind = ErrorKind::from_name(name);
        if kind.is_none() {
            let known = ErrorKind::ALL.map(ErrorKind::name);
            let span = table.get("error").map_or(0..0, Spanned::span);
            let message = format!("unknown error `{}`", shown(name));
            self.problems.error("scenario/unknown-error", span, message, nearest_hint(name, &known));
        }
        kind
    }

    fn headers(&mut self, table: &DeTable<'_>) -> Vec<(HeaderName, HeaderValue)> {
        let Some(value) = table.get("headers") else { return Vec::new() };
        let Some(named) = self.problems.any_table("headers", "a table of names and strings", value) else {
            return Vec::new();
        };
        let mut headers = Vec::new();
        for (key, value) in named {
            let Ok(name) = HeaderName::from_bytes(key.get_ref().as_bytes()) else {
                let message = format!("`{}` is not a valid header name", shown(key.get_ref()));
                self.problems.error("scenario/bad-value", key.span(), message, "for example Retry-After = \"5\"");
                continue;
            };
            if FRAMING.contains(&name.as_str()) || name.as_str().starts_with(OWN_PREFIX) {
                let message = format!("the header `{name}` cannot be scripted");
                let hint = "to break the connection, use `fault`";
                self.problems.error("scenario/bad-value", key.span(), message, hint);
                continue;
            }
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.to_string(),
                _ => {
                    self.problems.wrong_type(name.as_str(), STRING, value);
                    continue;
                }
            };
            if text.contains("{{") || text.contains("{%") {
                let message = "templates are not rendered in headers";
                self.problems.error("scenario/bad-template", value.span(), message, "use them in `body` or `message`");
                continue;
            }
            if let Ok(text) = HeaderValue::from_str(&text) {
                headers.push((name, text));
            } else {
                let message = format!("the value of the header `{name}` holds characters that no header may hold");
                self.problems.error("scenario/bad-value", value.span(), message, "use visible ASCII characters");
            }
        }
        headers
    }

    fn patch(&mut self, table: &DeTable<'_>) -> Option<Patch> {
        let merge = match table.get("patch") {
            None => Map::new(),
            Some(value) => {
                self.problems.check_body([value]);
                let fields = self.problems.any_table("patch", "a table of fields", value)?;
                self.problems.json_map(fields)?
            }
        };
        let mut remove = Vec::new();
        if let Some(value) = table.get("remove") {
            let entries: Vec<Place<'_, '_>> = match value.get_ref() {
                DeValue::Array(entries) => entries.iter().collect(),
                _ => vec![value],
            };
            for entry in entries {
                match entry.get_ref().as_str() {
                    Some(pointer) if pointer.starts_with('/') => remove.push(pointer.to_owned()),
                    Some(pointer) => {
                        let message = format!("expected a JSON pointer, found \"{}\"", shown(pointer));
                        let hint =
                            format!("write \"/{}\": a pointer begins with a slash", shown(&pointer.replace('.', "/")));
                        self.problems.error("scenario/bad-pointer", entry.span(), message, hint);
                    }
                    None => self.problems.wrong_type("remove", "an array of JSON pointers", entry),
                }
            }
        }
        if merge.is_empty() && remove.is_empty() && !self.problems.has_errors() {
            let span = table.get("patch").or_else(|| table.get("remove")).map_or(0..0, Spanned::span);
            self.problems.warning("scenario/no-effect", span, "the patch changes nothing", "name a field to change");
        }
        Some(Patch { merge, remove })
    }

    /// The `delay` of a rule, step or emission.
    pub(super) fn delay(&mut self, table: &DeTable<'_>) -> Option<Delay> {
        let value = table.get("delay")?;
        let DeValue::Table(spread) = value.get_ref() else {
            return self.problems.duration_of("delay", value).map(Delay::Fixed);
        };
        self.problems.check_keys(spread, &words::DELAY);
        let pairs = [("min", "max"), ("median", "p99")];
        let whole = pairs.into_iter().find(|(low, high)| spread.contains_key(*low) && spread.contains_key(*high));
        let Some((low_key, high_key)) = whole else {
            let hint = "{ min = \"100ms\", max = \"2s\" } or { median = \"100ms\", p99 = \"2s\" }";
            let message = "a spread delay needs `min` and `max`, or `median` and `p99`";
            return self.problems.refuse("scenario/missing-key", value.span(), message, hint);
        };
        for (key, _) in spread.iter().filter(|(key, _)| {
            words::DELAY.has(key.get_ref()) && **key.get_ref() != *low_key && **key.get_ref() != *high_key
        }) {
            let message = format!("`{}` excludes `{low_key}` and `{high_key}`", key.get_ref());
            self.problems.error("scenario/clash", key.span(), message, "keep one pair");
        }
        let (low, high) = (self.problems.duration(spread, low_key), self.problems.duration(spread, high_key));
        let (low, high) = (low?, high?);
        if low > high {
            let message = format!("`{low_key}` is longer than `{high_key}`");
            self.problems.error("scenario/bad-value", value.span(), message, "swap the two");
        }
        Some(match low_key {
            "min" => Delay::Range { min: low, max: high },
            _ => Delay::LogNormal { median: low, p99: high },
        })
    }

    fn fault(&mut self, value: Place<'_, '_>) -> Option<Fault> {
        let empty = DeTable::new();
        let (kind, table, span) = match value.get_ref() {
            DeValue::String(kind) => (kind.as_ref(), &empty, value.span()),
            DeValue::Table(table) => {
                self.problems.check_keys(table, &words::FAULT);
                let Some(kind) = table.get("kind") else {
                    let hint = "for example { kind = \"truncate\", bytes = 20 }";
                    return self.problems.refuse("scenario/missing-key", value.span(), "`fault` needs a `kind`", hint);
                };
                (self.problems.text(table, "kind")?, table, kind.span())
            }
            _ => {
                self.problems.wrong_type("fault", "a name, or a table with `kind`", value);
                return None;
            }
        };
        let takes: &[&str] = match kind {
            "reset" | "empty" => &[],
            "truncate" | "garbage" => &["bytes"],
            "stall" => &["bytes", "duration"],
            "drip" => &["bytes", "interval"],
            _ => {
                let message = format!("unknown fault `{}`", shown(kind));
                return self.problems.refuse("scenario/bad-value", span, message, nearest_hint(kind, &Fault::NAMES));
            }
        };
        for key in ["bytes", "duration", "interval"] {
            if let Some((other, _)) = table.get_key_value(key).filter(|_| !takes.contains(&key)) {
                let message = format!("the fault `{kind}` takes no `{key}`");
                self.problems.error("scenario/clash", other.span(), message, "drop it");
            }
        }
        let low = u64::from(matches!(kind, "garbage" | "drip"));
        let bytes = self.problems.number_within(table, "bytes", low, words::MOST_BYTES);
        Some(match kind {
            "reset" => Fault::Reset,
            "empty" => Fault::Empty,
            "truncate" => Fault::Truncate { bytes },
            "garbage" => Fault::Garbage { bytes: bytes.unwrap_or(64) },
            "stall" => Fault::Stall { bytes: bytes.unwrap_or(0), duration: self.problems.duration(table, "duration") },
            _ => Fault::Drip {
                bytes: bytes.unwrap_or(1),
                interval: self.problems.duration(table, "interval").unwrap_or(Duration::from_millis(100)),
            },
        })
    }
}
