//! Which of the calls that wait moves an automatic clock for all.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Which clocks waiting calls move: those of a key, or all.
pub(super) type Scope = Option<Arc<str>>;

/// The movers of the calls that wait at present.
#[derive(Debug, Default)]
pub(super) struct Movers(Mutex<HashMap<Scope, Arc<Mover>>>);

/// The shared state of all calls that wait for one key, or for all keys. One of them moves the clocks for all, until it has what it waits
/// for; so the cost does not grow with their number.
#[derive(Debug, Default)]
pub(super) struct Mover {
    /// How often each clock was moved since the newest call began to wait. Locked by the call that moves the clocks.
    pub(super) jumps: tokio::sync::Mutex<HashMap<Scope, usize>>,
    /// Another call has begun to wait.
    pub(super) joined: Notify,
}

/// A call that waits.
#[derive(Debug)]
pub(super) struct Waiter<'a> {
    movers: &'a Movers,
    scope: Scope,
    pub(super) mover: Arc<Mover>,
}

impl Movers {
    pub(super) fn join(&self, scope: Scope) -> Waiter<'_> {
        let mut movers = self.0.lock();
        if let Some(known) = movers.get(&scope) {
            known.joined.notify_one();
        }
        let mover = Arc::clone(movers.entry(scope.clone()).or_default());
        Waiter { movers: self, scope, mover }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut movers = self.movers.0.lock();
        // Only this call and the map have it.
        if Arc::strong_count(&self.mover) == 2 {
            movers.remove(&self.scope);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the number of calls that wait, one moves the clocks; and nothing remains of them.
    #[tokio::test]
    async fn one_call_of_those_that_wait_for_a_key_moves_its_clock() {
        let (movers, key) = (Movers::default(), Some(Arc::from("sk_test_a")));
        let mut waiting: Vec<_> = (0..100).map(|_| movers.join(key.clone())).collect();
        let other = movers.join(None);
        let first = Arc::clone(&waiting[0].mover);
        let moves = first.jumps.try_lock().expect("nobody else moves it");
        assert!(waiting.iter().all(|waiter| waiter.mover.jumps.try_lock().is_err()));
        assert!(other.mover.jumps.try_lock().is_ok(), "other clocks have another");
        drop(moves);
        drop(first);
        let last = waiting.pop();
        drop(waiting);
        assert_eq!(movers.0.lock().len(), 2, "one call of the key still waits");
        drop((last, other));
        assert!(movers.0.lock().is_empty());
    }
}
