//! Scenarios: files that script answers and events, checked, and applied to each request. Overview of layer 2.
//!
//! Rules, matchers and parsing are pure: requests, counters, time and chance are arguments. This file reads no files.
//! Reading order: this file, `rule` (one rule, its counts and its story), `matcher`, `action`, `render` (its templates), `decide`
//! (which rule applies), `emit` (events), `parse` (text to scenario),
//! `content` (the scenarios, which are active, and the settings changed while running), `snapshot` (the state in force for each
//! key), `library` (changes), `files` (reloads), `watch` (files on disk).

mod action;
mod content;
mod decide;
mod emit;
mod files;
mod library;
mod matcher;
mod parse;
mod render;
mod rule;
pub mod rule_counters;
mod schema;
mod shipped;
mod snapshot;
pub mod template;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;

pub use action::{Action, Delay, Fault, Patch, ReplyBody, ScriptedQuota, ScriptedReply};
pub use content::{Activation, Stale};
pub(crate) use decide::RuleTrace;
pub use decide::{RuleSet, TriedRules};
pub use emit::{DeliveryFaults, DueEmits, Emit, EmitEffect, Rotation, Trigger, after_answer, due_emits, emit_named};
pub use files::Reload;
pub use library::{Restored, RestoredList, ScenarioStore};
pub use matcher::{Condition, Literal, RequestView, Subject, Test, When};
pub use parse::{check_text, json_to_toml};
pub use render::{Templated, request_facts};
pub use rule::{Decision, FIRST_STEP, NextStep, Rule, Sequence, SequenceEntry, StoryProgress, Then};
pub use schema::{language_markdown, schema};
pub use shipped::{STARTER_TEXT, built_in, built_in_names};
pub use snapshot::{EffectiveConfig, ScenarioSnapshot};
pub use watch::{FileTexts, Folders, MAX_FILE, Watcher, read_file, read_folder};

use crate::contract::routes::Operation;
use crate::contract::types::SubscribeRequest;
use crate::diagnostic::{Diagnostic, Level};
use crate::settings::{Layer, ProfileProblem};

#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name: the file's name without `.toml`.
    pub name: Arc<str>,
    pub title: String,
    pub description: Option<String>,
    pub text: Arc<str>,
    pub origin: ScenarioOrigin,
    pub overlay: Option<Arc<Layer>>,
    pub given: Given,
    pub rules: Vec<Arc<Rule>>,
    pub emits: Vec<Arc<Emit>>,
    /// About how many bytes of memory it takes, text included; an estimate on the high side.
    pub weight: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioOrigin {
    BuiltIn,
    File(PathBuf),
    Inline,
}

impl Scenario {
    /// The status with which it answers the first request of an operation, whatever is in it.
    pub fn answers_first(&self, operation: Operation) -> Option<u16> {
        self.rules.iter().find(|rule| rule.when.asks_for(Some(operation)))?.answers_first()
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    /// Webhook subscriptions that exist from the start.
    pub subscriptions: Vec<SubscribeRequest>,
}

impl Scenario {
    fn is_same_as(&self, other: &Self) -> bool {
        self.name == other.name && self.text == other.text && self.origin == other.origin
    }

    /// The scenario as diagnostics name it: the file's path, or the name.
    pub fn file_name(&self) -> String {
        match &self.origin {
            ScenarioOrigin::File(path) => path.display().to_string(),
            ScenarioOrigin::BuiltIn | ScenarioOrigin::Inline => self.name.to_string(),
        }
    }
}

impl ProfileProblem {
    pub fn in_text(self, text: &str) -> Diagnostic {
        Diagnostic::at(Level::Error, self.code, text, self.span, self.message, self.hint)
    }

    fn without_text(self) -> Diagnostic {
        Diagnostic::of_file(self.code, self.message, self.hint)
    }
}

/// Problems of settings that are in no file.
pub(crate) fn without_text(problems: Vec<ProfileProblem>) -> Vec<Diagnostic> {
    problems.into_iter().map(ProfileProblem::without_text).collect()
}

/// The scenario in a test's text, which is valid.
#[cfg(test)]
fn valid(text: &str) -> Scenario {
    let (scenario, problems) = check_text("test", text);
    scenario.unwrap_or_else(|| panic!("{text}\n{problems:?}"))
}
