//! Events as they are requested and recorded: what to fire, for whom, and which subscriptions it goes to. How one is fired is in
//! `fire`.

use std::sync::{Arc, OnceLock};

use hyper::body::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use url::Url;

use crate::budget::{Budget, Charge, Full};
use crate::clock::Instant;
use crate::contract::signature::Tamper;

/// Most characters of an emission's name that are repeated in texts.
const LONGEST_NAME: usize = 80;

/// What fires an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A Rust test that embeds the emulator.
    #[default]
    Embedding,
    /// `trigger`, or the control API.
    Command,
    /// A workflow of the preview that completed.
    Workflow,
    /// An emission of a scenario.
    Emission {
        /// The scenario's name.
        scenario: Arc<str>,
        /// The emission: its name as `` emission `late` ``, or its position as `emission 3`.
        emission: Arc<str>,
    },
}

impl Origin {
    /// The origin of the events of a scenario's emission, which has this name or, without one, the position `label` (`emit 3`).
    pub fn emission(scenario: &Arc<str>, name: Option<&str>, label: &str) -> Self {
        let emission = match name {
            Some(name) => format!("emission `{}`", name.chars().take(LONGEST_NAME).collect::<String>()),
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
    /// The event type.
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
    /// What fires it; outputs that show a damaged delivery name it.
    pub origin: Origin,
}

/// An event that was fired.
#[derive(Clone, Debug)]
pub struct EventRecord {
    /// Form `evt_<id>`.
    pub id: String,
    /// The workspace it belongs to.
    pub workspace: Arc<str>,
    /// The event type.
    pub event_type: String,
    /// When it occurred.
    pub created_at: Timestamp,
    /// When it was queued for delivery: when it happened, or later if it is delivered again.
    pub handed_at: Timestamp,
    /// The envelope's bytes as signed and sent.
    pub body: Bytes,
    /// When first attempts are due.
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
    /// What fired it.
    pub origin: Origin,
    /// Parts of its data that a template could not produce; a few short texts.
    pub warnings: Vec<String>,
    /// Held for as long as any record shares the event: it is charged once, whatever the number of its deliveries.
    pub charge: Option<Arc<Charge>>,
}

impl EventRecord {
    /// Charges the event to a budget.
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

/// One event on its way to one subscription.
#[derive(Clone, Debug)]
pub struct PlannedDelivery {
    /// Form `dlv_<id>`.
    pub id: String,
    /// The subscription.
    pub subscription: String,
    /// The subscription's URL as it is dialled.
    pub url: Arc<str>,
    /// The same URL, parsed.
    pub target: Arc<Url>,
    /// Attempts made before it was queued: more than 0 only after a snapshot was loaded.
    pub attempts_before: u32,
    /// Its number in the delivery store, once it is entered there.
    pub serial: OnceLock<u64>,
}

/// A subscription that an event does not go to.
#[derive(Clone, Debug)]
pub struct SkippedSubscription {
    /// The subscription.
    pub subscription: String,
    /// Its URL.
    pub url: Arc<str>,
    /// Why.
    pub reason: SkipReason,
}

/// Why an event does not go to a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// It does not subscribe to the event type.
    TypeNotSubscribed,
    /// A receiver answered 410 Gone.
    Disabled,
    /// The request names another subscription.
    NotNamed,
}
