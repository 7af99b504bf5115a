//! Layer 3, the engine: the parts of the emulator, and everything that needs more than one of them.
//!
//! The control API and Rust tests drive an emulator through the methods of [`Engine`]. Must not know HTTP. Reading order: this
//! file, `keys` (from a key to its workspace, and resets), `fire`, `emissions` (what fires by itself), `deliveries` (the state of each
//! delivery),
//! `sink` (the built-in receiver), `advance` (time), `snapshot`, `reload`.

mod advance;
pub mod deliveries;
mod emissions;
mod fire;
mod keys;
mod reload;
pub mod sink;
mod snapshot;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

pub use advance::{Mover, events_made, settle, settle_ahead};
pub use emissions::emitted;
pub use fire::WORKSPACE_GONE;
pub use keys::KeyProblem;
pub use snapshot::settle_for_a_moment;

use crate::clock::SavedClock;
use crate::scenario::{EffectiveConfig, Folders, Library};
use crate::settings::Profile;
use crate::state::budget::Evictable;
use crate::state::journal::Journal;
use crate::state::workspace::{Registry, Workspace};
use crate::util::tasks::Blocking;
use deliveries::DeliveryStore;
use sink::Sinks;

#[derive(Debug)]
pub struct Engine {
    pub library: Arc<Library>,
    pub registry: Arc<Registry>,
    /// The log of requests, events, attempts and notices.
    pub journal: Arc<Journal>,
    pub deliveries: Arc<DeliveryStore>,
    pub sinks: Arc<Sinks>,
    pub scenario_folders: Folders,
    pub blocking: Blocking,
    runtime: Handle,
    stopping: watch::Receiver<bool>,
    /// Receives each workspace that needs a delivery worker.
    to_deliver: UnboundedSender<Arc<Workspace>>,
    dropped: AtomicU64,
    /// How many changes by [`Engine::begin_write`] have ended.
    writes: Arc<AtomicU64>,
    /// Held while files are loaded: of the watcher and a request that reload at once, only one reports a problem as new.
    reload: Mutex<()>,
}

/// A change in progress that is requested from outside. It is counted when this is dropped, after the change, so that a reader
/// that takes the count first and then the state misses no change.
#[derive(Debug)]
pub struct WriteGuard(Arc<AtomicU64>);

impl Drop for WriteGuard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Engine {
    /// An engine over these parts, without deliveries. Its tasks run on the current runtime until `stopping` becomes true. The
    /// receiver yields each workspace that needs a delivery worker.
    pub fn new(
        library: Library,
        registry: Registry,
        journal: Arc<Journal>,
        scenario_folders: Folders,
        stopping: watch::Receiver<bool>,
    ) -> (Arc<Self>, UnboundedReceiver<Arc<Workspace>>) {
        let (to_deliver, workspaces) = unbounded_channel();
        let budget = journal.budget().clone();
        let (deliveries, sinks) = (Arc::new(DeliveryStore::new(&budget)), Arc::new(Sinks::new(&budget)));
        let histories: [Arc<dyn Evictable>; 3] = [journal.clone(), deliveries.clone(), sinks.clone()];
        budget.evict_first(histories.iter().map(Arc::downgrade).collect());
        let engine = Self {
            library: Arc::new(library.within(&budget)),
            registry: Arc::new(registry),
            journal,
            deliveries,
            sinks,
            scenario_folders,
            blocking: Blocking::default(),
            runtime: Handle::current(),
            stopping,
            to_deliver,
            dropped: AtomicU64::new(0),
            writes: Arc::default(),
            reload: Mutex::default(),
        };
        (Arc::new(engine), workspaces)
    }

    /// Begins a change that may leave no trace in the journal.
    #[must_use]
    pub fn begin_write(&self) -> WriteGuard {
        WriteGuard(Arc::clone(&self.writes))
    }

    /// A value that differs once anything has changed.
    pub fn mark(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let clock = self.registry.clock();
        let SavedClock { frozen, ahead, .. } = clock.save();
        let (entries, writes) = (self.journal.next_number(), self.writes.load(Ordering::SeqCst));
        (entries, writes, self.library.load().number, self.registry.kept(), clock.mode(), frozen, ahead)
    }

    /// The scenarios and the profile in force for a key, or for every key without its own.
    pub fn config_for(&self, key: Option<&str>) -> Arc<EffectiveConfig> {
        Arc::clone(self.library.load().config_for(key))
    }

    /// The profile in force for a key, or for every key without its own.
    pub fn profile_for(&self, key: Option<&str>) -> Arc<Profile> {
        Arc::clone(&self.library.load().config_for(key).profile)
    }

    /// Appends a notice to the journal, by the clock of the workspace concerned, or else the emulator's. Notices explain why the
    /// emulator behaves differently from then on.
    pub fn note(&self, workspace: Option<&str>, message: impl Into<String>, warning: bool) {
        let found = workspace.and_then(|name| self.registry.find(name));
        let at = found.as_ref().map_or_else(|| self.registry.clock(), |found| found.clock()).now().wall;
        self.journal.note(at, workspace.map(Arc::from), message, warning);
    }
}
