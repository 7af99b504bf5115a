//! Control of a running emulator from a Rust test, without a socket: time, events, scenarios, resets, snapshots.
//!
//! It calls the same methods of the engine as the control API does. It must not know HTTP.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Instant, Now};
use crate::diagnostic::Diagnostic;
use crate::settings::Profile;
use crate::state::engine::deliveries::DeliveryStore;
use crate::state::engine::sink::Receipt;
use crate::state::engine::{Engine, FireProblem, KeyProblem, wait_idle_briefly};
use crate::state::journal::{Entry, Journal, NoticeKind};
use crate::state::workspace::{EventRecord, FireRequest, SnapshotProblem};

/// Controls a running emulator from a Rust test, without a socket. Cloning it is cheap.
///
/// The example fires a webhook, waits for its delivery, and restores the state before it. `NAME.sink.localhost` is a receiver
/// built into the emulator. The subscription is given by a scenario; a client can also make one with `POST /v1/events/subscribe`.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use std::time::Duration;
/// use wrs_emulator::{Emulator, FireRequest};
///
/// let hook = "[[given.subscription]]\nurl = 'https://app.sink.localhost/'\nevents = ['workflow.completed']";
/// let start = "2026-01-31T09:30:00Z".parse()?;
/// let emulator = Emulator::builder().seed(7).frozen_at(start).scenario_text(hook).start().await?;
/// let (control, key) = (emulator.control(), "sk_test_local");
/// let before = control.snapshot().await;
///
/// // An event, delivered and verified.
/// let event = || FireRequest { event_type: "workflow.completed".into(), ..FireRequest::default() };
/// control.fire(key, event())?;
/// control.settle().await;
/// assert!(control.received("app")[0].verified.is_ok());
///
/// // A frozen clock moves only when it is advanced; quota windows, retries and everything else due happen in order.
/// let now = control.advance(Duration::from_secs(60)).await;
/// assert_eq!(now.wall, start + Duration::from_secs(60));
///
/// // Reset one key, then restore everything from the snapshot.
/// control.reset(key)?;
/// control.restore(&before)?;
/// assert_eq!(control.clock().now().wall, start);
/// emulator.stop().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ControlHandle {
    engine: Arc<Engine>,
}

/// Why a reset was refused.
#[derive(Debug, thiserror::Error)]
pub enum ResetProblem {
    /// The key has no workspace.
    #[error("cannot reset the key: {0}")]
    Key(String),
    /// The scenarios active at the start cannot be made active again; carries the first problem.
    #[error("nothing was reset: {0}")]
    Scenarios(String),
}

impl ControlHandle {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// The emulator's clock.
    pub fn clock(&self) -> &Clock {
        self.engine.registry.clock()
    }

    /// Moves the emulator's clock forward and returns when everything that was due on the way is done, in order.
    pub async fn advance(&self, by: Duration) -> Now {
        let _writing = self.engine.begin_write();
        self.engine.clock_driver(None).advance(by).await
    }

    /// Waits until every event and delivery attempt that is due now has finished.
    pub async fn settle(&self) {
        self.engine.settle().await;
    }

    /// When the next attempt, emission or delayed answer of any key is due; `None` if nothing is planned.
    pub fn next_due_of_all(&self) -> Option<Instant> {
        let registry = &self.engine.registry;
        let all = registry.all().into_iter().chain([registry.anonymous()]);
        all.filter_map(|workspace| workspace.agenda().next_due()).min()
    }

    /// When the next attempt, emission or delayed answer of this key is due, by its clock.
    pub fn next_due(&self, key: &str) -> Option<Instant> {
        let workspace = self.engine.workspace_name(Some(key)).ok()?;
        self.engine.registry.find(&workspace)?.agenda().next_due()
    }

    /// The journal.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.engine.journal
    }

    /// A receiver on this machine that does not listen any more gets no further retry.
    pub(crate) fn end_receivers(&self) {
        self.engine.end_receivers();
    }

    /// The warnings in the journal, oldest first; without those of failed tests, which their runner reports.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.engine.journal.search(None, usize::MAX, |_, entry| match entry {
            Entry::Notice(notice) if notice.warning && notice.kind != NoticeKind::TestEnded => {
                Some(notice.message.clone())
            }
            _ => None,
        });
        warnings.reverse();
        warnings
    }

    /// The deliveries.
    pub fn deliveries(&self) -> &Arc<DeliveryStore> {
        &self.engine.deliveries
    }

    /// The deliveries that the built-in receiver `NAME.sink.localhost` received, oldest first.
    pub fn received(&self, sink: &str) -> Vec<Receipt> {
        self.engine.sinks.received(sink).into_iter().map(|(_, receipt)| Receipt::clone(&receipt)).collect()
    }

    /// The profile in force for a key.
    pub fn profile(&self, key: &str) -> Arc<Profile> {
        let workspace = self.engine.workspace_name(Some(key)).unwrap_or_else(|_| Arc::from(key));
        self.engine.profile_for(Some(&workspace))
    }

    /// The profile in force for every key without its own.
    pub(crate) fn profile_of_all(&self) -> Arc<Profile> {
        self.engine.profile_for(None)
    }

    /// The names of the scenarios active for every key without its own list, and the number of scenario files.
    pub(crate) fn scenarios(&self) -> (Vec<String>, usize) {
        let snapshot = self.engine.library.load();
        (snapshot.active().names.iter().map(ToString::to_string).collect(), snapshot.file_count())
    }

    /// Fires an event at the matching subscriptions of a key.
    pub fn fire(&self, key: &str, request: FireRequest) -> Result<Arc<EventRecord>, FireProblem> {
        let engine = &self.engine;
        // An invalid key gets a workspace without subscriptions, so the event has no deliveries.
        let workspace =
            engine.workspace(Some(key)).unwrap_or_else(|_| engine.registry.open(key, engine.registry.clock().now()));
        engine.fire(&workspace, request, &engine.profile_for(Some(workspace.name())))
    }

    /// Makes these scenarios active, in order, for all keys or for one; an empty list turns scenarios off. Returns the number of
    /// the new snapshot. On an error nothing changes.
    pub fn use_scenarios(&self, key: Option<&str>, names: &[&str]) -> Result<u64, Vec<Diagnostic>> {
        // A key that is invalid now may be valid under another profile.
        let name = key.map(|key| self.engine.workspace_name(Some(key)).unwrap_or_else(|_| Arc::from(key)));
        self.engine.activate(name.as_deref(), Some(names), || ())
    }

    /// Resets a key, as `POST reset` does: its next request counts as its first.
    pub fn reset(&self, key: &str) -> Result<(), ResetProblem> {
        let _writing = self.engine.begin_write();
        let refused = |problem: KeyProblem| ResetProblem::Key(problem.to_string());
        self.engine.reset(&*self.engine.workspace(Some(key)).map_err(refused)?);
        Ok(())
    }

    /// Resets everything to the state after the start, clock included.
    pub fn reset_all(&self) -> Result<(), ResetProblem> {
        let _writing = self.engine.begin_write();
        let refused = |found: Vec<Diagnostic>| {
            ResetProblem::Scenarios(found.first().map_or_else(String::new, Diagnostic::one_line))
        };
        self.engine.reset_all().map(drop).map_err(refused)
    }

    /// The whole state as a JSON document, as `GET snapshot?key=*` returns it. Waits up to three seconds for work that is due.
    pub async fn snapshot(&self) -> Vec<u8> {
        wait_idle_briefly(&self.engine.registry.all()).await;
        self.engine.snapshot(None).written()
    }

    /// Replaces the state with that of a snapshot. Returns warnings about parts that could not be restored. On an error
    /// nothing changes.
    pub fn restore(&self, snapshot: &[u8]) -> Result<Vec<String>, SnapshotProblem> {
        let _writing = self.engine.begin_write();
        self.engine.load_snapshot(self.engine.read_snapshot(Cursor::new(snapshot))?)
    }

    /// Appends a notice to the journal.
    pub fn note(&self, message: impl Into<String>) {
        self.engine.note(None, message, false);
    }
}
