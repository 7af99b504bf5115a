//! A profile in its layers: built-in defaults, a user's file or preset, single assignments, a scenario's overlay. `draft` puts one
//! together, `paths` knows where knobs are; this file has the result, with the origin of each knob.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use toml::{Table, Value};

use super::defaults::DEFAULT_TABLE;
use super::plain;
use super::sections::Profile;

/// Where the values of knobs come from, by their paths.
pub(super) type Sources = BTreeMap<&'static str, Arc<str>>;

/// A profile with the raw values and the origin of each knob.
#[derive(Clone, Debug)]
pub struct Layered {
    profile: Arc<Profile>,
    table: Arc<Table>,
    sources: Sources,
}

static DEFAULT: LazyLock<Layered> = LazyLock::new(|| {
    let profile = deserialize(&DEFAULT_TABLE).expect("the built-in profile matches its type, which a test shows");
    Layered::made(profile, DEFAULT_TABLE.clone(), Sources::new())
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
}
