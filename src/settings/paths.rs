//! Settings by their dotted paths: which setting a path leads to, what a parsed text sets, and the value at a path.

use std::ops::Range;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::sections::SETTINGS;
use crate::contract::nearest;
use crate::contract::setting::{Setting, path_of};
use crate::util::wording::{counted, quoted, shorten};

/// Maximum number of problems reported at once; what follows is most likely the same mistake.
pub(super) const MAX_PROBLEMS: usize = 20;
/// Longest message or hint, in characters: it may quote what the user wrote.
const MAX_MESSAGE: usize = 600;

/// A setting that could not be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileProblem {
    pub code: &'static str,
    /// Byte range in the text that was read; empty at 0 for a single assignment.
    pub span: Range<usize>,
    pub message: String,
    pub hint: String,
    /// Where the setting comes from, as listings name it.
    pub source: Arc<str>,
    /// The assignment as it was written; empty if the setting came from elsewhere.
    pub written: Box<str>,
}

impl ProfileProblem {
    pub(super) fn new(code: &'static str, span: Range<usize>, message: String, hint: String) -> Self {
        let [message, hint] = [message, hint].map(|text| shorten(&text, MAX_MESSAGE).into_owned());
        Self { code, span, message, hint, source: Arc::default(), written: Box::default() }
    }
}

/// The first problems. The last of them says how many more there are, with those that were only counted.
pub(super) fn first_problems(mut problems: Vec<ProfileProblem>, counted_only: usize) -> Vec<ProfileProblem> {
    let more = problems.len().saturating_sub(MAX_PROBLEMS) + counted_only;
    problems.truncate(MAX_PROBLEMS);
    if let Some(last) = problems.last_mut().filter(|_| more > 0) {
        let hint = std::mem::take(&mut last.hint);
        let more = format!("and {}", counted(more, "more problem"));
        last.hint = if hint.is_empty() { more } else { format!("{hint}; {more}") };
    }
    problems
}

/// A dotted path in its plain form, if it names a setting or something below one that holds a table.
pub(super) fn setting_path(path: &str) -> Result<String, ProfileProblem> {
    let (setting, below) = locate(path)?;
    let names = below.iter().map(|key| key_text(key));
    Ok(std::iter::once(setting.path.clone()).chain(names).collect::<Vec<_>>().join("."))
}

pub(super) fn setting_at(path: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.path == path)
}

/// A key as it is written in TOML.
pub(super) fn key_text(key: &str) -> String {
    let is_bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    if is_bare { key.to_owned() } else { Value::from(key).to_string() }
}

/// The path of an entry of a setting that holds a table. A JSON string is a TOML key.
pub(super) fn entry_path(setting: &str, entry: &str) -> String {
    format!("{setting}.{}", serde_json::Value::from(entry))
}

/// The setting that a path leads to, and what of the path lies below it.
pub(super) fn locate(path: &str) -> Result<(&'static Setting, Vec<String>), ProfileProblem> {
    let problem = |code, (message, hint): (String, String)| ProfileProblem::new(code, 0..0, message, hint);
    let Some(keys) = dotted(path) else {
        let message = format!("`{}` is not a path of names joined by dots", quoted(path));
        let hint = "for example `rate_limit.requests`, and `rate_limit.requests=5` where it is set";
        return Err(problem("profile/syntax", (message, hint.to_owned())));
    };
    match owner(&keys) {
        Some((setting, below)) => Ok((setting, below.to_vec())),
        None => Err(problem("profile/unknown-setting", unknown(path))),
    }
}

fn dotted(path: &str) -> Option<Vec<String>> {
    if path.is_empty() || path.contains(['\n', '\r', '#']) {
        return None;
    }
    let table: Table = toml::from_str(&format!("{path} = 0")).ok()?;
    let mut keys = Vec::new();
    let mut place = &table;
    loop {
        let (key, value) = place.iter().next()?;
        keys.push(key.clone());
        match value {
            Value::Table(inner) => place = inner,
            _ => return Some(keys),
        }
    }
}

/// The setting that a path names or lies below, with the rest of the path.
fn owner(keys: &[String]) -> Option<(&'static Setting, &[String])> {
    (1..=keys.len()).find_map(|length| {
        let path = keys[..length].join(".");
        let setting = setting_at(&path)?;
        // Only settings that hold a table have anything below them.
        let is_there = length == keys.len() || setting.default.is_object();
        is_there.then_some((setting, &keys[length..]))
    })
}

/// The settings in a text, and its first problems.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) values: Vec<(&'static Setting, Spanned<Value>)>,
    pub(super) problems: Vec<ProfileProblem>,
    /// How many further problems there are.
    pub(super) more: usize,
}

/// Walks a table down to the settings; any path that is neither a setting nor a prefix of one is a problem.
pub(super) fn collect(table: &DeTable<'_>, above: &str, collected: &mut Collected) {
    for (key, value) in table {
        let path = path_of(above, key.get_ref());
        if let Some(setting) = setting_at(&path) {
            collected.values.push((setting, Spanned::new(value.span(), without_spans(value.get_ref()))));
            continue;
        }
        let mut inside = below(&path).peekable();
        match (inside.peek().is_some(), value.get_ref()) {
            (true, DeValue::Table(inner)) => collect(inner, &path, collected),
            // Looking for the intended name is slow, and a text may have thousands of wrong ones.
            _ if collected.problems.len() == MAX_PROBLEMS => collected.more += 1,
            (true, other) => {
                let names = inside.map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
                let message = format!("`{path}` is a table of settings, found {}", other.type_str());
                let hint = format!("settings in it: {names}");
                collected.problems.push(ProfileProblem::new("profile/bad-value", value.span(), message, hint));
            }
            (false, _) => {
                let (message, hint) = unknown(&path);
                collected.problems.push(ProfileProblem::new("profile/unknown-setting", key.span(), message, hint));
            }
        }
    }
}

fn unknown(path: &str) -> (String, String) {
    const ALL: &str = "`wrs-emulator assumptions` lists every setting";
    let inside: Vec<&str> = below(path).collect();
    if let [first, ..] = inside.as_slice() {
        let hint = format!("name one of those in it, such as `{first}`: {}; {ALL}", some_of(&inside));
        return (format!("`{}` is a group of settings, not a setting", quoted(path)), hint);
    }
    if path == "profile" {
        let hint = "a profile begins with its settings: leave `[profile]` out, and write `[rate_limit]` for `[profile.rate_limit]`";
        return ("a profile has no table `profile`".to_owned(), hint.to_owned());
    }
    if let Some((group, name)) = path.rsplit_once('.')
        && let inside = below(group).collect::<Vec<_>>()
        && !inside.is_empty()
    {
        // The group, which they share, would make any of its names look similar.
        let meant = nearest(name, inside.iter().map(|path| &path[group.len() + 1..]));
        let hint = match meant {
            Some(name) => format!("did you mean `{group}.{name}`? {ALL}"),
            None => format!("`{group}` has {}; {ALL}", some_of(&inside)),
        };
        return (format!("unknown setting `{}`", quoted(path)), hint);
    }
    let groups =
        SETTINGS.iter().flat_map(|setting| setting.path.match_indices('.').map(|(end, _)| &setting.path[..end]));
    let names = || groups.clone().chain(SETTINGS.iter().map(|setting| setting.path.as_str()));
    let hint = match nearest(path, names()) {
        Some(name) => format!("did you mean `{name}`? {ALL}"),
        None => ALL.to_owned(),
    };
    (format!("unknown setting `{}`", quoted(path)), hint)
}

/// The first few names.
fn some_of(names: &[&str]) -> String {
    const MAX_NAMES: usize = 5;
    let more = if names.len() > MAX_NAMES { ", …" } else { "" };
    format!("{}{more}", names.iter().take(MAX_NAMES).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
}

pub(super) fn below(group: &str) -> impl Iterator<Item = &'static str> {
    SETTINGS
        .iter()
        .map(|setting| setting.path.as_str())
        .filter(move |path| path.strip_prefix(group).is_some_and(|rest| rest.starts_with('.')))
}

pub(super) fn value_at<'t>(table: &'t Table, path: &str) -> Option<&'t Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    match (table.get(first)?, rest) {
        (value, None) => Some(value),
        (Value::Table(inner), Some(rest)) => value_at(inner, rest),
        _ => None,
    }
}

/// The value at a dotted path as JSON; null when there is none.
pub(super) fn json_at(table: &Table, path: &str) -> serde_json::Value {
    value_at(table, path).and_then(|value| serde_json::to_value(value).ok()).unwrap_or(serde_json::Value::Null)
}

fn without_spans(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::String(number.to_string()), Value::Integer),
        DeValue::Float(number) => {
            number.as_str().parse().map_or_else(|_| Value::String(number.to_string()), Value::Float)
        }
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(value) => Value::Datetime(*value),
        DeValue::Array(values) => Value::Array(values.iter().map(|value| without_spans(value.get_ref())).collect()),
        DeValue::Table(table) => Value::Table(
            table.iter().map(|(key, value)| (key.get_ref().to_string(), without_spans(value.get_ref()))).collect(),
        ),
    }
}
