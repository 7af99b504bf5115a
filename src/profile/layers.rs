//! A profile in its layers: built-in defaults, a user's file or preset, single assignments, a scenario's overlay. `draft` puts one
//! together, `paths` knows where knobs are; here is what came of it, with the origin of each knob.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use serde::Serialize;
use toml::{Table, Value};

use super::draft::Draft;
use super::paths::json_at;
use super::{DEFAULT_TEXT, KNOBS, Profile, plain};

/// Where the values of knobs come from, by their paths.
pub(super) type Sources = BTreeMap<&'static str, Arc<str>>;

/// A profile with the raw values and the origin of each knob.
#[derive(Clone, Debug)]
pub struct Layered {
    profile: Arc<Profile>,
    table: Arc<Table>,
    sources: Sources,
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
    /// Where the setting comes from, as listings name it.
    pub source: Arc<str>,
    /// The assignment as it was written; empty if the setting is none.
    pub written: Box<str>,
}

impl ProfileProblem {
    pub(super) fn new(code: &'static str, span: Range<usize>, message: String, hint: String) -> Self {
        Self { code, span, message, hint, source: Arc::default(), written: Box::default() }
    }
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
    let profile = deserialize(&table).expect("the built-in profile fits its type, which a test shows");
    Layered::made(profile, table, Sources::new())
});

impl Default for Profile {
    fn default() -> Self {
        DEFAULT.profile().as_ref().clone()
    }
}

impl Default for Layered {
    fn default() -> Self {
        DEFAULT.clone()
    }
}

/// The typed profile of raw values, or what is wrong in plain words.
pub(super) fn deserialize(table: &Table) -> Result<Profile, String> {
    let read: Result<Profile, toml::de::Error> = serde::Deserialize::deserialize(Value::Table(table.clone()));
    read.map_err(|error| plain::in_words(error.message().trim()))
}

impl Layered {
    pub(super) fn made(profile: Profile, table: Table, sources: Sources) -> Self {
        Self { profile: Arc::new(profile), table: Arc::new(table), sources }
    }

    /// The typed profile.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// The raw values, whole.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    pub(super) fn sources(&self) -> &Sources {
        &self.sources
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

    /// This profile with a draft on top.
    pub fn with(&self, add: impl FnOnce(&mut Draft)) -> Result<Self, Vec<ProfileProblem>> {
        let mut draft = Draft::of(self);
        add(&mut draft);
        draft.finish()
    }

    /// This profile with one assignment on top, or the first problem.
    pub fn with_assignment(&self, assignment: &str, source: &str) -> Result<Self, ProfileProblem> {
        let made = self.with(|draft| draft.assignment(assignment, source));
        made.map_err(|problems| problems.into_iter().next().expect("what is refused has a problem"))
    }
}
