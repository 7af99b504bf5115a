//! `POST scenarios/active`: which scenarios are active, for all keys or one.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::call::{Body, Call, ControlCall, Tag};
use super::command::CallCommand;
use super::context::Context;
use super::fields::KeyOrAll;
use super::render::{Text, cell, for_key, joined};
use super::scenarios::{KeyList, lines, named, own_lists, refused, scenario_name};
use super::{Control, ControlError};
use crate::advice::{Advice, Audience};
use crate::diagnostic::Diagnostic;
use crate::scenario::{ScenarioOrigin, ScenarioSnapshot, Stale, read_file};
use crate::util::wording::{any_of, counted};

/// Choose the active scenarios, for all keys or one.
///
/// The list replaces the one in force, and each scenario starts at its beginning. Without `active` the key follows the list of all keys
/// again. `own_lists` names the keys that a change for all leaves alone; `diagnostics` names each scenario whose file is broken or gone,
/// so that its last valid version stays active.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Activate {
    #[serde(default)]
    pub(crate) key: KeyOrAll,
    /// Names in order; an empty list turns scenarios off. Absent, with a key: the key follows the list of all keys.
    pub(crate) active: Option<Vec<String>>,
}

impl ControlCall for Body<Activate> {
    type Answer = Activated;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::SCENARIOS, "POST scenarios/active", activate)
    }

    fn commands() -> Vec<CallCommand> {
        let uses =
            &["scenarios use rate-limit-burst", "scenarios use key-revoked-midway slow-responses --key sk_test_mine"];
        let off = &["scenarios off", "scenarios off --key sk_test_mine"];
        let follow = &["scenarios follow --key sk_test_mine"];
        let sent = |key, active| Self { body: Activate { key, active } }.sent();
        vec![
            CallCommand::new("scenarios use", uses, move |Use { active, key }| sent(key, Some(active)))
                .about("Make these scenarios the active ones, in order"),
            CallCommand::new("scenarios off", off, move |key: KeyOrAll| sent(key, Some(Vec::new())))
                .about("Turn scenarios off"),
            CallCommand::new("scenarios follow", follow, move |Follow { key }| sent(KeyOrAll { key: Some(key) }, None))
                .about("Let a key follow the scenarios of all keys again"),
        ]
    }
}

#[derive(Args)]
struct Use {
    /// Names, in order; the first rule that applies decides. Several may be joined by commas.
    #[arg(value_name = "NAMES", required = true, value_parser = scenario_name, value_delimiter = ',')]
    active: Vec<String>,
    #[command(flatten)]
    key: KeyOrAll,
}

#[derive(Args)]
struct Follow {
    /// The key, or workspace `ws_…`, whose own list ends.
    #[arg(long, env = "WRS_API_KEY", hide_env_values = true)]
    key: String,
}

/// The scenarios that are active now.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Activated {
    pub(crate) generation: u64,
    pub(crate) active: Option<Vec<String>>,
    pub(crate) key: Option<String>,
    /// The keys that keep their own list, after a change for all keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) own_lists: Vec<KeyList>,
    /// A warning for each that is active in an earlier version than its file has.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// How many keys with their own lists are named.
const MAX_NAMED: usize = 5;

impl Text for Activated {
    fn text(&self, reader: &Audience) -> String {
        let whose = for_key(self.key.as_deref());
        let active = match self.active.as_deref() {
            None => format!("the list of all keys is active{whose}"),
            Some([]) if !self.own_lists.is_empty() => "no scenario is active for the keys that follow all".to_owned(),
            Some([]) => format!("no scenario is active{whose}"),
            Some(names) => format!("active{whose}: {}", joined(names)),
        };
        let mut text = format!("{active}\n");
        for own in self.own_lists.iter().take(MAX_NAMED) {
            let key = Some(if own.is_masked { "KEY".to_owned() } else { cell(&own.key) });
            let follow = Advice::FollowScenarios { key }.worded(reader);
            text.push_str(&format!("{}; `{follow}` ends that\n", own.line()));
        }
        if let Some(more @ 1..) = self.own_lists.len().checked_sub(MAX_NAMED) {
            let more = counted(more, "more list");
            let list = Advice::ListScenarios {}.worded(reader);
            text.push_str(&format!("{more} of keys, which `{list}` shows\n"));
        }
        text + &lines(&self.diagnostics)
    }
}

fn activate(Body { body }: Body<Activate>, cx: &Context) -> Result<Activated, ControlError> {
    let Activate { key, active } = body;
    let key = named(cx, &key)?;
    let names: Option<Vec<&str>> = active.as_ref().map(|names| names.iter().map(String::as_str).collect());
    if names.is_none() && key.is_none() {
        return Err(ControlError::invalid("expected `active`, a list of scenario names"));
    }
    // The watcher may not have seen a file that was just saved. Problems with other files are reported elsewhere.
    if names.iter().flatten().any(|name| !is_as_saved(&cx.engine.library.load(), name)) {
        cx.engine.reload_changed(cx.engine.scenario_folders.read());
    }
    let listed = match names.as_deref() {
        None => "those of all keys are active".to_owned(),
        Some([]) => "none is active".to_owned(),
        Some([name]) => format!("{name} is active"),
        Some(names) => format!("{} are active", names.join(", ")),
    };
    let key = key.as_deref();
    let log = || cx.engine.note(key, format!("scenarios changed for {}: {listed}", cx.whose(key)), false);
    let generation =
        cx.engine.activate(key, names.as_deref(), log).map_err(|found| refused_with_folders(&cx.control, found))?;
    let present = cx.engine.library.load();
    let diagnostics = names.map(|names| not_as_saved(&present, &names)).unwrap_or_default();
    Ok(Activated {
        generation,
        active,
        key: key.map(|key| cx.redactor().key(key).into_owned()),
        own_lists: if key.is_none() { own_lists(&present, cx.redactor()) } else { Vec::new() },
        diagnostics,
    })
}

/// True if a scenario exists and, if it comes from a file, matches the present text of the file.
fn is_as_saved(snapshot: &ScenarioSnapshot, name: &str) -> bool {
    let found = snapshot.find(name).filter(|_| snapshot.held_back(name).is_none());
    found.is_some_and(|scenario| match &scenario.origin {
        ScenarioOrigin::File(path) => read_file(path).is_ok_and(|text| *text == *scenario.text),
        ScenarioOrigin::BuiltIn | ScenarioOrigin::Inline => true,
    })
}

/// A warning for each of these scenarios whose active version is older than its file.
fn not_as_saved(snapshot: &ScenarioSnapshot, names: &[&str]) -> Vec<Diagnostic> {
    let earlier = names.iter().filter_map(|name| match snapshot.held_back(name)? {
        Stale::Broken(problem) => {
            let mut warning = Diagnostic::clone(problem).as_warning();
            warning.message =
                format!("`{name}` is broken, so its last valid version stays active: {}", problem.message);
            Some(warning)
        }
        Stale::Deleted => {
            let file = snapshot.find(name)?.file_name();
            let message = format!("the file of `{name}` is gone, so its last valid version stays active");
            let warning = Diagnostic::of_file("scenario/active-missing", message, "restore the file");
            Some(warning.as_warning().in_file(file))
        }
    });
    earlier.collect()
}

/// The refusal of scenarios that cannot be used. The hint of an unknown one begins with the folders that are read.
fn refused_with_folders(control: &Control, mut found: Vec<Diagnostic>) -> ControlError {
    for problem in found.iter_mut().filter(|problem| problem.code == "scenario/unknown-scenario") {
        problem.hint = format!("{}; {}", how_to_add(control), problem.hint);
    }
    let is_unknown = found.iter().any(|problem| problem.code == "scenario/unknown-scenario");
    let is_broken = found.iter().any(|problem| problem.is_error() && problem.file.is_some());
    let details = (is_broken && !is_unknown).then(|| "no earlier version of it was valid".to_owned());
    refused(&found).and(details)
}

fn how_to_add(control: &Control) -> String {
    let folders = control.engine.scenario_folders.paths().map(|path| {
        let place = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let missing = if path.is_dir() { "" } else { " (not there yet)" };
        format!("{}{missing}", place.display())
    });
    let others = "start with --scenarios FOLDER, or add it now with PUT /_emulator/scenarios/NAME";
    match folders.collect::<Vec<_>>().as_slice() {
        [] => others.to_owned(),
        folders => format!("save its file in {}, {others}", any_of(folders)),
    }
}
