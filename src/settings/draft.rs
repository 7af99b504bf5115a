//! A profile in the making: settings of every layer are merged first and validated once, together, so that their order does
//! not matter. Each problem names the setting that caused it and where that comes from.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::forwards::Forward;
use super::layers::{Layered, Preset, ProfileProblem, Sources, deserialize};
use super::messages;
use super::paths::{collect, locate, place_of, without_spans};
use super::sections::{Broken, check};
use crate::contract::setting::Setting;

/// Settings of a text, read once; each with its place in the text.
#[derive(Clone, Debug)]
pub struct OverlaySettings(Vec<Assignment>);

impl OverlaySettings {
    /// True if both set the same settings to the same values, wherever in their texts.
    pub fn same_values(&self, other: &Self) -> bool {
        let set = |settings: &Self| -> BTreeMap<&'static str, String> {
            settings
                .0
                .iter()
                .map(|assignment| (assignment.setting.path.as_str(), assignment.value.to_string()))
                .collect()
        };
        set(self) == set(other)
    }
}

/// A profile with settings on top that have not been validated yet.
#[derive(Clone, Debug)]
pub struct Draft {
    base: Layered,
    assignments: Vec<Assignment>,
    problems: Vec<ProfileProblem>,
}

#[derive(Clone, Debug)]
struct Assignment {
    setting: &'static Setting,
    /// The path of the entry below the setting, if only that is set.
    below: Vec<String>,
    value: Value,
    source: Arc<str>,
    span: Range<usize>,
    /// The assignment as it was written, if it was one.
    written: Box<str>,
}

impl Draft {
    pub fn of(base: &Layered) -> Self {
        Self { base: base.clone(), assignments: Vec::new(), problems: Vec::new() }
    }

    /// Adds the settings of a TOML text; `source` names the text in listings.
    pub fn text(&mut self, text: &str, source: &str) {
        let (table, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            self.table(table.get_ref(), source);
        }
        if messages::is_json(text) && !errors.is_empty() {
            let message = "this looks like JSON; a profile is TOML".to_owned();
            let hint =
                "for example `rate_limit.requests = 5`; `wrs-emulator assumptions` lists every setting".to_owned();
            return self.refuse(ProfileProblem::new("profile/syntax", 0..0, message, hint), source, "");
        }
        for problem in messages::syntax_problems(text, &errors) {
            let usual = || "the file must be TOML; `wrs-emulator assumptions` lists every setting".to_owned();
            let hint = problem.hint.unwrap_or_else(usual);
            self.refuse(ProfileProblem::new("profile/syntax", problem.span, problem.message, hint), source, "");
        }
    }

    /// Adds the settings of a parsed table, as in a scenario's `[profile]`; returns those settings alone.
    pub fn table(&mut self, overlay: &DeTable<'_>, source: &str) -> OverlaySettings {
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        collect(overlay, "", &mut found, &mut problems);
        for problem in problems {
            self.refuse(problem, source, "");
        }
        let source: Arc<str> = Arc::from(source);
        let assignment = |(setting, value): (_, &Spanned<DeValue<'_>>)| Assignment {
            setting,
            below: Vec::new(),
            value: without_spans(value.get_ref()),
            source: Arc::clone(&source),
            span: value.span(),
            written: Box::default(),
        };
        let settings = OverlaySettings(found.into_iter().map(assignment).collect());
        self.settings(&settings);
        settings
    }

    pub fn settings(&mut self, settings: &OverlaySettings) {
        self.assignments.extend_from_slice(&settings.0);
    }

    pub fn preset(&mut self, name: &str) {
        match Preset::find(name) {
            Ok(preset) => self.text(preset.text, &format!("preset {}", preset.name)),
            Err(problem) => self.refuse(problem, &format!("preset {name}"), ""),
        }
    }

    /// Adds one assignment `path=value`. The value is TOML; a value that is not TOML, or not valid for the setting, is a plain string.
    pub fn assignment(&mut self, written: &str, source: &str) {
        let Some((path, text)) = written.split_once('=') else {
            let message = format!("expected `path=value`, found `{}`", written.escape_debug());
            let hint = "for example `--set rate_limit.requests=5`".to_owned();
            return self.refuse(ProfileProblem::new("profile/syntax", 0..0, message, hint), source, written);
        };
        let text = text.trim();
        let Some(as_string) = self.assigned(path.trim(), Value::String(text.to_owned()), source, written) else {
            return;
        };
        let as_toml = toml::from_str::<Table>(&format!("value = {text}"))
            .ok()
            .filter(|table| table.len() == 1)
            .and_then(|mut table| table.remove("value"));
        let assignment = match as_toml.map(|value| Assignment { value, ..as_string.clone() }) {
            Some(typed) if self.problem_alone(&typed).is_none() || self.problem_alone(&as_string).is_some() => typed,
            _ => as_string,
        };
        self.assignments.push(assignment);
    }

    /// Adds one typed value; `path` is a setting, or a path below one that holds a table.
    pub fn value(&mut self, path: &str, value: &serde_json::Value, source: &str) {
        let Some(assignment) = self.assigned(path, Value::String(String::new()), source, "") else { return };
        match Value::try_from(value) {
            Ok(value) => self.assignments.push(Assignment { value, ..assignment }),
            Err(_) => self.problems.push(assignment.problem("null has no place inside a value")),
        }
    }

    /// An assignment to this path; if it leads to no setting, that is a problem.
    fn assigned(&mut self, path: &str, value: Value, source: &str, written: &str) -> Option<Assignment> {
        match locate(path) {
            Ok((setting, below)) => {
                let (source, written) = (source.into(), written.into());
                Some(Assignment { setting, below, value, source, span: 0..0, written })
            }
            Err(problem) => {
                self.refuse(problem, source, written);
                None
            }
        }
    }

    pub fn forward(&mut self, forward: &Forward, source: &str) {
        // A JSON string is a TOML key.
        let path = format!("webhooks.forwards.{}", serde_json::Value::from(forward.from()));
        self.value(&path, &forward.to().into(), source);
    }

    /// The profile, if all of it is valid; else every problem.
    pub fn finish(self) -> Result<Layered, Vec<ProfileProblem>> {
        self.validated(|_| true)
    }

    /// The same for settings that are later laid over another profile: only what would be wrong over any profile counts.
    pub fn finish_alone(self) -> Result<Layered, Vec<ProfileProblem>> {
        let set: Vec<&str> = self.assignments.iter().map(|assignment| assignment.setting.path.as_str()).collect();
        self.validated(|broken| broken.settings.iter().all(|setting| set.contains(setting)))
    }

    fn validated(mut self, counts: impl Fn(&Broken) -> bool) -> Result<Layered, Vec<ProfileProblem>> {
        let mut problems = std::mem::take(&mut self.problems);
        let (mut table, mut sources) = self.merged();
        let profile = match deserialize(&table) {
            Ok(profile) => profile,
            Err(message) => {
                problems.extend(self.drop_ill_typed(&message));
                // Other problems are reported as well.
                (table, sources) = self.merged();
                match deserialize(&table) {
                    Ok(profile) => profile,
                    Err(_) => return Err(Self::in_order(problems)),
                }
            }
        };
        let broken = check(&profile);
        problems.extend(broken.iter().filter(|broken| counts(broken)).map(|broken| self.blame(broken)));
        if problems.is_empty() {
            return Ok(Layered::made(profile, table, sources));
        }
        Err(Self::in_order(problems))
    }

    /// The values of all settings, and where they come from.
    fn merged(&self) -> (Table, Sources) {
        const SCHEDULE: &str = "webhooks.retry.schedule";
        const PRESET: &str = "webhooks.retry.preset";
        let (mut table, mut sources) = ((*self.base.table).clone(), self.base.sources.clone());
        for assignment in &self.assignments {
            assignment.put(&mut table);
            sources.insert(assignment.setting.path.as_str(), Arc::clone(&assignment.source));
        }
        // A schedule that is set without a preset implies the preset `custom`.
        if let (Some(origin), None) = (sources.get(SCHEDULE).cloned(), sources.get(PRESET)) {
            *place_of(&mut table, PRESET, &[]) = "custom".into();
            sources.insert(PRESET, origin);
        }
        (table, sources)
    }

    /// Takes out the settings whose values are of a wrong type by themselves, with a problem for each.
    fn drop_ill_typed(&mut self, message: &str) -> Vec<ProfileProblem> {
        let mut problems = Vec::new();
        for assignment in std::mem::take(&mut self.assignments) {
            match self.problem_alone(&assignment) {
                None => self.assignments.push(assignment),
                Some(message) => problems.push(assignment.problem(&message)),
            }
        }
        if problems.is_empty() {
            // Only values of one setting can be valid alone but not together: the last one is refused.
            problems.extend(self.assignments.pop().map(|assignment| assignment.problem(message)));
        }
        problems
    }

    /// Why a setting's value is invalid by itself, whatever the other settings are.
    fn problem_alone(&self, assignment: &Assignment) -> Option<String> {
        let mut table = (*self.base.table).clone();
        assignment.put(&mut table);
        deserialize(&table).err()
    }

    /// The problem, reported for the last of the settings that cause it.
    fn blame(&self, broken: &Broken) -> ProfileProblem {
        let concerned = |assignment: &&Assignment| broken.settings.contains(&assignment.setting.path.as_str());
        if let Some(assignment) = self.assignments.iter().rev().find(concerned) {
            return assignment.problem(&broken.message);
        }
        let message = format!("`{}`: {}", broken.settings.join("`, `"), broken.message);
        ProfileProblem::new("profile/bad-value", 0..0, message, String::new())
    }

    fn refuse(&mut self, problem: ProfileProblem, source: &str, written: &str) {
        let (source, written) = (Arc::from(source), Box::from(written));
        self.problems.push(ProfileProblem { source, written, ..problem });
    }

    /// Problems source by source, as these were added, and within one by their place.
    fn in_order(mut problems: Vec<ProfileProblem>) -> Vec<ProfileProblem> {
        let mut sources: Vec<Arc<str>> = Vec::new();
        for problem in &problems {
            if !sources.contains(&problem.source) {
                sources.push(Arc::clone(&problem.source));
            }
        }
        let place = |problem: &ProfileProblem| sources.iter().position(|source| *source == problem.source);
        problems.sort_by_key(|problem| (place(problem).unwrap_or_default(), problem.span.start));
        problems
    }
}

impl Layered {
    /// This profile with a draft on top.
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

impl Assignment {
    fn put(&self, table: &mut Table) {
        let merges = self.setting.merges && self.below.is_empty();
        match (place_of(table, &self.setting.path, &self.below), self.value.clone()) {
            (Value::Table(old), Value::Table(new)) if merges => old.extend(new),
            (place, value) => *place = value,
        }
    }

    fn problem(&self, message: &str) -> ProfileProblem {
        let message = format!("`{}`: {}", self.setting.path, message.trim());
        let values = self.setting.values();
        let hint = match &self.value {
            Value::Integer(_) | Value::Float(_) if values.starts_with("a duration") => {
                format!("write the unit: \"{0}s\" or \"{0}ms\"", self.value)
            }
            _ => format!("may be set to: {values}"),
        };
        let (source, written) = (Arc::clone(&self.source), self.written.clone());
        let problem = ProfileProblem::new("profile/bad-value", self.span.clone(), message, hint);
        ProfileProblem { source, written, ..problem }
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
            // What was said explicitly stays.
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
                "--set rate_limit.request",
                "--set rate_limit.requests",
                "--set keys.live_prefix",
                "--set rate_limit.window",
                "file environment",
                "file keys.list",
                "control API webhooks.copies",
            ]
        );
    }
}
