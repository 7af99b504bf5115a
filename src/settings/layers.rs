//! A profile in its layers: built-in defaults, a user's file or preset, single assignments, a scenario's overlay. `draft` puts one
//! together, `paths` knows where settings are; this file has the result, with the origin of each setting, and the presets.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use toml::{Table, Value};

use super::messages;
use super::sections::Profile;
use crate::contract::nearest;
use crate::contract::setting::default_values;

/// Where the values of settings come from.
pub(super) type Sources = BTreeMap<&'static str, Arc<str>>;

/// A profile with the raw values and the origin of each setting.
#[derive(Clone, Debug)]
pub struct Layered {
    profile: Arc<Profile>,
    pub(super) table: Arc<Table>,
    pub(super) sources: Sources,
}

static DEFAULT: LazyLock<Layered> =
    LazyLock::new(|| Layered::made(Profile::default(), default_values::<Profile>(), Sources::new()));

impl Default for Layered {
    fn default() -> Self {
        DEFAULT.clone()
    }
}

/// The typed profile of raw values, or the problem in plain words.
pub(super) fn deserialize(table: &Table) -> Result<Profile, String> {
    let read: Result<Profile, toml::de::Error> = serde::Deserialize::deserialize(Value::Table(table.clone()));
    read.map_err(|error| messages::plain_message(error.message().trim()))
}

impl Layered {
    pub(super) fn made(profile: Profile, table: Table, sources: Sources) -> Self {
        Self { profile: Arc::new(profile), table: Arc::new(table), sources }
    }

    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// Where the value of a setting comes from; `default` when no layer set it.
    pub fn source(&self, path: &str) -> &str {
        self.sources.get(path).map_or("default", |source| source)
    }
}

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
        Self { code, span, message, hint, source: Arc::default(), written: Box::default() }
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
            let message = format!("unknown preset `{}`; choose from {known}", name.escape_debug());
            ProfileProblem::new("profile/unknown-preset", 0..0, message, hint)
        })
    }
}
