//! All workspaces: created on first use, bounded in number, the least recently used evicted first.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::Workspace;
use crate::clock::{Clock, Now, Random, Seed};
use crate::state::journal::Journal;

pub const MAX_WORKSPACES: usize = 10_000;

/// The name of the workspace for requests without a valid key. It has its own random source, so that such requests do not change
/// what a key's requests draw. No key can have this name, as keys contain no spaces.
const ANONYMOUS: &str = "no key";

#[derive(Debug)]
pub struct Registry {
    seed: RwLock<Seed>,
    clock: Clock,
    journal: Arc<Journal>,
    most: usize,
    anonymous: ArcSwap<Workspace>,
    workspaces: RwLock<HashMap<Arc<str>, Arc<Workspace>>>,
    due_changed: Arc<Notify>,
    jumps: Mutex<()>,
}

impl Registry {
    pub fn new(seed: Seed, clock: Clock, most: usize, journal: Arc<Journal>) -> Self {
        let due_changed = Arc::default();
        let name = Arc::from(ANONYMOUS);
        let anonymous = Workspace::new(name, &seed, clock.clone(), journal.budget(), &due_changed);
        Self {
            seed: RwLock::new(seed),
            clock,
            journal,
            most: most.max(1),
            anonymous: ArcSwap::from_pointee(anonymous),
            workspaces: RwLock::default(),
            due_changed,
            jumps: Mutex::default(),
        }
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn seed(&self) -> Seed {
        *self.seed.read()
    }

    pub fn set_seed(&self, seed: Seed) {
        *self.seed.write() = seed;
    }

    pub fn source(&self, name: &str) -> Random {
        self.seed().source(name)
    }

    /// The workspace of requests without a valid key, from which they draw their ids.
    pub fn anonymous(&self) -> Arc<Workspace> {
        self.anonymous.load_full()
    }

    /// Puts a restored one in its place.
    pub fn replace_anonymous(&self, workspace: Arc<Workspace>) {
        self.anonymous.swap(workspace).reset();
    }

    pub(crate) fn new_anonymous(&self) -> Workspace {
        self.new_workspace(Arc::from(ANONYMOUS), self.clock.clone())
    }

    /// The workspace of this name, created if it does not exist; `now` is by the emulator's clock. The journal records the
    /// workspace evicted for it.
    pub fn open(&self, name: &str, now: Now) -> Arc<Workspace> {
        if let Some(workspace) = self.workspaces.read().get(name) {
            workspace.touch(now.instant);
            return Arc::clone(workspace);
        }
        let mut workspaces = self.workspaces.write();
        let evicted = self.make_room(&mut workspaces, name);
        let name: Arc<str> = Arc::from(name);
        let workspace = workspaces.entry(Arc::clone(&name)).or_insert_with(|| Arc::new(self.fresh(name)));
        workspace.touch(now.instant);
        let workspace = Arc::clone(workspace);
        drop(workspaces);
        self.log_evicted(evicted.as_ref(), now);
        workspace
    }

    /// Evicts the least recently used workspace if there is no room for one more of this name.
    fn make_room(&self, workspaces: &mut HashMap<Arc<str>, Arc<Workspace>>, name: &str) -> Option<Arc<Workspace>> {
        if workspaces.len() < self.most || workspaces.contains_key(name) {
            return None;
        }
        let by_use = |known: &Arc<Workspace>| known.last_used.load(Ordering::Relaxed);
        let oldest = workspaces.values().min_by(|a, b| (by_use(a), a.name()).cmp(&(by_use(b), b.name())))?;
        let evicted = Arc::clone(oldest);
        workspaces.remove(evicted.name());
        evicted.end();
        Some(evicted)
    }

    fn log_evicted(&self, evicted: Option<&Arc<Workspace>>, now: Now) {
        if let Some(evicted) = evicted {
            let message =
                format!("workspace {} was forgotten: there are more keys than workspaces are kept", evicted.id());
            self.journal.note(now.wall, Some(Arc::clone(evicted.name())), message, true);
        }
    }

    /// A workspace that is not entered here yet.
    pub(crate) fn fresh(&self, name: Arc<str>) -> Workspace {
        self.new_workspace(name, self.clock.follower())
    }

    fn new_workspace(&self, name: Arc<str>, clock: Clock) -> Workspace {
        Workspace::new(name, &self.seed(), clock, self.journal.budget(), &self.due_changed)
    }

    /// Held while one automatic clock is moved.
    pub fn lock_jumps(&self) -> MutexGuard<'_, ()> {
        self.jumps.lock()
    }

    /// Completes when a due time of any workspace has changed after the call.
    pub fn due_changed(&self) -> Notified<'_> {
        self.due_changed.notified()
    }

    /// Inserts a workspace, for which another may be evicted. An existing one of its name counts as reset and is returned.
    pub fn replace(&self, workspace: &Arc<Workspace>, now: Now) -> Option<Arc<Workspace>> {
        workspace.touch(now.instant);
        let mut workspaces = self.workspaces.write();
        let evicted = self.make_room(&mut workspaces, workspace.name());
        let old = workspaces.insert(Arc::clone(workspace.name()), Arc::clone(workspace));
        drop(workspaces);
        if let Some(old) = &old {
            old.reset();
        }
        self.log_evicted(evicted.as_ref(), now);
        old
    }

    /// Removes a workspace that is reset. The next request of its key gets a new one, which has the same seed and draws the same values again.
    pub fn remove(&self, name: &str) -> Option<Arc<Workspace>> {
        let removed = self.workspaces.write().remove(name);
        if let Some(workspace) = &removed {
            workspace.reset();
        }
        removed
    }

    pub fn remove_all(&self) -> Vec<Arc<Workspace>> {
        let mut removed: Vec<_> = std::mem::take(&mut *self.workspaces.write()).into_values().collect();
        sort(&mut removed);
        for workspace in &removed {
            workspace.reset();
        }
        self.replace_anonymous(Arc::new(self.new_anonymous()));
        removed
    }

    pub fn find(&self, name_or_id: &str) -> Option<Arc<Workspace>> {
        let workspaces = self.workspaces.read();
        let by_id = || workspaces.values().find(|workspace| workspace.id() == name_or_id).cloned();
        workspaces.get(name_or_id).cloned().or_else(|| name_or_id.starts_with("ws_").then(by_id).flatten())
    }

    pub fn all(&self) -> Vec<Arc<Workspace>> {
        self.filtered(|_| true)
    }

    /// Those for which `pick` is true.
    pub fn filtered(&self, pick: impl Fn(&Workspace) -> bool) -> Vec<Arc<Workspace>> {
        let mut picked: Vec<_> = self.workspaces.read().values().filter(|workspace| pick(workspace)).cloned().collect();
        sort(&mut picked);
        picked
    }

    pub fn kept(&self) -> usize {
        self.workspaces.read().len()
    }
}

/// Into an order that does not depend on chance.
fn sort(workspaces: &mut [Arc<Workspace>]) {
    workspaces.sort_by(|a, b| a.id().cmp(b.id()));
}
