//! A profile in its layers: built-in defaults, a preset or a file, single assignments, changes while running, scenarios. Each layer has
//! some settings. They are merged in order, then read and checked together; a problem names the setting and the layer that it comes
//! from.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use toml::de::DeTable;
use toml::{Spanned, Table, Value};

use super::forwards::Forward;
use super::paths::{Collected, ProfileProblem, collect, entry_path, first_problems, locate, value_at};
use super::sections::{BrokenRule, Profile, SETTINGS, check};
use crate::contract::nearest;
use crate::contract::setting::{Setting, default_values, place_of};
use crate::util::toml_messages::{is_json, plain_message, syntax_problems};
use crate::util::wording::quoted;

/// A profile with the values of its settings as they were given, and where each comes from.
#[derive(Clone, Debug)]
pub struct Layered {
    profile: Arc<Profile>,
    pub(super) table: Arc<Table>,
    /// The last layer that has a setting, by its path; none if all is built in.
    sources: BTreeMap<&'static str, Arc<str>>,
}

static DEFAULT: LazyLock<Layered> = LazyLock::new(|| Layered {
    profile: Arc::new(Profile::default()),
    table: Arc::new(default_values::<Profile>()),
    sources: BTreeMap::new(),
});

impl Default for Layered {
    fn default() -> Self {
        DEFAULT.clone()
    }
}

impl Layered {
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// Where the value of a setting comes from; `default` when no layer set it.
    pub fn source(&self, path: &str) -> &str {
        self.sources.get(path).map_or("default", |source| source)
    }

    /// This profile with layers on top.
    pub fn with(&self, add: impl FnOnce(&mut Draft)) -> Result<Self, Vec<ProfileProblem>> {
        let mut draft = Draft::of(self);
        add(&mut draft);
        draft.finish()
    }

    /// This profile with one assignment on top, or the first problem.
    pub fn with_assignment(&self, assignment: &str, source: &str) -> Result<Self, ProfileProblem> {
        let made = self.with(|draft| draft.assignment(assignment, source));
        made.map_err(|problems| problems.into_iter().next().expect("a refusal has a problem"))
    }
}

/// The settings of one source. Each occurs once, with its place in the text that was read.
#[derive(Clone, Debug)]
pub struct Layer {
    source: Arc<str>,
    values: Vec<(&'static Setting, Spanned<Value>)>,
    /// The assignment as it was written, if it is one.
    written: Box<str>,
}

impl Layer {
    /// How listings name the source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// True if both set the same settings to the same values, wherever in their texts.
    pub fn same_values(&self, other: &Self) -> bool {
        let is_same = |(setting, value): &(&Setting, Spanned<Value>)| {
            other.get(setting).is_some_and(|other| other == value.get_ref())
        };
        self.values.len() == other.values.len() && self.values.iter().all(is_same)
    }

    fn new(source: &str) -> Self {
        Self { source: source.into(), values: Vec::new(), written: Box::default() }
    }

    fn get(&self, setting: &Setting) -> Option<&Value> {
        let found = self.values.iter().find(|(known, _)| known.path == setting.path)?;
        Some(found.1.get_ref())
    }

    /// Lays its values over those of a table.
    fn merge_into(&self, table: &mut Table) {
        for (setting, value) in &self.values {
            set(table, setting, value.get_ref().clone());
        }
    }

    /// A problem with one of its values; `None` if it cannot be one.
    fn problem(&self, setting: &Setting, value: Option<&Spanned<Value>>, message: &str) -> ProfileProblem {
        let hint = match value.map(Spanned::get_ref) {
            Some(number @ (Value::Integer(_) | Value::Float(_))) if setting.is_duration() => {
                format!("write the unit: \"{number}s\" or \"{number}ms\"")
            }
            _ => format!("may be set to: {}", setting.values()),
        };
        let message = format!("`{}`: {}", setting.path, message.trim());
        self.named(ProfileProblem::new("profile/bad-value", value.map_or(0..0, Spanned::span), message, hint))
    }

    fn named(&self, problem: ProfileProblem) -> ProfileProblem {
        ProfileProblem { source: Arc::clone(&self.source), written: self.written.clone(), ..problem }
    }
}

/// Puts a value into a table; the entries of a map are merged one by one.
fn set(table: &mut Table, setting: &Setting, value: Value) {
    match (place_of(table, setting.path.split('.')), value) {
        (Value::Table(old), Value::Table(new)) if setting.merges => old.extend(new),
        (place, value) => *place = value,
    }
}

/// The typed profile of a table, or the first setting whose value is of a wrong type, and why.
fn read(table: &Table) -> Result<Profile, (Option<&'static Setting>, String)> {
    serde_path_to_error::deserialize(Value::Table(table.clone())).map_err(|error| {
        let path = error.path().to_string();
        let leads_to = |setting: &&Setting| {
            path.strip_prefix(&setting.path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let error: toml::de::Error = error.into_inner();
        (SETTINGS.iter().find(leads_to), plain_message(error.message().trim()))
    })
}

/// A profile with layers on top that have not been merged yet.
#[derive(Clone, Debug)]
pub struct Draft {
    base: Layered,
    layers: Vec<Layer>,
    /// Each with the number of layers below the one that it is in.
    problems: Vec<(usize, ProfileProblem)>,
    /// Problems that were only counted.
    more: usize,
}

impl Draft {
    pub fn of(base: &Layered) -> Self {
        Self { base: base.clone(), layers: Vec::new(), problems: Vec::new(), more: 0 }
    }

    /// Adds the settings of a TOML text; `source` names the text in listings.
    pub fn text(&mut self, text: &str, source: &str) {
        let (table, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            self.table(table.get_ref(), source);
            return;
        }
        let layer = Layer::new(source);
        let all = "`wrs-emulator assumptions` lists every setting";
        if is_json(text) {
            let message = "this looks like JSON; a profile is TOML".to_owned();
            let hint = format!("for example `rate_limit.requests = 5`; {all}");
            return self.refuse(&layer, ProfileProblem::new("profile/syntax", 0..0, message, hint));
        }
        let (problems, more) = syntax_problems(text, &errors);
        self.more += more;
        for problem in problems {
            let hint = problem.hint.unwrap_or_else(|| format!("the file must be TOML; {all}"));
            self.refuse(&layer, ProfileProblem::new("profile/syntax", problem.span, problem.message, hint));
        }
    }

    /// Adds the settings of a parsed table, as in a scenario's `[profile]`; returns them.
    pub fn table(&mut self, table: &DeTable<'_>, source: &str) -> Layer {
        let mut collected = Collected::default();
        collect(table, "", &mut collected);
        let layer = Layer { values: collected.values, ..Layer::new(source) };
        self.more += collected.more;
        for problem in collected.problems {
            self.refuse(&layer, problem);
        }
        self.layer(layer.clone());
        layer
    }

    pub fn layer(&mut self, layer: Layer) {
        self.layers.push(layer);
    }

    pub fn preset(&mut self, name: &str) {
        match Preset::find(name) {
            Ok(preset) => self.text(preset.text, &format!("preset {}", preset.name)),
            Err(problem) => self.refuse(&Layer::new(&format!("preset {name}")), problem),
        }
    }

    /// Adds one assignment `path=value`. The value is TOML; a value that is not TOML, or not valid for the setting, is a plain string.
    pub fn assignment(&mut self, written: &str, source: &str) {
        let layer = Layer { written: written.into(), ..Layer::new(source) };
        let Some((path, text)) = written.split_once('=') else {
            let message = format!("expected `path=value`, found `{}`", quoted(written));
            let hint = "for example `--set rate_limit.requests=5`".to_owned();
            return self.refuse(&layer, ProfileProblem::new("profile/syntax", 0..0, message, hint));
        };
        match locate(path.trim()) {
            Ok((setting, below)) => {
                let string = self.whole(setting, &below, text.trim().into());
                let typed = toml::from_str::<Table>(&format!("value = {}", text.trim())).ok();
                let typed = typed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
                let typed = typed.map(|value| self.whole(setting, &below, value));
                let is_valid = |value: &Value| {
                    let mut table = (*self.base.table).clone();
                    set(&mut table, setting, value.clone());
                    read(&table).is_ok()
                };
                let value = typed.filter(|typed| is_valid(typed) || !is_valid(&string)).unwrap_or(string);
                self.layer(Layer { values: vec![(setting, Spanned::new(0..0, value))], ..layer });
            }
            Err(problem) => self.refuse(&layer, problem),
        }
    }

    /// Adds one typed value; `path` is a setting, or a path below one that holds a table.
    pub fn value(&mut self, path: &str, value: &serde_json::Value, source: &str) {
        let layer = Layer::new(source);
        match (locate(path), Value::try_from(value)) {
            (Ok((setting, below)), Ok(value)) => {
                let value = self.whole(setting, &below, value);
                self.layer(Layer { values: vec![(setting, Spanned::new(0..0, value))], ..layer });
            }
            (Ok((setting, _)), Err(_)) => {
                self.refuse(&layer, layer.problem(setting, None, "null has no place inside a value"));
            }
            (Err(problem), _) => self.refuse(&layer, problem),
        }
    }

    pub fn forward(&mut self, forward: &Forward, source: &str) {
        self.value(&entry_path("webhooks.forwards", forward.from()), &forward.to().into(), source);
    }

    /// The value of a setting that has this one below it. What is not merged entry by entry begins with what the layers so far have.
    fn whole(&self, setting: &Setting, below: &[String], value: Value) -> Value {
        let names: Vec<&str> = below.iter().map(String::as_str).collect();
        let (entry, inside) = names.split_at(names.len().min(usize::from(setting.merges)));
        let mut root = Table::new();
        if !inside.is_empty() {
            let layers = self.layers.iter().rev().filter_map(|layer| layer.get(setting));
            let old = layers
                .chain(value_at(&self.base.table, &setting.path))
                .find_map(|value| entry.first().map_or(Some(value), |name| value.get(*name)));
            *place_of(&mut root, std::iter::once("").chain(entry.iter().copied())) =
                old.cloned().unwrap_or_else(|| Value::Table(Table::new()));
        }
        *place_of(&mut root, std::iter::once("").chain(names)) = value;
        root.remove("").expect("put above")
    }

    /// The profile, if all of it is valid; else every problem.
    pub fn finish(self) -> Result<Layered, Vec<ProfileProblem>> {
        self.validated(|_| true)
    }

    /// The same for settings that are later laid over another profile: only what would be wrong over any profile counts.
    pub fn finish_alone(self) -> Result<Layered, Vec<ProfileProblem>> {
        let paths = self.layers.iter().flat_map(|layer| &layer.values).map(|(setting, _)| setting.path.as_str());
        let set: Vec<&str> = paths.collect();
        self.validated(|broken| broken.settings.iter().all(|setting| set.contains(setting)))
    }

    fn validated(mut self, counts: impl Fn(&BrokenRule) -> bool) -> Result<Layered, Vec<ProfileProblem>> {
        let (mut table, mut sources) = self.merged();
        let mut profile = read(&table);
        if profile.is_err() {
            self.take_out_wrong_values();
            // Other problems are reported as well.
            (table, sources) = self.merged();
            profile = read(&table);
        }
        if let Ok(profile) = profile {
            for broken in check(&profile).iter().filter(|broken| counts(broken)) {
                let problem = self.blame(broken);
                self.problems.push(problem);
            }
            if self.problems.is_empty() {
                return Ok(Layered { profile: Arc::new(profile), table: Arc::new(table), sources });
            }
        }
        self.problems.sort_by_key(|(layer, problem)| (*layer, problem.span.start));
        Err(first_problems(self.problems.into_iter().map(|(_, problem)| problem).collect(), self.more))
    }

    /// The values of all settings, and where they come from.
    fn merged(&self) -> (Table, BTreeMap<&'static str, Arc<str>>) {
        const SCHEDULE: &str = "webhooks.retry.schedule";
        const PRESET: &str = "webhooks.retry.preset";
        let (mut table, mut sources) = ((*self.base.table).clone(), self.base.sources.clone());
        for layer in &self.layers {
            layer.merge_into(&mut table);
            sources.extend(layer.values.iter().map(|(setting, _)| (&*setting.path, Arc::clone(&layer.source))));
        }
        // A schedule that is set without a preset implies the preset `custom`.
        if let (Some(source), None) = (sources.get(SCHEDULE).cloned(), sources.get(PRESET)) {
            *place_of(&mut table, PRESET.split('.')) = "custom".into();
            sources.insert(PRESET, source);
        }
        (table, sources)
    }

    /// Merges one layer more each time, so that a value of a wrong type is found in the layer that brings it; removes and reports it.
    fn take_out_wrong_values(&mut self) {
        let mut below = (*self.base.table).clone();
        for (number, layer) in self.layers.iter_mut().enumerate() {
            loop {
                let mut table = below.clone();
                layer.merge_into(&mut table);
                let Err((wrong, message)) = read(&table) else {
                    below = table;
                    break;
                };
                let is_wrong = |(setting, _): &(&Setting, _)| wrong.is_some_and(|wrong| wrong.path == setting.path);
                let Some(at) = layer.values.iter().position(is_wrong) else { break };
                let (setting, value) = layer.values.remove(at);
                self.problems.push((number, layer.problem(setting, Some(&value), &message)));
            }
        }
    }

    /// The problem, reported for the last of the values that cause it.
    fn blame(&self, broken: &BrokenRule) -> (usize, ProfileProblem) {
        for (number, layer) in self.layers.iter().enumerate().rev() {
            let is_broken = |(setting, _): &&(&Setting, _)| broken.settings.contains(&&*setting.path);
            if let Some((setting, value)) = layer.values.iter().rfind(is_broken) {
                return (number, layer.problem(setting, Some(value), &broken.message));
            }
        }
        let message = format!("`{}`: {}", broken.settings.join("`, `"), broken.message);
        (0, ProfileProblem::new("profile/bad-value", 0..0, message, String::new()))
    }

    fn refuse(&mut self, layer: &Layer, problem: ProfileProblem) {
        self.problems.push((self.layers.len(), layer.named(problem)));
    }
}

/// A named profile that comes with the program, a text like a profile file. A client that works under all of them relies only on
/// what the contract promises.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    pub name: &'static str,
    pub text: &'static str,
}

/// Every preset, the default first: it sets nothing, because the built-in profile is the contract's.
pub const PRESETS: [Preset; 3] = [
    Preset { name: "contract", text: "" },
    Preset { name: "friendly", text: include_str!("friendly.toml") },
    Preset { name: "hostile", text: include_str!("hostile.toml") },
];

impl Preset {
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    pub(super) fn find(name: &str) -> Result<&'static Self, ProfileProblem> {
        Self::named(name).ok_or_else(|| {
            let names = || PRESETS.iter().map(|preset| preset.name);
            let known = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let file = "a profile file is named by its path, such as `./profile.toml`";
            let hint = match nearest(name, names()) {
                Some(name) => format!("did you mean `{name}`? {file}"),
                None => file.to_owned(),
            };
            let message = format!("unknown preset `{}`; choose from {known}", quoted(name));
            ProfileProblem::new("profile/unknown-preset", 0..0, message, hint)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::paths::json_at;

    fn set(assignment: &str) -> Result<Layered, ProfileProblem> {
        Layered::default().with_assignment(assignment, "--set")
    }

    #[test]
    fn a_wrong_name_or_value_says_what_would_be_right() {
        for (assignment, code, hint) in [
            ("rate_limit=5", "profile/unknown-setting", "name one of those in it, such as `rate_limit."),
            ("profile=5", "profile/unknown-setting", "leave `[profile]` out"),
            ("rate_limits=5", "profile/unknown-setting", "did you mean `rate_limit`?"),
            ("webhooks.retry=none", "profile/unknown-setting", "`webhooks.retry.preset`"),
            ("webhook.copies=2", "profile/unknown-setting", "`webhooks.copies`"),
            ("rate_limit.requests.x=5", "profile/unknown-setting", "assumptions"),
            // Not the one that is most like it from the beginning, which they share.
            ("rate_limit.limit=5", "profile/unknown-setting", "`rate_limit` has `rate_limit."),
            ("rate_limit.windo=5", "profile/unknown-setting", "did you mean `rate_limit.window`?"),
            ("rate_limit.window=30", "profile/bad-value", "\"30s\" or \"30ms\""),
            ("errors.codes.nope=x", "profile/bad-value", "kind of error"),
            ("no assignment", "profile/syntax", "--set"),
            ("=5", "profile/syntax", "`rate_limit.requests=5`"),
            ("a\n[b]\nc=5", "profile/syntax", "`rate_limit.requests=5`"),
        ] {
            let problem = set(assignment).err().unwrap_or_else(|| panic!("{assignment} was taken"));
            assert_eq!(problem.code, code, "{assignment}: {problem:?}");
            assert!(problem.hint.contains(hint), "{assignment}: {problem:?}");
        }
    }

    #[test]
    fn a_schedule_without_a_preset_is_kept() {
        let (preset, schedule) = ("webhooks.retry.preset=slack", "webhooks.retry.schedule=[\"7s\"]");
        for (assignments, expected) in [
            (&[schedule][..], "custom"),
            // Explicit values stay.
            (&[preset, schedule], "slack"),
            (&[schedule, preset], "slack"),
            (&["webhooks.retry.jitter=0.1"], "standard"),
        ] {
            let layered = Layered::default();
            let layered = assignments.iter().try_fold(layered, |layered, one| layered.with_assignment(one, "--set"));
            assert_eq!(json_at(&layered.expect("valid").table, "webhooks.retry.preset"), expected, "{assignments:?}");
        }
    }

    #[test]
    fn a_value_below_a_setting_changes_that_alone() {
        for (assignments, path, expected) in [
            (&["hello.body.a=1"][..], "hello.body", r#"{"message":"Hello, world!","version":"1.3.2","a":1}"#),
            (&["hello.body={a=1}", "hello.body.b.c=2"], "hello.body", r#"{"a":1,"b":{"c":2}}"#),
            (&["hello.body.a=1", "hello.body={b=2}"], "hello.body", r#"{"b":2}"#),
            (&["errors.extra={a={b=1}}", "errors.extra.a.c=2"], "errors.extra", r#"{"a":{"b":1,"c":2}}"#),
            (&["errors.extra={a={b=1}}", "errors.extra={a={c=2}}"], "errors.extra", r#"{"a":{"c":2}}"#),
            (&["errors.extra.a=1", "errors.extra.b=2"], "errors.extra", r#"{"a":1,"b":2}"#),
        ] {
            let add = |draft: &mut Draft| assignments.iter().for_each(|one| draft.assignment(one, "--set"));
            let layered = Layered::default().with(add).expect("the settings are valid");
            assert_eq!(json_at(&layered.table, path).to_string(), expected, "{assignments:?}");
        }
    }

    #[test]
    fn each_problem_names_its_setting_and_source() {
        let problems = Layered::default().with(|draft| {
            draft.text("environment = 'moon'\n[keys]\ntest_prefix = 'sk_live_'\nlist = ['']\n", "file");
            draft.assignment("rate_limit.window=0s", "--set");
            draft.assignment("rate_limit.requests=many", "--set");
            draft.assignment("rate_limit.request=1", "--set");
            draft.assignment("keys.live_prefix=sk_live_", "--set");
            draft.value("webhooks.copies", &serde_json::json!(101), "control API");
        });
        let problems = problems.expect_err("much is wrong");
        let shown = problems.iter().map(|problem| {
            let setting = problem.message.split('`').nth(1).expect("a name");
            assert!(problem.written.is_empty() || problem.written.starts_with(setting), "{problem:?}");
            format!("{} {setting}", problem.source)
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                "file environment",
                "file keys.list",
                "--set rate_limit.window",
                "--set rate_limit.requests",
                "--set rate_limit.request",
                "--set keys.live_prefix",
                "control API webhooks.copies",
            ]
        );
    }

    #[test]
    fn of_many_mistakes_the_first_are_reported_and_the_others_counted() {
        let unknown: String = (0..50_000).map(|number| format!("k{number}=1\n")).collect();
        let groups: String = (0..20_000).map(|number| format!("[t{number}]\na = 1\n")).collect();
        for (text, first, more) in [
            (unknown, "unknown setting `k0`", "; and 49980 more problems"),
            (groups, "unknown setting `t0`", "; and 19980 more problems"),
            ("[keys]\n".repeat(20_000), "the key `keys` is defined on lines 1 and 2", "; and 19979 more problems"),
            (format!("[keys]\n{}", "list = []\n".repeat(20_000)), "the key `list` is", "; and 19979 more problems"),
        ] {
            let problems = Layered::default().with(|draft| draft.text(&text, "file")).expect_err("much is wrong");
            assert_eq!(problems.len(), 20, "{first}");
            assert!(problems[0].message.starts_with(first), "{:?}", problems[0]);
            assert!(problems[19].hint.ends_with(more), "{:?}", problems[19]);
        }
    }

    #[test]
    fn no_message_repeats_a_long_value() {
        let long = "a".repeat(900_000);
        for text in [
            format!("{long} = 1"),
            format!("rate_limit.{long} = 1"),
            format!("rate_limit.requests = '{long}'"),
            format!("rate_limit.requests = {long}"),
            format!("rate_limit.requests.{long} = 1"),
            format!("{long} = 1\n{long} = 1"),
            format!("{long} = 1.5s"),
            format!("webhooks.scheme = '{long}'"),
            format!("webhooks.forwards = {{ '{long}' = '{long}' }}"),
            format!("environment = '{long}'"),
            format!("keys.live_prefix = ' {long}'"),
            format!("rate_limit.header_names.limit = ' {long}'"),
            format!("rate_limit.window = '{long}'"),
        ] {
            let problems = Layered::default().with(|draft| draft.text(&text, "file")).expect_err("it is wrong");
            let length = problems.iter().map(|it| it.message.len() + it.hint.len()).max();
            assert!(length.is_some_and(|length| length < 1_300), "{length:?} bytes: {}…", &text[..30]);
        }
    }

    #[test]
    fn no_wrong_value_of_any_setting_is_reported_in_the_words_of_rust() {
        let mut refused = 0;
        for setting in SETTINGS.iter() {
            for value in ["-1", "1.5", "true", "[]", "[[1]]", "{}", "{ a = 1 }", "{ not_found = 1 }", "\"§ §\""] {
                let assignment = format!("{}={value}", setting.path);
                let Err(problem) = Layered::default().with_assignment(&assignment, "test") else { continue };
                refused += 1;
                let message = problem.message.split_once(": ").expect("the setting is named").1;
                for word in [
                    "u16", "u32", "u64", "i64", "f64", "struct", "sequence", " map", "invalid ", "enum", "nonzero",
                    "variant",
                ] {
                    assert!(!message.contains(word), "{assignment}: {message}");
                }
            }
        }
        assert!(refused > 200, "{refused} values were refused");
    }
}
