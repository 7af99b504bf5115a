//! The due times and running tasks of one workspace, so that its clock can be moved from one due instant to the next and
//! callers can wait until everything due is done.
//!
//! Drivers record here when they must run next ([`Slot`]) and that they are running ([`Running`]). Independent of their work
//! and of the clock: `now` is an argument.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::Instant;

/// The agenda of one workspace; a cheap handle.
#[derive(Clone, Debug)]
pub struct Agenda {
    shared: Arc<AgendaState>,
}

#[derive(Debug)]
struct AgendaState {
    notes: Mutex<Notes>,
    changed: Notify,
    any_due_changed: Arc<Notify>,
    moving: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Notes {
    under_way: usize,
    requests: usize,
    outside: usize,
    held: usize,
    due: BTreeSet<(Instant, u64)>,
    slots: u64,
    fires: Option<Instant>,
}

impl Agenda {
    /// An empty one, which also reports changes of its due times to `any_due_changed`. The end of a task is not reported: requests end
    /// all the time, and who waits for one waits for its workspace's agenda.
    pub fn new(any_due_changed: Arc<Notify>) -> Self {
        let (notes, changed, moving) = (Mutex::default(), Notify::new(), Arc::default());
        Self { shared: Arc::new(AgendaState { notes, changed, any_due_changed, moving }) }
    }

    /// Records that something is running until the returned guard is dropped.
    #[must_use]
    pub fn begin(&self) -> Running {
        self.shared.notes.lock().under_way += 1;
        Running { agenda: self.clone(), kind: Kind::Task }
    }

    /// Records that a request is in flight, which only an automatic clock waits for.
    #[must_use]
    pub fn begin_request(&self) -> Running {
        self.shared.notes.lock().requests += 1;
        Running { agenda: self.clone(), kind: Kind::Request }
    }

    /// Records that a scenario holds a request back, by a delay or in the middle of its answer.
    #[must_use]
    pub fn hold(&self) -> Running {
        self.shared.notes.lock().held += 1;
        Running { agenda: self.clone(), kind: Kind::Held }
    }

    pub fn held(&self) -> usize {
        self.shared.notes.lock().held
    }

    /// A slot for the instant at which a driver must run next; empty at first.
    #[must_use]
    pub fn slot(&self) -> Slot {
        let mut notes = self.shared.notes.lock();
        notes.slots += 1;
        Slot { agenda: self.clone(), number: notes.slots, due: None }
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.shared.notes.lock().due.first().map(|(due, _)| *due)
    }

    /// Records when events are fired next. Events are fired before the deliveries due at the same instant, because the answer to a
    /// delivery may change the subscriptions.
    pub fn set_next_firing(&self, due: Option<Instant>) {
        self.change(|notes| notes.fires = due);
    }

    pub fn is_firing(&self, now: Instant) -> bool {
        self.shared.notes.lock().fires.is_some_and(|due| due <= now)
    }

    pub fn is_settled(&self, now: Instant) -> bool {
        let notes = self.shared.notes.lock();
        notes.under_way == 0 && notes.due.first().is_none_or(|(due, _)| *due > now)
    }

    /// Like `is_settled`, and no request is in flight.
    pub fn is_idle(&self, now: Instant) -> bool {
        self.is_settled(now) && self.shared.notes.lock().requests == 0
    }

    /// True if everything due by `now` is done or waits for an external receiver.
    pub fn is_settled_inside(&self, now: Instant) -> bool {
        let notes = self.shared.notes.lock();
        notes.under_way == notes.outside && notes.due.first().is_none_or(|(due, _)| *due > now)
    }

    /// Completes when a task has ended or a due time has changed after the call.
    /// To miss no change, create and enable the future, check the state, then await it.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.shared.changed.notified()
    }

    /// Locked while the clock is moved from one due instant to the next, so that only one caller does this at a time.
    pub fn moving(&self) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(&self.shared.moving)
    }

    fn change(&self, change: impl FnOnce(&mut Notes)) {
        change(&mut self.shared.notes.lock());
        self.shared.changed.notify_waiters();
    }
}

#[derive(Debug)]
pub struct Running {
    agenda: Agenda,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Task,
    /// A task that waits for an external receiver.
    Outside,
    Request,
    Held,
}

impl Running {
    /// The same, marked as waiting for an external receiver.
    #[must_use]
    pub fn outside(mut self) -> Self {
        self.kind = Kind::Outside;
        self.agenda.change(|notes| notes.outside += 1);
        self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.agenda.change(|notes| match self.kind {
            Kind::Request => notes.requests -= 1,
            Kind::Held => notes.held -= 1,
            kind => {
                notes.under_way -= 1;
                notes.outside -= usize::from(kind == Kind::Outside);
            }
        });
    }
}

#[derive(Debug)]
pub struct Slot {
    agenda: Agenda,
    number: u64,
    due: Option<Instant>,
}

impl Slot {
    pub fn set(&mut self, due: Option<Instant>) {
        let old = std::mem::replace(&mut self.due, due);
        if old == due {
            return;
        }
        self.agenda.change(|notes| {
            old.map(|old| notes.due.remove(&(old, self.number)));
            due.map(|due| notes.due.insert((due, self.number)));
        });
        self.agenda.shared.any_due_changed.notify_waiters();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.set(None);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use super::*;

    fn at(second: u64) -> Instant {
        Instant::after_start(Duration::from_secs(second))
    }

    /// True for each of settled, idle, and settled inside, ten seconds after the start.
    #[track_caller]
    fn check(agenda: &Agenda, expected: [bool; 3]) {
        let now = at(10);
        assert_eq!([agenda.is_settled(now), agenda.is_idle(now), agenda.is_settled_inside(now)], expected);
    }

    #[test]
    fn it_is_settled_when_nothing_runs_or_is_due() {
        let agenda = Agenda::new(Arc::default());
        check(&agenda, [true, true, true]);
        let (task, other, request) = (agenda.begin(), agenda.begin(), agenda.begin_request());
        check(&agenda, [false, false, false]);
        let task = task.outside();
        check(&agenda, [false, false, false]);
        drop(other);
        check(&agenda, [false, false, true]);
        drop(task);
        check(&agenda, [true, false, true]);
        let another = agenda.begin_request();
        drop(request);
        check(&agenda, [true, false, true]);
        drop(another);
        check(&agenda, [true, true, true]);

        let (mut slot, mut later) = (agenda.slot(), agenda.slot());
        for (second, is_settled) in [(9, false), (10, false), (11, true)] {
            slot.set(Some(at(second)));
            later.set(Some(at(second)));
            check(&agenda, [is_settled; 3]);
        }
        slot.set(None);
        assert_eq!(agenda.next_due(), Some(at(11)));
        later.set(Some(at(12)));
        assert_eq!(agenda.next_due(), Some(at(12)));
        drop(later);
        assert_eq!(agenda.next_due(), None);
    }

    #[test]
    fn events_are_fired_from_their_instant_on() {
        let agenda = Agenda::new(Arc::default());
        for (due, is_firing) in [(None, false), (Some(at(11)), false), (Some(at(10)), true), (Some(at(9)), true)] {
            agenda.set_next_firing(due);
            assert_eq!(agenda.is_firing(at(10)), is_firing, "{due:?}");
        }
    }

    #[test]
    fn one_caller_moves_the_clock_at_a_time() {
        let agenda = Agenda::new(Arc::default());
        let (first, second) = (agenda.moving(), agenda.clone().moving());
        let moving = first.try_lock();
        assert!(moving.is_ok() && second.try_lock().is_err());
        drop(moving);
        assert!(second.try_lock().is_ok());
    }

    #[test]
    fn changes_wake_those_that_wait() {
        let any_due_changed = Arc::<Notify>::default();
        let agenda = Agenda::new(Arc::clone(&any_due_changed));
        let mut slot = agenda.slot();
        let task = agenda.begin();
        let check = |change: &mut dyn FnMut(), expected| {
            let (mut one, mut any) = (pin!(agenda.changed()), pin!(any_due_changed.notified()));
            assert_eq!([one.as_mut().enable(), any.as_mut().enable()], [false; 2]);
            change();
            assert_eq!([one.enable(), any.enable()], expected);
        };
        check(&mut || slot.set(Some(at(1))), [true, true]);
        check(&mut || slot.set(Some(at(1))), [false, false]);
        check(&mut || slot.set(None), [true, true]);
        let mut task = Some(task);
        check(&mut || drop(task.take()), [true, false]);
    }
}
