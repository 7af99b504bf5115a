//! Layering: built-in defaults, then a user's file, single assignments and a scenario's overlay, each checked knob by knob.
//!
//! Every problem of a layer is reported, with its place in the text where there is one; a layer with a problem changes
//! nothing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use serde::Serialize;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::{DEFAULT_TEXT, KNOBS, Knob, Profile, plain};

/// A profile with the raw values and the origin of each knob.
#[derive(Clone, Debug)]
pub struct Layered {
    profile: Arc<Profile>,
    table: Arc<Table>,
    sources: BTreeMap<&'static str, Arc<str>>,
}

/// The knobs of a text and their values, read once; each with its place in the text.
#[derive(Clone, Debug)]
pub struct Settings(Vec<(&'static Knob, Value, Range<usize>)>);

impl Settings {
    /// Whether both set the same knobs to the same values, wherever in their texts.
    pub fn same_values(&self, other: &Self) -> bool {
        let set = |settings: &Self| -> BTreeMap<&'static str, String> {
            settings.0.iter().map(|(knob, value, _)| (knob.path, value.to_string())).collect()
        };
        set(self) == set(other)
    }
}

/// A knob that could not be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileProblem {
    /// Stable code: `profile/syntax`, `profile/unknown-knob` or `profile/bad-value`.
    pub code: &'static str,
    /// Byte range in the text that was read; empty at 0 for a single assignment.
    pub span: Range<usize>,
    /// What is wrong, without a final period.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// One knob as listings show it.
#[derive(Clone, Debug, Serialize)]
pub struct KnobSetting {
    /// The knob's path.
    pub knob: &'static str,
    /// The value in force.
    pub value: serde_json::Value,
    /// Where it comes from.
    pub source: String,
}

static DEFAULT: LazyLock<Layered> = LazyLock::new(|| {
    let table: Table = toml::from_str(DEFAULT_TEXT).expect("the built-in profile is valid TOML, which a test shows");
    let profile = Profile::deserialize_from(&table).expect("the built-in profile fits its type, which a test shows");
    Layered { profile: Arc::new(profile), table: Arc::new(table), sources: BTreeMap::new() }
});

impl Default for Layered {
    fn default() -> Self {
        DEFAULT.clone()
    }
}

impl Profile {
    fn deserialize_from(table: &Table) -> Result<Self, toml::de::Error> {
        serde::Deserialize::deserialize(Value::Table(table.clone()))
    }
}

impl Layered {
    /// The typed profile.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// The raw values, whole.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Where the value of a knob comes from; `default` when no layer set it.
    pub fn source(&self, path: &str) -> &str {
        self.sources.get(path).map_or("default", |source| source)
    }

    /// Every knob with its value and origin.
    pub fn settings(&self) -> Vec<KnobSetting> {
        KNOBS
            .iter()
            .map(|knob| KnobSetting {
                knob: knob.path,
                value: json_at(&self.table, knob.path),
                source: self.source(knob.path).to_owned(),
            })
            .collect()
    }

    /// This profile with the knobs of a TOML text on top; `source` names the text in listings.
    pub fn with_text(&self, text: &str, source: &str) -> Result<Self, Vec<ProfileProblem>> {
        let (table, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            return Err(errors
                .iter()
                .map(|error| {
                    let (span, message) = plain::syntax_problem(text, error);
                    let hint = "the file must be TOML; `wrs-emulator assumptions` lists every knob".to_owned();
                    ProfileProblem { code: "profile/syntax", span, message, hint }
                })
                .collect());
        }
        self.with_table(table.get_ref(), source).map(|(next, _)| next)
    }

    /// This profile with the knobs of a parsed table on top, as in a scenario's `[profile]`, and those settings by themselves.
    pub fn with_table(&self, overlay: &DeTable<'_>, source: &str) -> Result<(Self, Settings), Vec<ProfileProblem>> {
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        collect(overlay, "", &mut found, &mut problems);
        let alone = |(knob, value): (&'static Knob, &Spanned<DeValue<'_>>)| {
            (knob, without_spans(value.get_ref()), value.span())
        };
        let settings = Settings(found.into_iter().map(alone).collect());
        match self.with_settings(&settings, source) {
            Ok(next) if problems.is_empty() => Ok((next, settings)),
            other => {
                problems.extend(other.err().unwrap_or_default());
                problems.sort_by_key(|problem| problem.span.start);
                Err(problems)
            }
        }
    }

    /// This profile with these settings on top.
    pub fn with_settings(&self, settings: &Settings, source: &str) -> Result<Self, Vec<ProfileProblem>> {
        let (mut table, mut sources) = ((*self.table).clone(), self.sources.clone());
        for (knob, value, _) in &settings.0 {
            put(&mut table, knob, value.clone(), true);
            sources.insert(knob.path, Arc::from(source));
        }
        // Checked once, as each check reads the whole profile; one by one only to find what is wrong.
        if let Ok(next) = Self::checked(table, sources) {
            return Ok(next);
        }
        let (mut next, mut problems) = (self.clone(), Vec::new());
        for (knob, value, span) in &settings.0 {
            match next.set_whole(knob, value.clone(), source, true) {
                Ok(changed) => next = changed,
                Err(message) => problems.push(bad_value(knob, span.clone(), &message)),
            }
        }
        if problems.is_empty() { Ok(next) } else { Err(problems) }
    }

    /// This profile with one assignment `path=value` on top. The value is TOML; what is no TOML is a plain string.
    pub fn with_assignment(&self, assignment: &str, source: &str) -> Result<Self, ProfileProblem> {
        let problem = |code, message: String, hint: String| ProfileProblem { code, span: 0..0, message, hint };
        let Some((path, text)) = assignment.split_once('=') else {
            let message = format!("expected `path=value`, found `{}`", assignment.escape_debug());
            return Err(problem("profile/syntax", message, "for example `--set rate_limit.requests=5`".to_owned()));
        };
        let text = text.trim();
        let (knob, below) = locate(path.trim())?;
        let as_string = Value::String(text.to_owned());
        let as_toml = toml::from_str::<Table>(&format!("value = {text}"))
            .ok()
            .filter(|table| table.len() == 1)
            .and_then(|mut table| table.remove("value"));
        let nested = |value: Value| if below.is_empty() { value } else { self.edited(knob, &below, value) };
        let first =
            self.set_whole(knob, nested(as_toml.unwrap_or_else(|| as_string.clone())), source, below.is_empty());
        first
            .or_else(|message| self.set_whole(knob, nested(as_string), source, below.is_empty()).map_err(|_| message))
            .map_err(|message| bad_value(knob, 0..0, &message))
    }

    /// This profile with one typed value on top; `path` is a knob, or a path below one that holds a table.
    pub fn with_value(&self, path: &str, value: &serde_json::Value, source: &str) -> Result<Self, ProfileProblem> {
        let (knob, below) = locate(path)?;
        let wrong = |message: &str| bad_value(knob, 0..0, message);
        let value = Value::try_from(value).map_err(|_| wrong("null has no place inside a value"))?;
        let whole = if below.is_empty() { value } else { self.edited(knob, &below, value) };
        self.set_whole(knob, whole, source, below.is_empty()).map_err(|message| wrong(&message))
    }

    /// The knob's present value with one entry below it changed.
    fn edited(&self, knob: &Knob, below: &[String], value: Value) -> Value {
        let mut whole = value_at(&self.table, knob.path).cloned().unwrap_or_else(|| Value::Table(Table::new()));
        let mut place = &mut whole;
        for key in below {
            if !place.is_table() {
                *place = Value::Table(Table::new());
            }
            let Value::Table(table) = place else { unreachable!("made a table above") };
            place = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
        }
        *place = value;
        whole
    }

    fn set_whole(&self, knob: &'static Knob, value: Value, source: &str, merge: bool) -> Result<Self, String> {
        let (mut table, mut sources) = ((*self.table).clone(), self.sources.clone());
        put(&mut table, knob, value, merge);
        sources.insert(knob.path, Arc::from(source));
        Self::checked(table, sources)
    }

    fn checked(mut table: Table, mut sources: BTreeMap<&'static str, Arc<str>>) -> Result<Self, String> {
        const SCHEDULE: &str = "webhooks.retry.schedule";
        const PRESET: &str = "webhooks.retry.preset";
        // A schedule of one's own is meant to be kept, whether or not the preset is said to be one's own.
        if let (Some(source), None) = (sources.get(SCHEDULE).cloned(), sources.get(PRESET))
            && let Some((knob, _)) = locate(PRESET).ok()
        {
            put(&mut table, knob, Value::String("custom".to_owned()), false);
            sources.insert(PRESET, source);
        }
        let profile = Profile::deserialize_from(&table).map_err(|error| plain::in_words(error.message().trim()))?;
        super::check::check(&profile)?;
        Ok(Self { profile: Arc::new(profile), table: Arc::new(table), sources })
    }
}

/// Puts a knob's value in its place; a table is laid over the old one where the knob is so and `merge` says it.
fn put(table: &mut Table, knob: &Knob, value: Value, merge: bool) {
    let (last, parents) = knob.path.rsplit_once('.').map_or((knob.path, None), |(parents, last)| (last, Some(parents)));
    let mut place = table;
    for key in parents.into_iter().flat_map(|parents| parents.split('.')) {
        let Some(Value::Table(inner)) = place.get_mut(key) else {
            unreachable!("each knob has a place in the default profile, which a test shows")
        };
        place = inner;
    }
    match (place.get_mut(last), value) {
        (Some(Value::Table(old)), Value::Table(new)) if knob.merges && merge => old.extend(new),
        (_, value) => drop(place.insert(last.to_owned(), value)),
    }
}

/// A dotted path in its plain form, if it names a knob or something below one that holds a table.
pub fn knob_path(path: &str) -> Result<String, ProfileProblem> {
    let (knob, below) = locate(path)?;
    let bare = |key: &str| !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    let names = below.iter().map(|key| if bare(key) { key.clone() } else { Value::from(key.as_str()).to_string() });
    Ok(std::iter::once(knob.path.to_owned()).chain(names).collect::<Vec<_>>().join("."))
}

/// The knob that a path leads to, and what of the path lies below it.
fn locate(path: &str) -> Result<(&'static Knob, Vec<String>), ProfileProblem> {
    let problem = |code, (message, hint): (String, String)| ProfileProblem { code, span: 0..0, message, hint };
    let Some(keys) = dotted(path) else {
        let message = format!("`{}` is no path of names joined by dots", path.escape_debug());
        return Err(problem("profile/syntax", (message, "for example `--set rate_limit.requests=5`".to_owned())));
    };
    match owner(&keys) {
        Some((knob, below)) => Ok((knob, below.to_vec())),
        None => Err(problem("profile/unknown-knob", unknown(path))),
    }
}

/// Splits `a.b."c.d"` as TOML does.
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

/// The knob that a path names or lies below, with the rest of the path.
fn owner(keys: &[String]) -> Option<(&'static Knob, &[String])> {
    (1..=keys.len()).find_map(|length| {
        let path = keys[..length].join(".");
        let knob = KNOBS.iter().find(|knob| knob.path == path)?;
        // Only knobs that hold a table have anything below them.
        let table = length == keys.len() || value_at(DEFAULT.table(), knob.path).is_some_and(Value::is_table);
        table.then_some((knob, &keys[length..]))
    })
}

/// Walks an overlay down to the knobs; whatever is neither a knob nor on the way to one is a problem.
fn collect<'t, 'i>(
    table: &'t DeTable<'i>,
    above: &str,
    settings: &mut Vec<(&'static Knob, &'t Spanned<DeValue<'i>>)>,
    problems: &mut Vec<ProfileProblem>,
) {
    for (key, value) in table {
        let path = if above.is_empty() { key.get_ref().to_string() } else { format!("{above}.{}", key.get_ref()) };
        if let Some(knob) = KNOBS.iter().find(|knob| knob.path == path) {
            settings.push((knob, value));
            continue;
        }
        let on_the_way = KNOBS.iter().any(|knob| knob.path.starts_with(&format!("{path}.")));
        match (on_the_way, value.get_ref()) {
            (true, DeValue::Table(inner)) => collect(inner, &path, settings, problems),
            (true, other) => problems.push(ProfileProblem {
                code: "profile/bad-value",
                span: value.span(),
                message: format!("`{path}` is a table of knobs, found {}", other.type_str()),
                hint: format!(
                    "knobs in it: {}",
                    KNOBS
                        .iter()
                        .filter(|knob| knob.path.starts_with(&format!("{path}.")))
                        .map(|knob| format!("`{}`", knob.path))
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            }),
            (false, _) => {
                let (message, hint) = unknown(&path);
                problems.push(ProfileProblem { code: "profile/unknown-knob", span: key.span(), message, hint });
            }
        }
    }
}

/// The group of settings that a name means, however its words are joined: `ratelimit` is `rate_limit`.
pub fn setting_group(name: &str) -> Option<&'static str> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
    let groups = KNOBS.iter().filter_map(|knob| knob.path.split_once('.')).map(|(group, _)| group);
    groups.into_iter().find(|group| plain(group) == plain(name))
}

fn unknown(path: &str) -> (String, String) {
    let nearest = setting_group(path).or_else(|| crate::contract::nearest(path, KNOBS.iter().map(|knob| knob.path)));
    let hint = match nearest {
        Some(name) => format!("did you mean `{name}`? `wrs-emulator assumptions` lists every knob"),
        None => "`wrs-emulator assumptions` lists every knob".to_owned(),
    };
    (format!("unknown knob `{}`", path.escape_debug()), hint)
}

fn bad_value(knob: &Knob, span: Range<usize>, message: &str) -> ProfileProblem {
    ProfileProblem {
        code: "profile/bad-value",
        span,
        message: format!("`{}`: {}", knob.path, message.trim()),
        hint: format!("may be set to: {}", knob.values),
    }
}

/// The value at a dotted path.
fn value_at<'t>(table: &'t Table, path: &str) -> Option<&'t Value> {
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

/// The dotted paths of everything that is no table, and of empty tables.
#[cfg(test)]
pub(super) fn leaf_paths(table: &Table, above: &str, leaves: &mut Vec<String>) {
    for (key, value) in table {
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            Value::Table(inner) if !inner.is_empty() => leaf_paths(inner, &path, leaves),
            _ => leaves.push(path),
        }
    }
}

/// A parsed value without its spans.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn set(assignment: &str) -> Result<Layered, ProfileProblem> {
        Layered::default().with_assignment(assignment, "--set")
    }

    #[test]
    fn the_built_in_profile_is_valid() {
        let profile = Layered::default();
        assert_eq!(profile.profile().rate_limit.requests, 100);
        assert_eq!(profile.source("rate_limit.requests"), "default");
    }

    #[test]
    fn an_assignment_changes_one_knob_and_its_source() {
        for (assignment, knob, value) in [
            ("rate_limit.requests=5", "rate_limit.requests", "5"),
            ("rate_limit.window = 30s", "rate_limit.window", "\"30s\""),
            ("environment=production", "environment", "\"production\""),
            ("keys.list=[\"a\"]", "keys.list", "[\"a\"]"),
            ("errors.codes.not_found=missing", "errors.codes", "\"missing\""),
            ("status.checks.database.status=fail", "status.checks", "\"fail\""),
            ("events.data.\"workflow.completed\".status=done", "events.data", "\"done\""),
            ("subscriptions.secret_field=123", "subscriptions.secret_field", "\"123\""),
            ("webhooks.scheme=[\"standard\", \"github\"]", "webhooks.scheme", "github"),
        ] {
            let changed = set(assignment).unwrap_or_else(|problem| panic!("{assignment}: {problem:?}"));
            assert_eq!(changed.source(knob), "--set", "{assignment}");
            let shown = json_at(changed.table(), knob).to_string();
            assert!(shown.contains(value), "{assignment}: {shown}");
        }
    }

    #[test]
    fn a_wrong_name_or_value_says_what_would_be_right() {
        for (assignment, code, hint) in [
            ("rate_limit.request=5", "profile/unknown-knob", "`rate_limit.requests`"),
            ("rate_limit=5", "profile/unknown-knob", "assumptions"),
            ("rate_limit.requests.x=5", "profile/unknown-knob", "assumptions"),
            ("rate_limit.requests=many", "profile/bad-value", "4294967295"),
            ("rate_limit.window=soon", "profile/bad-value", "a duration"),
            ("errors.codes.nope=x", "profile/bad-value", "kind of error"),
            ("webhooks.scheme=[]", "profile/bad-value", "standard"),
            ("webhooks.retry.jitter=2.0", "profile/bad-value", "0 to 1"),
            ("no assignment", "profile/syntax", "--set"),
            ("=5", "profile/syntax", "--set"),
            ("a\n[b]\nc=5", "profile/syntax", "--set"),
        ] {
            let problem = set(assignment).err().unwrap_or_else(|| panic!("{assignment} was taken"));
            assert_eq!(problem.code, code, "{assignment}: {problem:?}");
            assert!(problem.hint.contains(hint), "{assignment}: {problem:?}");
        }
    }

    #[test]
    fn a_text_reports_every_problem_with_its_place() {
        let text = "environment = 'moon'\n[rate_limit]\nrequest = 5\nwindow = '30s'\n";
        let problems = Layered::default().with_text(text, "file").expect_err("two knobs are wrong");
        let places: Vec<_> = problems.iter().map(|problem| (problem.code, &text[problem.span.clone()])).collect();
        assert_eq!(places, [("profile/bad-value", "'moon'"), ("profile/unknown-knob", "request")]);
    }

    #[test]
    fn maps_merge_and_other_tables_replace() {
        let text = "[errors.codes]\nnot_found = 'missing'\n[status.checks.cache]\nstatus = 'ok'\n";
        let profile = Layered::default().with_text(text, "file").expect("the text is valid");
        assert_eq!(profile.profile().error_code(crate::contract::error::ErrorKind::NotFound), "missing");
        assert_eq!(profile.profile().error_code(crate::contract::error::ErrorKind::Unauthorized), "unauthorized");
        assert_eq!(profile.profile().status.checks.keys().collect::<Vec<_>>(), ["cache"]);
    }

    #[test]
    fn a_schedule_without_a_preset_is_kept() {
        let set = |assignments: &[&str]| {
            let layered = assignments.iter().fold(Layered::default(), |layered, assignment| {
                layered.with_assignment(assignment, "--set").expect("valid")
            });
            (json_at(layered.table(), "webhooks.retry.preset"), layered.source("webhooks.retry.preset").to_owned())
        };
        assert_eq!(set(&["webhooks.retry.schedule=[\"7s\"]"]), ("custom".into(), "--set".to_owned()));
        // What was said explicitly stays.
        let (preset, schedule) = ("webhooks.retry.preset=slack", "webhooks.retry.schedule=[\"7s\"]");
        assert_eq!((set(&[preset, schedule]).0, set(&[schedule, preset]).0), ("slack".into(), "slack".into()));
        assert_eq!(set(&["webhooks.retry.jitter=0.1"]).0, "standard");
    }
}
