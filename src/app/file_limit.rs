//! Divides the file descriptors that the process may open: connections leave enough for webhooks, and both leave enough for
//! reading scenarios and saving the state.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::webhook::client::MAX_KEPT;
use crate::webhook::deliver::CONCURRENT_ATTEMPTS;

/// Descriptors reserved for what the process opens by itself: standard streams, scenarios, the state, name look-ups.
pub(super) const RESERVE: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Connections of each listener.
    pub(super) connections: usize,
    pub(super) attempts: usize,
    /// Connections kept for further attempts.
    pub(super) kept: usize,
    /// The soft limit, if it allows fewer connections than the settings ask for.
    limited_by: Option<usize>,
}

impl Shares {
    pub(super) fn for_process(connections: usize, listeners: usize) -> Self {
        Self::new(limit(), connections, listeners)
    }

    fn new(limit: usize, connections: usize, listeners: usize) -> Self {
        let free = limit - RESERVE.min(limit / 2);
        let attempts = (free / 4).clamp(1, CONCURRENT_ATTEMPTS);
        let kept = (free / 4).min(MAX_KEPT);
        let allowed = ((free - kept).saturating_sub(attempts) / listeners).max(1);
        let limited_by = (allowed < connections).then_some(limit);
        Self { connections: connections.min(allowed), attempts, kept, limited_by }
    }

    pub(super) fn warning(&self) -> Option<String> {
        let (limit, connections) = (self.limited_by?, self.connections);
        Some(format!(
            "only {connections} connections at a time: this process may have {limit} file descriptors; raise `ulimit -n`"
        ))
    }
}

/// The raised soft limit of this process; the original is restored for commands that it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileLimit {
    before: Rlimit,
    raised: Rlimit,
}

impl FileLimit {
    /// Raises the soft limit of this process to its hard limit, where the system allows it.
    pub(crate) fn raise() -> Self {
        let before = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: before.maximum, maximum: before.maximum };
        let raised = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { before };
        Self { before, raised }
    }

    /// Starts a command under the original limit: some programs close every descriptor up to the limit, one by one.
    pub(crate) fn restored_for<T>(self, start: impl FnOnce() -> T) -> T {
        // Neither can fail: both are at most the hard limit.
        let _ = setrlimit(Resource::Nofile, self.before);
        let started = start();
        let _ = setrlimit(Resource::Nofile, self.raised);
        started
    }
}

fn limit() -> usize {
    getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_leave_a_reserve_under_every_limit() {
        for limit in (0..5_000).chain([usize::MAX]) {
            for listeners in [1, 2] {
                let Shares { connections, attempts, kept, limited_by } = Shares::new(limit, 1024, listeners);
                assert!(connections > 0 && attempts > 0, "{limit}");
                assert_eq!(limited_by.is_some(), connections < 1024, "{limit}");
                let taken = connections * listeners + attempts + kept;
                assert!(limit < 8 || limit - taken >= RESERVE.min(limit / 2), "{limit}: {taken}");
            }
        }
        let all = |limit| {
            let shares = Shares::new(limit, 1024, 1);
            (shares.connections, shares.attempts, shares.kept)
        };
        assert_eq!(all(1 << 20), (1024, 256, 512));
        assert_eq!(all(1024), (480, 240, 240));
        assert_eq!(all(48), (12, 6, 6));
        let warning = Shares::new(48, 1024, 1).warning().expect("12 connections are fewer");
        assert!(warning.contains("12 connections") && warning.contains("48 file descriptors"), "{warning}");
    }
}
