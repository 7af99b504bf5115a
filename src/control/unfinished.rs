//! What of the active scenarios was not played: rules with turns left, stories before their end, events yet to come.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Control;
use super::context::KeyScope;
use super::problems::CountedProblems;
use crate::redact::Redactor;
use crate::scenario::rule_counters::RuleCounters;
use crate::scenario::{EffectiveConfig, Rule, Scenario, ScenarioSnapshot, StoryProgress, Trigger};
use crate::state::journal::record::WorkspaceId;
use crate::state::workspace::Workspace;
use crate::util::wording::{any_of, counted, labelled};

/// Why a part of a scenario is unfinished, if no key is concerned.
const UNREACHED: &str = "no request reached it";

/// A rule with turns left, or a story before its end.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Unfinished {
    pub(crate) scenario: String,
    #[serde(flatten)]
    pub(crate) what: UnfinishedPart,
    /// Absent for requests without a key, and for what no request has reached.
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) message: String,
}

/// The unfinished part of a scenario.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
pub(crate) enum UnfinishedPart {
    /// A rule that applied less often than it says.
    Rule { rule: String, applied: u64, turns: u64, left: u64 },
    /// An emission with events that are yet to come.
    Emission { emission: String, planned: u64 },
    /// A story that did not reach one of its ends.
    Story { step: String, ends: Vec<String> },
}

/// A workspace, or all requests without a key, with its rule counters.
pub(super) struct ScenarioPlayer {
    /// `None` for requests without a key.
    pub(super) workspace: Option<Arc<Workspace>>,
    pub(super) turns: RuleCounters,
}

impl ScenarioPlayer {
    fn for_key(workspace: &Arc<Workspace>, activation: u64) -> Self {
        Self { workspace: Some(Arc::clone(workspace)), turns: turns_of(workspace, activation) }
    }

    /// True if a rule counts for its key.
    fn reaches(&self, rule: &Rule) -> bool {
        rule.counts_for(self.workspace.as_ref().map(|workspace| &**workspace.name()), &self.turns)
    }

    /// How many events of each emission are planned, counted in one pass, as there may be 100,000 of a thousand emissions.
    pub(super) fn planned(&self, activation: u64) -> HashMap<u64, u64> {
        let mut planned = HashMap::new();
        if let Some(workspace) = &self.workspace {
            for event in workspace.lock().timeline.planned(activation) {
                *planned.entry(event.emit.fingerprint).or_default() += 1;
            }
        }
        planned
    }

    fn name(&self, redactor: Redactor<'_>) -> String {
        match &self.workspace {
            Some(workspace) => format!("key {}", redactor.key(workspace.name())),
            None => "requests without a key".to_owned(),
        }
    }
}

/// The rule counters of a workspace in an activation.
fn turns_of(workspace: &Workspace, activation: u64) -> RuleCounters {
    let mut turns = workspace.lock().counters.clone();
    turns.switch_to(activation);
    turns
}

/// The configurations with active scenarios in the scope.
pub(super) fn configs(snapshot: &ScenarioSnapshot, scope: &KeyScope) -> Vec<Arc<EffectiveConfig>> {
    let mut configs: Vec<Arc<EffectiveConfig>> = if let KeyScope(Some(workspace)) = scope {
        vec![Arc::clone(snapshot.config_for(Some(workspace.name())))]
    } else {
        let own = snapshot.active_by_key().keys().map(|key| snapshot.config_for(Some(key)));
        [snapshot.config_for(None)].into_iter().chain(own).map(Arc::clone).collect()
    };
    configs.retain(|config| config.activation != 0);
    configs
}

/// Rules of the active scenarios with turns left, stories before their end and events yet to come: for each workspace that the scenarios
/// have applied to, or once without a workspace if there is none.
pub(super) fn unfinished(
    control: &Control,
    scope: &KeyScope,
    snapshot: &ScenarioSnapshot,
    configs: &[Arc<EffectiveConfig>],
    redactor: Redactor<'_>,
) -> CountedProblems<Unfinished> {
    let mut entries = CountedProblems::none();
    let keys = keys_by_activation(control, scope, snapshot);
    for config in configs {
        let players = players(control, scope, &keys, config.activation);
        for scenario in config.active.iter() {
            let played = ScenarioRun { scenario, players: &players, redactor };
            played.rules(&mut entries);
            played.stories(&mut entries);
            played.emissions(config.activation, &mut entries);
        }
    }
    entries
}

/// The keys that each activation has answered, read once however many activations there are; with a key in the scope, that key.
pub(super) fn keys_by_activation(
    control: &Control,
    scope: &KeyScope,
    snapshot: &ScenarioSnapshot,
) -> HashMap<u64, Vec<Arc<Workspace>>> {
    let mut found = HashMap::<u64, Vec<Arc<Workspace>>>::new();
    for workspace in scope.workspaces(&control.engine) {
        // A key with its own settings has the activation of all keys.
        let activation = snapshot.config_for(Some(workspace.name())).activation;
        if scope.0.is_some() || workspace.lock().counters.has_started(activation) {
            found.entry(activation).or_default().push(workspace);
        }
    }
    found
}

/// The players that a configuration has answered, with those without a key.
pub(super) fn players(
    control: &Control,
    scope: &KeyScope,
    keys: &HashMap<u64, Vec<Arc<Workspace>>>,
    activation: u64,
) -> Vec<ScenarioPlayer> {
    let own = keys.get(&activation).into_iter().flatten();
    let anonymous = Some(control.engine.registry.anonymous());
    let anonymous = anonymous.filter(|it| scope.0.is_none() && it.lock().counters.has_started(activation));
    let without_key = |it: Arc<Workspace>| ScenarioPlayer { workspace: None, turns: turns_of(&it, activation) };
    own.map(|workspace| ScenarioPlayer::for_key(workspace, activation)).chain(anonymous.map(without_key)).collect()
}

/// A scenario, and who may have played it.
struct ScenarioRun<'a> {
    scenario: &'a Scenario,
    players: &'a [ScenarioPlayer],
    redactor: Redactor<'a>,
}

impl<'a> ScenarioRun<'a> {
    /// The counters of each player that a part of the scenario concerns, or fresh ones if it concerns none.
    fn counters(
        &self,
        concerns: impl Fn(&ScenarioPlayer) -> bool,
    ) -> Vec<(Option<&'a ScenarioPlayer>, Cow<'a, RuleCounters>)> {
        let found = self.players.iter().filter(|player| concerns(player));
        let found: Vec<_> = found.map(|player| (Some(player), Cow::Borrowed(&player.turns))).collect();
        if found.is_empty() { vec![(None, Cow::Owned(RuleCounters::default()))] } else { found }
    }

    fn entry(&self, player: Option<&ScenarioPlayer>, what: UnfinishedPart, message: String) -> Unfinished {
        let workspace = player.and_then(|player| player.workspace.as_ref()).map(|workspace| workspace.id().into());
        Unfinished { scenario: self.scenario.name.to_string(), what, workspace, message }
    }

    fn rules(&self, entries: &mut CountedProblems<Unfinished>) {
        for rule in &self.scenario.rules {
            for (player, turns) in self.counters(|player| player.reaches(rule)) {
                let applied = turns.get(rule.fingerprint).applied;
                let Some(turns) = rule.turns_in_all().filter(|turns| applied < *turns) else { continue };
                entries.add(|| {
                    let left = turns - applied;
                    let rule_name = labelled("rule", "rule ", &rule.label);
                    let what = format!("{rule_name} of scenario `{}`", self.scenario.name);
                    let message = match player.map(|player| player.name(self.redactor)) {
                        Some(name) => format!("{what} applied {applied} of {turns} times for {name}; {left} left"),
                        None => format!("{what} was never applied: {UNREACHED}; all {turns} turns are left"),
                    };
                    let what = UnfinishedPart::Rule { rule: rule.label.to_string(), applied, turns, left };
                    self.entry(player, what, message)
                });
            }
        }
    }

    fn stories(&self, entries: &mut CountedProblems<Unfinished>) {
        let rules = &self.scenario.rules;
        let leads = |player: &ScenarioPlayer| rules.iter().any(|rule| rule.next.is_some() && player.reaches(rule));
        for (player, turns) in self.counters(leads) {
            let story = StoryProgress::of(rules, &turns).filter(|story| player.is_none() || !story.is_over());
            let Some(story) = story else { continue };
            entries.add(|| {
                let ends: Vec<String> = story.ends.iter().map(|end| format!("\"{end}\"")).collect();
                let name = player.map(|player| player.name(self.redactor));
                let who = name.unwrap_or_else(|| format!("no key, because {UNREACHED}"));
                let (scenario, step, ends) = (&self.scenario.name, &story.step, any_of(&ends));
                let message =
                    format!("the story of scenario `{scenario}` is at step \"{step}\" for {who}; it ends at {ends}");
                let (step, ends) = (step.to_string(), story.ends.iter().map(ToString::to_string).collect());
                self.entry(player, UnfinishedPart::Story { step, ends }, message)
            });
        }
    }

    /// Emissions that have begun, or are triggered by time, with events yet to come. An endless one is never unfinished.
    fn emissions(&self, activation: u64, entries: &mut CountedProblems<Unfinished>) {
        for player in self.players.iter().filter(|player| player.workspace.is_some()) {
            let plans = player.planned(activation);
            for emit in &self.scenario.emits {
                let fired = player.turns.get(emit.fingerprint).applied;
                let timed = match (&emit.trigger, emit.times) {
                    (Trigger::Every(_), None) => continue,
                    (Trigger::Every(_), Some(times)) => times.saturating_sub(fired),
                    (Trigger::Activation | Trigger::After(_), times) if fired == 0 => times.unwrap_or(1),
                    _ => 0,
                };
                let planned = timed + plans.get(&emit.fingerprint).copied().unwrap_or_default();
                if planned == 0 {
                    continue;
                }
                entries.add(|| {
                    let noun = if emit.event().is_some() { "event" } else { "rotation" };
                    let (events, name) = (counted(planned, noun), player.name(self.redactor));
                    let (emission, scenario) = (&emit.label, &self.scenario.name);
                    let message = format!(
                        "{emission} of scenario `{scenario}` has {events} yet to come for {name}; `--settle` of `exec` waits for them, and so does `--wait` of `verdict`"
                    );
                    let what = UnfinishedPart::Emission { emission: emission.to_string(), planned };
                    self.entry(Some(player), what, message)
                });
            }
        }
    }
}
