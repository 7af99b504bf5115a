//! Layer 3, the engine: the parts of the emulator, and everything that needs more than one of them.
//!
//! The control API and Rust tests drive an emulator through the methods of [`Engine`]. Independent of HTTP. Reading order: this
//! file (from a key to its workspace, resets, new contents of the scenario folders), `fire`, `deliveries` (the state of each delivery), `sink` (the built-in receiver),
//! `advance` (time), `auto` (time that passes by itself), `snapshot`.
//!
//! A workspace is not emptied but replaced: tasks that still work for the old one see that it is gone, and the next request of
//! its key gets a new one. So nothing from before a reset can appear after it.

mod advance;
mod auto;
pub mod deliveries;
mod emissions;
mod fire;
mod movers;
pub mod sink;
mod snapshot;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::SignedDuration;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub use advance::{ClockDriver, settle, wait_for_events, wait_idle, wait_idle_ahead};
pub use emissions::fire_request_of;
pub use fire::{FireProblem, event_content};
pub use snapshot::wait_idle_briefly;

use crate::clock::{Clock, ClockMode, SavedClock};
use crate::contract::keys::{SAMPLE_KEY, check_key, not_a_key};
use crate::diagnostic::Diagnostic;
use crate::scenario::{EffectiveConfig, FileTexts, Folders, Reload, ScenarioStore, Stale};
use crate::settings::Profile;
use crate::state::budget::{History, NoRoom};
use crate::state::journal::{Journal, Notice, NoticeKind};
use crate::state::workspace::{Registry, Workspace};
use crate::util::flag::Flag;
use crate::util::tasks::Blocking;
use crate::util::wording::quoted;
use deliveries::DeliveryStore;
use movers::Movers;
use sink::Sinks;

/// Maximum number of problems of scenario files reported at a time; `GET scenarios` lists all.
const MAX_REPORTED: usize = 10;

#[derive(Debug, thiserror::Error)]
pub enum KeyProblem {
    /// `*`, which names all of them.
    #[error("key: `*` is not allowed here; name one key")]
    All,
    #[error("there is no workspace `{}`", quoted(.0))]
    UnknownId(String),
    #[error("{0}")]
    Invalid(String),
    #[error("there is no room for the workspace of one more key: {0}")]
    NoRoom(NoRoom),
}

#[derive(Debug)]
pub struct Engine {
    pub library: Arc<ScenarioStore>,
    pub registry: Arc<Registry>,
    pub journal: Arc<Journal>,
    pub deliveries: Arc<DeliveryStore>,
    pub sinks: Arc<Sinks>,
    pub scenario_folders: Folders,
    pub blocking: Blocking,
    runtime: Handle,
    stopping: Flag,
    /// Set once nothing starts a receiver on this machine again.
    receivers_ended: AtomicBool,
    /// Receives each workspace that needs a delivery worker.
    to_deliver: UnboundedSender<Arc<Workspace>>,
    /// How many changes by [`Engine::begin_write`] have ended.
    writes: Arc<AtomicU64>,
    /// Held while files are loaded: of the watcher and a request that reload at once, only one reports a problem as new.
    reload: Mutex<()>,
    /// The scenarios by which due events were last looked for in all workspaces.
    last_checked_generation: Mutex<u64>,
    machine: Clock,
    movers: Movers,
}

/// A change in progress that is requested from outside. It is counted when this is dropped, after the change, so that a reader
/// that reads the count first and then the state misses no change.
#[derive(Debug)]
pub struct WriteGuard(Arc<AtomicU64>);

/// A value that differs once anything has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeStamp {
    entries: u64,
    writes: u64,
    generation: u64,
    workspaces: usize,
    mode: ClockMode,
    frozen: bool,
    ahead: SignedDuration,
}

impl Drop for WriteGuard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Engine {
    /// An engine over these parts, without deliveries. Its tasks run on the current runtime until `stopping` is raised. The
    /// receiver yields each workspace that needs a delivery worker.
    pub fn new(
        library: ScenarioStore,
        registry: Registry,
        journal: Arc<Journal>,
        scenario_folders: Folders,
        stopping: Flag,
    ) -> (Arc<Self>, UnboundedReceiver<Arc<Workspace>>) {
        let (to_deliver, workspaces) = unbounded_channel();
        let budget = journal.budget().clone();
        let (deliveries, sinks) = (Arc::new(DeliveryStore::new(&budget)), Arc::new(Sinks::new(&budget)));
        let histories: [Arc<dyn History>; 3] = [journal.clone(), deliveries.clone(), sinks.clone()];
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
            receivers_ended: AtomicBool::new(false),
            to_deliver,
            writes: Arc::default(),
            reload: Mutex::default(),
            last_checked_generation: Mutex::default(),
            machine: Clock::real(),
            movers: Movers::default(),
        };
        (Arc::new(engine), workspaces)
    }

    /// From now on, a receiver on this machine that was reached before and does not listen any more has ended.
    pub fn end_receivers(&self) {
        self.receivers_ended.store(true, Ordering::SeqCst);
    }

    /// True if nothing will listen again at the address of this URL, which is on this machine and refuses connections.
    pub fn has_receiver_ended(&self, dialled: &str) -> bool {
        self.receivers_ended.load(Ordering::SeqCst) && self.deliveries.was_reached(dialled)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_raised()
    }

    /// Begins a change that may leave no trace in the journal.
    #[must_use]
    pub fn begin_write(&self) -> WriteGuard {
        WriteGuard(Arc::clone(&self.writes))
    }

    pub fn change_stamp(&self) -> ChangeStamp {
        let clock = self.registry.clock();
        let SavedClock { frozen, ahead, .. } = clock.save();
        ChangeStamp {
            entries: self.journal.next_number(),
            writes: self.writes.load(Ordering::SeqCst),
            generation: self.library.load().number,
            workspaces: self.registry.kept(),
            mode: clock.mode(),
            frozen,
            ahead,
        }
    }

    /// The scenarios and the profile in force for a workspace, or for every key without its own.
    pub fn config_for(&self, workspace: Option<&str>) -> Arc<EffectiveConfig> {
        Arc::clone(self.library.load().config_for(workspace))
    }

    /// The profile in force for a workspace, or for every key without its own.
    pub fn profile_for(&self, workspace: Option<&str>) -> Arc<Profile> {
        Arc::clone(&self.library.load().config_for(workspace).profile)
    }

    /// Appends a notice to the journal, by the clock of the workspace concerned, or else the emulator's. Notices explain why the
    /// emulator behaves differently from then on.
    pub fn note(&self, workspace: Option<&str>, message: impl Into<String>, warning: bool) {
        self.notify(NoticeKind::Other, workspace, message, warning);
    }

    /// The same, with what programs know it by.
    pub fn notify(&self, kind: NoticeKind, workspace: Option<&str>, message: impl Into<String>, warning: bool) {
        let found = workspace.and_then(|name| self.registry.find(name));
        let at = found.as_ref().map_or_else(|| self.registry.clock(), |found| found.clock()).now().wall;
        let workspace = workspace.map(Arc::from);
        self.journal.notify(Notice { kind, at, workspace, message: message.into(), warning });
    }

    /// The workspace of a key, or of the sample key if there is none. It is created for a valid key that has made no request yet.
    pub fn workspace(self: &Arc<Self>, key: Option<&str>) -> Result<Arc<Workspace>, KeyProblem> {
        let name = self.workspace_name(key)?;
        if let Some(known) = self.registry.find(&name) {
            return Ok(known);
        }
        self.room().map_err(KeyProblem::NoRoom)?;
        Ok(self.open_workspace(&name))
    }

    /// The name of that workspace, whether or not it exists yet.
    pub fn workspace_name(&self, key: Option<&str>) -> Result<Arc<str>, KeyProblem> {
        let key = key.unwrap_or(SAMPLE_KEY);
        if key == "*" {
            return Err(KeyProblem::All);
        }
        if let Some(workspace) = self.registry.find(key) {
            return Ok(Arc::clone(workspace.name()));
        }
        let profile = self.profile_for(Some(key));
        if let Err(refusal) = check_key(key, profile.key_rules()) {
            return Err(match key.strip_prefix("ws_") {
                Some(_) => KeyProblem::UnknownId(key.to_owned()),
                None => KeyProblem::Invalid(not_a_key(key, refusal, profile.key_rules())),
            });
        }
        Ok(Arc::from(key))
    }

    /// Makes sure that more may be kept; see [`Budget::room`](crate::state::budget::Budget::room).
    pub fn room(&self) -> Result<(), NoRoom> {
        self.journal.budget().room()
    }

    /// If there may be no room for scenarios or settings of one more key, takes back those of the keys whose test has ended, as its
    /// runner reported, and of those that were evicted.
    pub fn make_room_for_key(&self, key: &str) {
        if self.library.load().may_be_full_of_keys() || self.room().is_err() {
            let has_ended = |known: Arc<Workspace>| known.lock().test().is_some();
            let is_over = |other: &str| other != key && self.registry.find(other).is_none_or(has_ended);
            self.library.forget_keys(self.registry.clock().instant(), is_over);
        }
    }

    /// Opens a workspace, within the bound on their number, starts the scenarios that are active for it, and fires due events.
    fn open_workspace(self: &Arc<Self>, name: &str) -> Arc<Workspace> {
        let workspace = self.registry.open(name, self.registry.clock().now());
        let is_due = {
            let mut state = workspace.lock();
            // Read under the lock, so that of two activations the later one is applied last.
            let snapshot = self.library.load();
            let now = workspace.clock().now();
            Self::start_scenarios(&workspace, &mut state, snapshot.config_for(Some(name)), now)
        };
        if is_due {
            self.fire_due(&workspace);
        }
        workspace
    }

    /// Activates these scenarios in this order, for every key or for one, whose list starts at once. Without names, a key follows
    /// the list of all keys again. `log` is called before the first events.
    pub fn activate(
        self: &Arc<Self>,
        key: Option<&str>,
        names: Option<&[&str]>,
        log: impl FnOnce(),
    ) -> Result<u64, Vec<Diagnostic>> {
        let now = self.registry.clock().instant();
        if let (Some(_), Some(key)) = (names, key) {
            self.make_room_for_key(key);
        }
        let number = match (names, key) {
            (Some(names), key) => self.library.activate(key, names, now)?,
            (None, Some(key)) => self.library.follow_global(key, now),
            (None, None) => self.library.load().number,
        };
        log();
        if let Some(key) = key {
            self.open_workspace(key);
        }
        Ok(number)
    }

    /// Resets one workspace: its state, quota, clock and random source, its own scenarios and settings, its journal entries and
    /// its deliveries.
    pub fn reset(&self, workspace: &Workspace) {
        let name = workspace.name();
        self.library.forget_key(name, self.registry.clock().instant());
        self.clear(name);
    }

    /// Resets everything: all workspaces, all changes by the control API, what the built-in receivers received. The clock returns
    /// to the time of the start, or to the machine's time.
    pub fn reset_all(&self) -> Result<Vec<Arc<Workspace>>, Vec<Diagnostic>> {
        self.library.restart(self.registry.clock().instant())?;
        // In this order: a task that moves the restarted clock must not find a workspace from before.
        let removed = self.clear_all();
        self.registry.clock().restart();
        Ok(removed)
    }

    /// Removes a workspace with its deliveries and journal entries. The workspace is removed first, so that no
    /// entry is added after they are cleared.
    pub(super) fn clear(&self, name: &Arc<str>) {
        self.registry.remove(name);
        let profile = self.profile_for(None);
        self.deliveries.clear(|of| of == name);
        self.journal.clear(|entry| entry.is_of(name, &profile.keys));
    }

    /// Removes every workspace with its deliveries and journal entries, and what the built-in receivers received.
    pub(super) fn clear_all(&self) -> Vec<Arc<Workspace>> {
        let removed = self.registry.remove_all();
        self.deliveries.clear(|_| true);
        self.journal.clear_all();
        self.sinks.clear();
        removed
    }
}

impl Engine {
    /// Loads the contents of all scenario files, and reports changes and files that are newly held back or not read. A broken file
    /// does not affect other files.
    pub fn reload_changed(self: &Arc<Self>, mut texts: FileTexts) -> Reload {
        let _reload = self.reload.lock();
        let now = self.registry.clock().now();
        let known = self.problems();
        let had_held_back = !known[0].0.is_empty();
        texts.extend(self.gone_folder());
        let reload = self.library.reload_files(texts, now.instant);
        if reload.is_new {
            self.note(None, format!("scenarios reloaded: {}", reload.changes.join("; ")), false);
        } else if had_held_back && self.held_back().is_empty() {
            self.note(None, "all scenario files are valid again".to_owned(), false);
        }
        self.log_problems(&known.map(|(lines, _)| lines).concat());
        self.fire_changed();
        reload
    }

    /// Logs the problems found in the files at the start, and the forwards that have no effect.
    pub fn log_start(&self) {
        self.log_problems(&[]);
        self.profile_for(None).idle_forwards().into_iter().for_each(|idle| self.note(None, idle.to_string(), true));
    }

    /// Logs the problems that were not known before.
    fn log_problems(&self, known: &[String]) {
        for (found, what) in self.problems() {
            let new: Vec<String> = found.into_iter().filter(|problem| !known.contains(problem)).collect();
            let more = new.len().saturating_sub(MAX_REPORTED);
            for problem in new.into_iter().take(MAX_REPORTED) {
                self.note(None, problem, true);
            }
            if more > 0 {
                self.note(None, format!("{more} more {what}; the list of scenarios names all"), true);
            }
        }
    }

    /// All problems by kind, one line each, and the noun for more of that kind.
    fn problems(&self) -> [(Vec<String>, &'static str); 2] {
        [(self.held_back(), "scenario files are broken or missing"), (self.not_read(), "files or folders are not read")]
    }

    /// A warning if the usual folder has disappeared since it was read.
    fn gone_folder(&self) -> Option<(PathBuf, Result<String, Box<Diagnostic>>)> {
        let folder = self.scenario_folders.usual.as_ref().filter(|folder| !folder.is_dir())?;
        let had_files = self.library.load().has_files_in(folder);
        let problem = || {
            let message = "the folder is gone, and with it its scenarios; those named by a list stay active";
            let hint = "bring the folder back, or choose other scenarios";
            Box::new(Diagnostic::of_file("file/folder-gone", message, hint).as_warning())
        };
        had_files.then(|| (folder.clone(), Err(problem())))
    }

    /// Warnings about files that are not read in the scenario folders, or about a missing folder, one line each.
    fn not_read(&self) -> Vec<String> {
        let found = self.library.diagnostics();
        let warnings = found.iter().filter(|problem| !problem.is_error() && problem.code.starts_with("file/"));
        warnings.map(Diagnostic::one_line).collect()
    }

    /// Why scenarios differ from their saved files, one line each.
    fn held_back(&self) -> Vec<String> {
        let snapshot = self.library.load();
        let mut named = Vec::new();
        let mut held: Vec<String> = Vec::new();
        for name in snapshot.names() {
            held.extend(snapshot.held_back(&name).map(|why| match why {
                Stale::Deleted => {
                    format!("the file of scenario `{name}` was deleted, but an active list still names it; its last good version stays active")
                }
                Stale::Broken(problem) => {
                    named.push(problem.file.clone());
                    let stays = if snapshot.find(&name).is_some() { ", and its last good version stays" } else { "" };
                    format!("scenario `{name}` is broken{stays}: {}", problem.one_line())
                }
            }));
        }
        let others = self.library.diagnostics();
        let others = others.iter().filter(|problem| problem.is_error() && !named.contains(&problem.file));
        held.extend(others.map(Diagnostic::one_line));
        held
    }
}
