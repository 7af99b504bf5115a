//! The configuration in force for one key: the profile with every overlay, and the indexed rules of the active scenarios. Computed when
//! scenarios or profile change, never for a request.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::Scenario;
use super::clashes::{Clash, clashes};
use super::decide::RuleSet;
use super::emit::Emit;
use super::matcher::RequestView;
use super::rule::Decision;
use super::setting_patch::{SettingPatch, diagnostic};
use crate::clock::{Instant, Random};
use crate::diagnostic::Diagnostic;
use crate::scenario::rule_counters::{LimitTrace, RuleCounters};
use crate::settings::{Draft, Layered, Profile, ProfileProblem};

/// Everything in force for one key, or for one request that names its scenarios.
#[derive(Clone, Debug)]
pub struct EffectiveConfig {
    pub layered: Layered,
    pub profile: Arc<Profile>,
    pub rules: Arc<RuleSet>,
    pub emits: Arc<[Arc<Emit>]>,
    pub active: Arc<[Arc<Scenario>]>,
    /// When the scenarios were activated, by the emulator's clock; a reload does not change it.
    pub activated_at: Instant,
    /// Which activation this is: each has counters of its own ([`RuleCounters::begin`]), and `given` state is put in place once for
    /// each. Zero for scenarios named by a request, which are never activated.
    pub activation: u64,
    /// The warnings about its scenarios, once asked for.
    pub(super) clashes: Arc<OnceLock<Vec<Clash>>>,
}

impl EffectiveConfig {
    /// The effective configuration of these scenarios over a profile and what was changed for the key. All are merged before
    /// anything is validated: a setting that is valid alone may clash with one of another scenario, and one that
    /// is invalid alone may be valid with it.
    pub(crate) fn build(
        base: &Layered,
        patch: Option<&SettingPatch>,
        active: Vec<Arc<Scenario>>,
        activated_at: Instant,
        activation: u64,
    ) -> Result<Self, Vec<Diagnostic>> {
        let overlays = active.iter().filter_map(|scenario| Some((scenario, scenario.overlay.as_ref()?)));
        let placed =
            |problem: ProfileProblem| match overlays.clone().find(|(_, overlay)| *overlay.source == *problem.source) {
                Some((scenario, _)) => problem.in_text(&scenario.text).in_file(scenario.file_name()),
                None => diagnostic(problem),
            };
        let layered = if patch.is_none() && overlays.clone().next().is_none() {
            base.clone()
        } else {
            let add = |draft: &mut Draft| {
                if let Some(patch) = patch {
                    patch.add_to(draft);
                }
                overlays.clone().for_each(|(_, overlay)| overlay.add_to(draft));
            };
            base.with(add).map_err(|problems| problems.into_iter().map(placed).collect::<Vec<_>>())?
        };
        Ok(Self {
            profile: Arc::clone(layered.profile()),
            layered,
            rules: Arc::new(RuleSet::new(active.iter().map(|scenario| scenario.rule_index()))),
            emits: active.iter().flat_map(|scenario| scenario.emits.iter().cloned()).collect(),
            active: active.into(),
            activated_at,
            activation,
            clashes: Arc::default(),
        })
    }

    /// Warnings about active scenarios that decide the same requests or set the same setting.
    pub(crate) fn clashes(&self) -> &[Clash] {
        self.clashes.get_or_init(|| clashes(&self.active))
    }

    /// The decision of the scenarios on a request, at this time after activation; `None` for the ordinary answer.
    pub fn decide_by_rules(
        &self,
        view: &RequestView<'_>,
        counters: &mut RuleCounters,
        since_activation: Duration,
        random: &mut Random,
    ) -> Option<Decision> {
        counters.begin(self.activation);
        counters.limits = LimitTrace::default();
        self.rules.first_decision(view, counters, since_activation, random)
    }
}
