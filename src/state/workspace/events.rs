//! Events as they are requested and recorded: what to fire, for whom, which subscriptions it goes to, and what is deliberately wrong
//! with its deliveries, in words. Every output that shows a damaged delivery contains this text, so that nobody mistakes it for a
//! bug. How an event is fired is in `fire`.

use std::sync::{Arc, OnceLock};

use hyper::body::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use url::Url;

use crate::clock::Instant;
use crate::contract::signature::Tamper;
use crate::settings::Profile;
use crate::state::budget::{Budget, Charge, Full};
use crate::util::duration::duration_text;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A Rust test that embeds the emulator.
    #[default]
    Embedding,
    /// `trigger`, or the control API.
    Command,
    Workflow,
    Emission {
        scenario: Arc<str>,
        /// The emission: its name as `` emission `late` ``, or its position as `emission 3`.
        emission: Arc<str>,
    },
}

impl Origin {
    /// The origin of the events of a scenario's emission, which has this name or, without one, the position `label` (`emit 3`).
    pub fn emission(scenario: &Arc<str>, name: Option<&str>, label: &str) -> Self {
        let emission = match name {
            Some(name) => format!("emission `{name}`"),
            None => format!("emission {}", label.trim_start_matches("emit ")),
        };
        Self::Emission { scenario: Arc::clone(scenario), emission: emission.into() }
    }

    /// The scenario and its emission, as log lines name them.
    pub fn in_scenario(&self) -> Option<String> {
        match self {
            Self::Emission { scenario, emission } => Some(format!("scenario `{scenario}`, {emission}")),
            Self::Embedding | Self::Command | Self::Workflow => None,
        }
    }
}

/// A request to fire an event.
#[derive(Clone, Debug, Default)]
pub struct FireRequest {
    pub event_type: String,
    /// The whole `data`; the profile's default for the type when absent.
    pub data: Option<Map<String, Value>>,
    /// Single fields of `data` to change, by dotted path; each must exist.
    pub set: Vec<(String, Value)>,
    /// One subscription instead of every matching one.
    pub subscription: Option<String>,
    /// When the first attempts are due; at once when absent.
    pub due: Option<Instant>,
    /// What is falsified in each delivery.
    pub tamper: Option<Tamper>,
    /// Copies of each delivery besides the first; the profile may set a higher total.
    pub extra_copies: u32,
    /// Whether the events of one call or trigger are sent in another order than they happen.
    pub shuffled: bool,
    /// Whether nothing is delivered, as if the event were lost on the way.
    pub lost: bool,
    pub origin: Origin,
}

#[derive(Clone, Debug, Default)]
pub struct EventRecord {
    /// Form `evt_<id>`.
    pub id: String,
    pub workspace: Arc<str>,
    pub event_type: String,
    pub created_at: Timestamp,
    /// When it was queued for delivery: when it happened, or later if it is delivered again.
    pub handed_at: Timestamp,
    /// The envelope's bytes as signed and sent.
    pub body: Bytes,
    pub due: Instant,
    /// The subscriptions that it goes to.
    pub deliveries: Vec<Arc<PlannedDelivery>>,
    /// The subscriptions that it does not go to, and why.
    pub skipped: Vec<SkippedSubscription>,
    /// What is falsified in each delivery.
    pub tamper: Option<Tamper>,
    /// Whether nothing is delivered, as if the event were lost on the way.
    pub lost: bool,
    /// What is deliberately wrong with the deliveries, and who asked for it.
    pub damage: Option<Arc<str>>,
    pub origin: Origin,
    /// Parts of its data that a template could not produce; a few short texts.
    pub warnings: Vec<String>,
    /// Held for as long as any record shares the event: it is charged once, whatever the number of its deliveries.
    pub charge: Option<Arc<Charge>>,
}

impl EventRecord {
    pub fn charged(mut self, budget: &Budget) -> Result<Self, Full> {
        const FIXED: usize = 512;
        let damage = self.damage.as_ref().map_or(0, |damage| damage.len());
        let targets = DELIVERY * self.deliveries.len() + SKIPPED * self.skipped.len();
        self.charge = Some(Arc::new(budget.charge(FIXED + self.body.len() + damage + targets)?));
        Ok(self)
    }
}

/// Bytes of a planned delivery, and of a skipped subscription.
const DELIVERY: usize = 320;
const SKIPPED: usize = 64;

#[derive(Clone, Debug)]
pub struct PlannedDelivery {
    /// Form `dlv_<id>`.
    pub id: String,
    pub subscription: String,
    /// The subscription's URL, normalised, before any forward.
    pub url: Arc<Url>,
    /// Attempts made before it was queued: more than 0 only after a snapshot was loaded.
    pub attempts_before: u32,
    /// Its number in the delivery store, once it is entered there.
    pub serial: OnceLock<u64>,
}

#[derive(Clone, Debug)]
pub struct SkippedSubscription {
    pub subscription: String,
    pub url: Arc<Url>,
    pub reason: SkipReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    TypeNotSubscribed,
    /// By a receiver that answered 410 Gone, or by a call.
    Disabled,
    /// The request names another subscription.
    NotNamed,
}

impl FireRequest {
    /// How many copies of each delivery are sent: as many as were requested, and at least as many as the profile sets.
    pub(super) fn copies(&self, profile: &Profile) -> u32 {
        profile.webhooks.copies.get().max(self.extra_copies.saturating_add(1))
    }

    /// What is deliberately wrong with the deliveries, and who asked for it or which setting causes it; `None` if nothing is.
    pub fn damage(&self, profile: &Profile) -> Option<Arc<str>> {
        let parts: Vec<String> = self.asked_for().into_iter().chain(self.by_settings(profile)).collect();
        (!parts.is_empty()).then(|| parts.join(", ").into())
    }

    fn by_settings(&self, profile: &Profile) -> impl Iterator<Item = String> {
        let (copies, longest) = (self.copies(profile), profile.webhooks.scatter.get());
        let copied = copies > self.extra_copies.saturating_add(1);
        let copied = copied.then(|| format!("sent {copies} times deliberately (setting webhooks.copies)"));
        let delayed = || format!("delayed deliberately by up to {} (setting webhooks.scatter)", duration_text(longest));
        let swap = profile.webhooks.swap.get();
        let swapped = || format!("every other event held back by {} (setting webhooks.swap)", duration_text(swap));
        copied.into_iter().chain((!longest.is_zero()).then(delayed)).chain((!swap.is_zero()).then(swapped))
    }

    fn asked_for(&self) -> Option<String> {
        let copies = self.extra_copies.saturating_add(1);
        let kinds = [
            self.tamper.map(|tamper| {
                (format!("tampered deliberately: {}", tamper.name()), format!("--tamper {}", tamper.name()))
            }),
            (copies > 1).then(|| (format!("sent {copies} times deliberately"), format!("--duplicate {copies}"))),
            self.shuffled.then(|| ("sent out of order deliberately".to_owned(), "--shuffle".to_owned())),
            self.lost.then(|| ("dropped deliberately".to_owned(), "--drop".to_owned())),
        ];
        let (what, flags): (Vec<String>, Vec<String>) = kinds.into_iter().flatten().unzip();
        if what.is_empty() {
            return None;
        }
        let by = self.origin.in_scenario().unwrap_or_else(|| match self.origin {
            Origin::Command => format!("`trigger {}`, or POST /_emulator/events", flags.join(" ")),
            _ => "a `FireRequest`".to_owned(),
        });
        Some(format!("{} ({by})", what.join(", ")))
    }
}
