//! Tests of the delivery store.

use super::*;
use crate::clock::{Clock, Seed};
use crate::state::workspace::Registry;

#[test]
fn changes_are_reported_once_until_too_many_were_missed() {
    let store = DeliveryStore::new(&Budget::default());
    for serial in 0..=MOST_CHANGES as u64 {
        store.state.lock().note_change(serial);
    }
    assert_eq!(store.changes(), MOST_CHANGES as u64 + 1);
    assert!(store.changed_since(0).is_none(), "the first change is forgotten");
    for seen in [1, MOST_CHANGES as u64 + 1] {
        let (now, records) = store.changed_since(seen).expect("all since then is remembered");
        assert_eq!((now, records.len()), (store.changes(), 0), "deliveries that are gone are left out");
    }
}

/// Enters a delivery and lets it end in this way; returns its id.
fn end(store: &DeliveryStore, workspace: &Workspace, number: usize, status: DeliveryStatus) -> String {
    let mut event = Arc::unwrap_or_clone(event());
    Arc::make_mut(&mut event.deliveries[0]).id = format!("dlv_{number}");
    let (id, event) = (event.deliveries[0].id.clone(), Arc::new(event));
    let _ = store.enter(workspace, &event);
    store.change(&event, &event.deliveries[0], None, |record| record.status = status);
    id
}

#[test]
fn what_arrived_leaves_before_what_failed() {
    let (store, (_registry, workspace)) = (DeliveryStore::new(&Budget::default()), opened());
    let failed = end(&store, &workspace, 0, DeliveryStatus::Exhausted);
    let arrived: Vec<String> =
        (1..=MOST_FINISHED + 1).map(|number| end(&store, &workspace, number, DeliveryStatus::Delivered)).collect();
    assert_eq!(store.forgotten(), 2);
    let kept: Vec<bool> = [&failed, &arrived[0], &arrived[1], &arrived[2]].map(|id| store.get(id).is_some()).into();
    assert_eq!(kept, [true, false, false, true], "the failure, and of what arrived the newest");
    assert_eq!(store.list(None, usize::MAX, |_| true).len(), MOST_FINISHED);
}

#[test]
fn failures_leave_when_they_are_most() {
    let (store, (_registry, workspace)) = (DeliveryStore::new(&Budget::default()), opened());
    let arrived = end(&store, &workspace, 0, DeliveryStatus::Delivered);
    let failed: Vec<String> =
        (1..=MOST_FINISHED).map(|number| end(&store, &workspace, number, DeliveryStatus::Cancelled)).collect();
    let kept: Vec<bool> = [&arrived, &failed[0], &failed[1]].map(|id| store.get(id).is_some()).into();
    assert_eq!((kept, store.forgotten()), (vec![true, false, true], 1));
    // What was cleared needs no room.
    store.clear(|_| true);
    end(&store, &workspace, 0, DeliveryStatus::Delivered);
    assert_eq!((store.list(None, usize::MAX, |_| true).len(), store.forgotten()), (1, 1));
}

/// An event of the workspace `w` with one delivery; a workspace that was reset makes the same ids again.
fn event() -> Arc<EventRecord> {
    let planned = PlannedDelivery {
        id: "dlv_1".to_owned(),
        subscription: "sub_1".to_owned(),
        url: Arc::new("https://a.example/".parse().expect("a URL")),
        attempts_before: 0,
        serial: std::sync::OnceLock::new(),
    };
    Arc::new(EventRecord {
        id: "evt_1".to_owned(),
        workspace: Arc::from("w"),
        event_type: "workflow.completed".to_owned(),
        created_at: jiff::Timestamp::UNIX_EPOCH,
        handed_at: jiff::Timestamp::UNIX_EPOCH,
        body: hyper::body::Bytes::new(),
        due: Instant::from_nanos(0),
        deliveries: vec![Arc::new(planned)],
        skipped: Vec::new(),
        tamper: None,
        lost: false,
        damage: None,
        origin: crate::state::workspace::Origin::default(),
        warnings: Vec::new(),
        charge: None,
    })
}

fn opened() -> (Registry, Arc<Workspace>) {
    let journal = Arc::new(crate::state::journal::Journal::new(10, &crate::state::budget::Budget::default()));
    let registry = Registry::new(Seed::from_number(1), Clock::frozen(jiff::Timestamp::UNIX_EPOCH), 9, journal);
    let workspace = registry.open("w", registry.clock().now());
    (registry, workspace)
}

#[test]
fn what_a_workspace_fires_after_its_reset_is_not_entered() {
    let (store, (registry, workspace)) = (DeliveryStore::new(&Budget::default()), opened());
    let _ = store.enter(&workspace, &event());
    registry.forget("w");
    store.clear(|name| **name == *"w");
    let _ = store.enter(&workspace, &event());
    assert_eq!((store.pending(), status(&store)), (0, vec![]));
}

fn status(store: &DeliveryStore) -> Vec<DeliveryStatus> {
    store.list(None, 10, |_| true).into_iter().map(|(_, record)| record.status).collect()
}

#[test]
fn what_ends_late_is_not_taken_for_its_successors() {
    let (store, old, new) = (DeliveryStore::new(&Budget::default()), event(), event());
    let (_registry, workspace) = opened();
    let _ = store.enter(&workspace, &old);
    store.clear(|name| **name == *"w");
    let _ = store.enter(&workspace, &new);
    store.note_cancelled(&old, &old.deliveries[0], "left");
    assert_eq!((store.pending(), status(&store)), (1, vec![DeliveryStatus::Pending]));
    store.note_cancelled(&new, &new.deliveries[0], "given up");
    assert_eq!((store.pending(), status(&store)), (0, vec![DeliveryStatus::Cancelled]));
    // Again, and by the one that is long gone.
    store.note_cancelled(&new, &new.deliveries[0], "given up");
    store.note_cancelled(&old, &old.deliveries[0], "left");
    assert_eq!(store.pending(), 0);
}

#[test]
fn one_fired_at_the_moment_of_a_reset_ends_beside_its_successor() {
    for late_is_first in [true, false] {
        let (store, old, new) = (DeliveryStore::new(&Budget::default()), event(), event());
        let (_registry, workspace) = opened();
        let (first, second) = if late_is_first { (&old, &new) } else { (&new, &old) };
        let _ = store.enter(&workspace, first);
        let _ = store.enter(&workspace, second);
        store.note_cancelled(&old, &old.deliveries[0], "left");
        assert_eq!(store.pending(), 1, "{late_is_first}");
        store.note_cancelled(&new, &new.deliveries[0], "given up");
        assert_eq!((store.pending(), status(&store)), (0, vec![DeliveryStatus::Cancelled; 2]));
        store.clear(|_| true);
        assert_eq!((store.pending(), store.get("dlv_1").is_none()), (0, true));
    }
}

/// An attempt of the event's delivery whose receiver answered with so many bytes.
fn attempt(event: &Arc<EventRecord>, size: usize) -> Arc<AttemptRecord> {
    Arc::new(AttemptRecord {
        delivery: Arc::clone(&event.deliveries[0]),
        event: Arc::clone(event),
        forged: false,
        number: 1,
        at: jiff::Timestamp::UNIX_EPOCH,
        dialled: Arc::from(""),
        headers: crate::util::header_lines::HeaderLines::default(),
        signed: crate::state::workspace::SignedContent::default(),
        body: hyper::body::Bytes::new(),
        outcome: crate::state::workspace::AttemptOutcome::Answered {
            status: 500,
            retry_after: None,
            body: vec![0; size].into(),
        },
        latency: Duration::ZERO,
        next: None,
    })
}

#[test]
fn finished_deliveries_give_way_and_then_events_are_refused() {
    const MOST: usize = 100_000;
    let budget = Budget::new(MOST);
    let (store, (_registry, workspace)) = (Arc::new(DeliveryStore::new(&budget)), opened());
    let history: Arc<dyn Evictable> = store.clone();
    budget.evict_first(vec![Arc::downgrade(&history)]);
    let (pending, finished) = (event(), event());
    store.enter(&workspace, &finished).expect("there is room");
    store.note_attempt(attempt(&finished, MOST / 2), DeliveryStatus::Exhausted);
    store.enter(&workspace, &pending).expect("there is room");
    // Then attempts of the pending one are not kept.
    for (made, kept, evicted) in [(1, 1, 0), (2, 2, 1), (3, 2, 1)] {
        store.note_attempt(attempt(&pending, 2 * MOST / 5), DeliveryStatus::Pending);
        let record = store.list(None, 9, |record| Arc::ptr_eq(&record.event, &pending)).remove(0).1;
        assert_eq!((record.made, record.attempts.len(), store.forgotten()), (made, kept, evicted));
    }
    // The body counts once, whatever the number of deliveries.
    let sized = |size: usize| {
        let mut event = Arc::unwrap_or_clone(event());
        event.body = vec![0; size].into();
        event.deliveries = (0..3).map(|_| Arc::clone(&event.deliveries[0])).collect();
        event.charged(&budget)
    };
    assert!(sized(MOST / 4).is_err_and(|full| full == budget.full()));
    store.enter(&workspace, &Arc::new(sized(MOST / 10).expect("there is room"))).expect("there is room");
    assert_eq!(store.pending(), 4);
    store.clear(|_| true);
    assert_eq!((store.bytes(), store.pending(), budget.used()), (0, 0, 0));
}
