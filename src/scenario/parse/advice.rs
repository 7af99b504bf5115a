//! What was most likely meant by a key or value that the language does not take, for the hints of diagnostics.
//!
//! Knows the tables of keys in `words`, and nothing of where in a file something is.

use toml::de::DeValue;

use super::words::{self, Words};
use crate::contract::error::ErrorKind;
use crate::contract::nearest;
use crate::profile::setting_group;
use crate::wording::any_of;

/// What a key expects, as messages name it.
pub(super) const STRING: &str = "a string";
pub(super) const INTEGER: &str = "an integer";
pub(super) const BOOLEAN: &str = "a boolean";
pub(super) const NUMBER: &str = "a number";

/// "did you mean", or the whole list.
pub(super) fn nearest_hint(typed: &str, names: &[&str]) -> String {
    // A longer word for the same thing ends with it: `connection_reset`.
    let ends_with = |name: &&&str| name.len() > 3 && typed.to_ascii_lowercase().ends_with(**name);
    let near = nearest(typed, names.iter().copied());
    match near.or_else(|| names.iter().find(ends_with).copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            format!("known: {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
        }
    }
}

/// What other tools call the things that have a key here.
const OTHER_WORDS: [(&str, &str); 17] = [
    ("rules", "rule"),
    ("emits", "emit"),
    ("response", "reply"),
    ("respond", "reply"),
    ("answer", "reply"),
    ("request", "when"),
    ("match", "when"),
    ("if", "when"),
    ("headers", "header"),
    ("steps", "sequence"),
    ("count", "times"),
    ("limit", "times"),
    ("after", "skip"),
    ("url", "path"),
    ("name", "title"),
    ("webhook", "emit"),
    ("type", "event"),
];

/// Keys that mean something else in some tables than in others, and what to write there.
const MEANT_IN: &[(&[&str], &[Words], &str)] = &[
    (&["on", "when", "if"], &[words::NEXT], "did you mean `status`?"),
    (
        &["if_status", "on_status", "when_status", "expect_status"],
        &[words::RULE, words::WHEN, words::STEP],
        "to wait for an answer with this status, write next = { step = \"subscribed\", status = 201 } in the rule",
    ),
];

/// What to write in place of an unknown key.
pub(super) fn hint_for_key(name: &str, words: &Words) -> String {
    let known: Vec<&str> = words.keys().map(|key| key.name).collect();
    if let Some((_, meant)) = OTHER_WORDS.iter().find(|(other, meant)| *other == name && words.has(meant)) {
        return format!("did you mean `{meant}`?");
    }
    let meant_here = |(names, tables, _): &&(&[&str], &[Words], &str)| {
        names.contains(&name) && tables.iter().any(|table| table.place == words.place)
    };
    if let Some((_, _, hint)) = MEANT_IN.iter().find(meant_here) {
        return (*hint).to_owned();
    }
    // Written beside the tables that it belongs in, or in the other one.
    let tables = [words::WHEN, words::REPLY];
    if words.has("when") || words.place == words::FILE.place || tables.iter().any(|table| table.place == words.place) {
        let places: Vec<&str> = tables.iter().filter(|table| table.has(name)).map(|table| table.place).collect();
        if !places.is_empty() {
            return format!("`{name}` belongs in {}", any_of(&places));
        }
    }
    if let Some(group) = setting_group(name) {
        return format!("`{group}` belongs in `[profile]`, for as long as the scenario is active");
    }
    match words::ALL.iter().find(|other| other.has(name)) {
        Some(other) if other.place == words::GIVEN.place => format!("write `[[given.{name}]]`"),
        Some(other) => format!("`{name}` belongs in {}", other.place),
        None => nearest_hint(name, &known),
    }
}

/// The same value in the form that the key takes, where it is known what was meant.
pub(super) fn right_form(key: &str, expected: &str, found: &DeValue<'_>) -> Option<String> {
    let is_bare = |text: &str| match expected {
        INTEGER => text.parse::<i64>().is_ok(),
        NUMBER => text.parse().is_ok_and(f64::is_finite),
        BOOLEAN => matches!(text, "true" | "false"),
        _ => false,
    };
    Some(match (key, found) {
        ("step" | "next", DeValue::Integer(_)) => {
            "a step is a name of your choice, such as \"subscribed\"; a story begins at \"start\"".to_owned()
        }
        ("error", DeValue::Integer(status)) => {
            let name = ErrorKind::ALL.into_iter().find(|kind| number(status) == Some(kind.status()));
            let name = name.unwrap_or(ErrorKind::RateLimitExceeded).name();
            format!("write the error's name, error = \"{name}\", or status = {status}")
        }
        ("reply", DeValue::Integer(status)) => format!("write reply = {{ status = {status} }}"),
        ("reply", DeValue::String(text)) if text.parse::<u16>().is_ok() => {
            format!("write reply = {{ status = {text} }}")
        }
        ("reply", DeValue::String(text)) if ErrorKind::from_name(text).is_some() => {
            format!("write reply = {{ error = \"{text}\" }}")
        }
        ("reply", _) => "for example reply = { error = \"unauthorized\" }, or reply = { status = 422 }".to_owned(),
        (_, DeValue::String(text)) if is_bare(text) => format!("write it without quotes: {key} = {text}"),
        (_, DeValue::Integer(number)) if expected == STRING => format!("write it in quotes: {key} = \"{number}\""),
        (_, DeValue::Float(number)) if expected == STRING => format!("write it in quotes: {key} = \"{number}\""),
        (_, DeValue::Boolean(flag)) if expected == STRING => format!("write it in quotes: {key} = \"{flag}\""),
        _ => return None,
    })
}

fn number(integer: &toml::de::DeInteger<'_>) -> Option<u16> {
    u16::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// What a key means, as a hint; nothing for a key that means different things in different places.
pub(super) fn meaning(key: &str) -> String {
    if key == "sequence" {
        let steps = "each step is a table: { status = 429 } or { error = \"unauthorized\" } for a scripted answer, { pass = true }";
        return format!("{steps} for the ordinary one");
    }
    let mut meanings =
        words::ALL.iter().flat_map(Words::keys).filter(|known| known.name == key).map(|known| known.meaning);
    match meanings.next() {
        Some(first) if meanings.all(|other| other == first) => format!("`{key}`: {first}"),
        _ => String::new(),
    }
}
