//! One resident a workspace: the worker or the timeline that works for it. A workspace that was reset or evicted gets none of
//! its predecessor's, and what belongs to those that have left is let go.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::workspace::Workspace;

/// What works for each workspace, by its name.
#[derive(Debug)]
pub(crate) struct PerWorkspace<T> {
    by_name: HashMap<Arc<str>, (Weak<Workspace>, T)>,
    /// Those that have left are looked for when there are more than this.
    sweep_at: usize,
}

impl<T> Default for PerWorkspace<T> {
    fn default() -> Self {
        Self { by_name: HashMap::new(), sweep_at: 64 }
    }
}

impl<T> PerWorkspace<T> {
    /// The resident of this very workspace; `make` makes one if there is none or it has ended.
    pub(crate) fn of(
        &mut self,
        workspace: &Arc<Workspace>,
        has_ended: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> &T {
        if self.by_name.len() >= self.sweep_at {
            self.by_name.retain(|_, (of, resident)| of.strong_count() > 0 && !has_ended(resident));
            self.sweep_at = self.by_name.len() * 2 + 64;
        }
        let is_own = |(of, resident): &(Weak<Workspace>, T)| {
            std::ptr::eq(of.as_ptr(), Arc::as_ptr(workspace)) && !has_ended(resident)
        };
        if !self.by_name.get(workspace.name()).is_some_and(is_own) {
            self.by_name.insert(Arc::clone(workspace.name()), (Arc::downgrade(workspace), make()));
        }
        &self.by_name[workspace.name()].1
    }
}
