//! Saves one workspace for a snapshot and restores it: state, counters, progress of scenarios, clock, random sources. The engine
//! adds what is kept elsewhere: planned events, deliveries, tokens.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::subscriptions::Subscriptions;
use super::workflows::Workflows;
use super::{Registry, State, Workspace};
use crate::clock::{Instant, Random, restore_random, save_random};
use crate::rate_limit::Quota;
use crate::snapshot::{SavedQuota, SavedScenarios, SavedWorkspace, Sources};

impl Workspace {
    /// The workspace for a snapshot; `activation` is the activation of scenarios in force for it. Lists that the engine fills are
    /// empty.
    pub fn save(&self, activation: u64) -> SavedWorkspace {
        let state = self.lock();
        let (turns, steps) = state.counters.save(activation);
        let (named_turns, named_steps) = state.counters.save(0);
        SavedWorkspace {
            key: self.name().to_string(),
            clock: self.clock().save(),
            sources: state.save_sources(),
            quotas: state.saved_quotas(self.name()).collect(),
            subscriptions: state.subscriptions.save(),
            workflows: state.workflows.save(),
            users: state.workflows.save_users(),
            scenarios: SavedScenarios {
                active: Vec::new(),
                own: false,
                active_for: 0,
                began: state.began(activation).map(Instant::nanos),
                turns,
                steps,
                named_turns,
                named_steps,
            },
            knobs: RawValue::NULL.to_owned(),
            tokens: Vec::new(),
            planned: Vec::new(),
            deliveries: Vec::new(),
        }
    }
}

impl Registry {
    /// The workspace that a snapshot describes, not yet in the registry; the error says what is invalid. Its clock continues from
    /// its saved instant, `elapsed` later if it was running.
    pub fn restored(&self, saved: &SavedWorkspace, elapsed: Duration) -> Result<Arc<Workspace>, String> {
        let workspace = self.fresh(Arc::from(saved.key.as_str()));
        workspace.clock.restore(&saved.clock, elapsed);
        workspace.lock().restore(saved)?;
        Ok(Arc::new(workspace))
    }
}

impl Registry {
    /// Checks that these are valid random sources.
    pub fn check_sources(&self, saved: &Sources) -> Result<(), String> {
        restore_sources(saved).map(drop)
    }
}

impl State {
    fn restore(&mut self, saved: &SavedWorkspace) -> Result<(), String> {
        self.restore_sources(&saved.sources)?;
        let (own, others) = saved.quotas.iter().partition::<Vec<_>, _>(|(key, _)| **key == saved.key);
        self.quota = own.first().map(|(_, quota)| Quota::restore(quota)).unwrap_or_default();
        let quota = |(key, quota): (&String, _)| (Arc::from(key.as_str()), Quota::restore(quota));
        self.group_quotas = others.into_iter().map(quota).collect();
        let budget = self.budget().clone();
        self.subscriptions = Subscriptions::restore(&saved.subscriptions, &budget)?;
        self.workflows = Workflows::restore(&saved.workflows, &saved.users, &budget)?;
        self.counters.restore(0, &saved.scenarios.named_turns, &saved.scenarios.named_steps);
        Ok(())
    }

    /// The quotas that were used, by key.
    fn saved_quotas<'a>(&'a self, name: &'a Arc<str>) -> impl Iterator<Item = (String, SavedQuota)> + 'a {
        let all = std::iter::once((name, &self.quota)).chain(&self.group_quotas);
        all.map(|(key, quota)| (key.to_string(), quota.save())).filter(|(_, saved)| *saved != SavedQuota::None)
    }

    /// Restores the progress of the scenarios, under their present activation.
    pub fn restore_scenarios(&mut self, saved: &SavedScenarios, activation: u64) {
        self.counters.restore(activation, &saved.turns, &saved.steps);
        if let Some(began) = saved.began {
            self.record_activation(activation, Instant::from_nanos(began));
        }
    }

    /// The random sources for a snapshot.
    pub fn save_sources(&self) -> Sources {
        Sources {
            random: STANDARD.encode(save_random(&self.random)),
            serial: self.serial,
            event_random: STANDARD.encode(save_random(&self.event_random)),
            event_serial: self.event_serial,
        }
    }

    /// Restores the random sources.
    pub fn restore_sources(&mut self, saved: &Sources) -> Result<(), String> {
        (self.random, self.event_random) = restore_sources(saved)?;
        (self.serial, self.event_serial) = (saved.serial, saved.event_serial);
        Ok(())
    }
}

fn restore_sources(saved: &Sources) -> Result<(Random, Random), String> {
    let source = |name: &str, text: &str| {
        let bytes = STANDARD.decode(text).ok().and_then(|bytes| <[u8; 49]>::try_from(bytes).ok());
        bytes.map(|bytes| restore_random(&bytes)).ok_or_else(|| format!("sources.{name}: expected 49 bytes as base64"))
    };
    Ok((source("random", &saved.random)?, source("event_random", &saved.event_random)?))
}
