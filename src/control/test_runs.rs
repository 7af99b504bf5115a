//! The events during each failed test, and the requests of a scope: the journal read once for everything that judges it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;

use super::Control;
use super::context::KeyScope;
use super::test_outcome::{Ending, TestOutcome, masked_without_output};
use crate::redact::Redactor;
use crate::state::engine::deliveries::{DeliveryRecord, DeliveryStatus};
use crate::state::journal::{Entry, NoticeKind, Reason, RequestRecord};
use crate::state::workspace::{AttemptRecord, Workspace};

/// A failed test. Its lists have the newest first, and end when its outcome was reported: what came later is not why it failed.
pub(super) struct TestRun {
    pub(super) workspace: Arc<Workspace>,
    pub(super) test: TestOutcome,
    /// Requests with its key.
    pub(super) requests: Vec<Arc<RequestRecord>>,
    /// The same, with those after it.
    pub(super) count: usize,
    /// While it ran: requests without a valid key, and with a key of no test, in the lists of [`TestRuns`].
    foreign: Range<usize>,
    strangers: Range<usize>,
    /// True if another test ran meanwhile, to which these may belong.
    pub(super) overlaps: bool,
    /// The last attempt of each delivery.
    attempted: HashMap<String, u32>,
    /// Events.
    fired: HashSet<String>,
    ended: Option<Timestamp>,
    is_whole: bool,
}

impl TestRun {
    /// A delivery as it was when the test ended; `None` if its event was later. A receiver often ends with its test, so what a retry meets
    /// after that is not why the test failed.
    pub(super) fn as_it_was(&self, delivery: &DeliveryRecord) -> Option<DeliveryRecord> {
        if !self.is_whole {
            return Some(delivery.clone());
        }
        if !self.fired.contains(&delivery.event.id) {
            return None;
        }
        let last = self.attempted.get(&delivery.planned.id).copied().unwrap_or_default();
        let mut delivery = delivery.clone();
        if delivery.attempts_made() > last {
            // One that had begun was under way.
            let has_begun = |attempt: &Arc<AttemptRecord>| {
                attempt.number == last + 1 && self.ended.is_some_and(|ended| attempt.at <= ended)
            };
            delivery.next = delivery.attempts.iter().any(has_begun).then(|| self.workspace.clock().instant());
            delivery.attempts.retain(|attempt| attempt.number <= last);
            delivery.made = last.saturating_sub(delivery.planned.attempts_before);
            (delivery.status, delivery.note) = (DeliveryStatus::Pending, None);
        }
        Some(delivery)
    }

    /// True if it is known that no event was fired for its key.
    pub(super) fn fired_nothing(&self) -> bool {
        self.is_whole && self.fired.is_empty()
    }
}

pub(super) struct TestRuns {
    /// By name.
    pub(super) failed: Vec<TestRun>,
    /// The requests of the scope, newest first.
    pub(super) requests: Vec<Arc<RequestRecord>>,
    /// Those of any scope without a valid key, and with a key of no test, while tests ran: each once, however many tests ran.
    foreign: Vec<Arc<RequestRecord>>,
    strangers: Vec<Arc<RequestRecord>>,
    /// How many requests each key has.
    pub(super) counts: HashMap<String, usize>,
    /// How many requests of all keys there are.
    pub(super) arrived: usize,
    /// How many events were signed for handlers in the tests' own processes.
    pub(super) signed: usize,
    /// True if nothing was evicted from the journal.
    pub(super) is_whole: bool,
}

impl TestRuns {
    pub(super) fn read(control: &Control, scope: &KeyScope, redactor: Redactor<'_>) -> Self {
        let keys = redactor.key_settings();
        // Of all keys, whatever the scope: a test of another key may have run meanwhile.
        let all = control.engine.registry.all();
        let of_tests: HashSet<&str> =
            all.iter().filter(|it| it.lock().test().is_some()).map(|it| &**it.name()).collect();
        let is_whole = control.engine.journal.fill().evicted == 0;
        let signed =
            all.iter().filter(|it| scope.covers(Some(it.name()))).map(|it| it.lock().signed_in_process()).sum();
        let mut failed: HashMap<&str, TestRun> = HashMap::new();
        for workspace in all.iter().filter(|it| scope.covers(Some(it.name()))) {
            let test = workspace.lock().test().map(|test| masked_without_output(test, redactor));
            let Some(test) = test.filter(|test| test.outcome == Ending::Failed) else { continue };
            let run = TestRun {
                workspace: Arc::clone(workspace),
                test,
                requests: Vec::new(),
                count: 0,
                foreign: 0..0,
                strangers: 0..0,
                overlaps: false,
                attempted: HashMap::new(),
                fired: HashSet::new(),
                ended: None,
                is_whole,
            };
            failed.insert(workspace.name(), run);
        }
        let (mut requests, mut counts, mut arrived) = (Vec::new(), HashMap::<String, usize>::new(), 0);
        let (mut foreign, mut strangers) = (Vec::new(), Vec::new());
        // The tests that were running at the entry, and those whose outcome was met. The newest entry comes first.
        let (mut running, mut ended) = (HashSet::<&str>::new(), HashSet::<&str>::new());
        control.engine.journal.search(None, usize::MAX, |_, entry| -> Option<()> {
            match entry {
                Entry::Notice(notice) => match &notice.kind {
                    NoticeKind::TestEnded => {
                        let name = notice.workspace.as_ref().and_then(|name| of_tests.get(&**name))?;
                        if ended.insert(name)
                            && let Some(run) = failed.get_mut(name)
                        {
                            run.ended = Some(notice.at);
                            run.requests.clear();
                            run.attempted.clear();
                            run.fired.clear();
                            run.foreign = foreign.len()..usize::MAX;
                            run.strangers = strangers.len()..usize::MAX;
                        }
                        for name in add_running(&mut running, name) {
                            failed.get_mut(name).into_iter().for_each(|run| run.overlaps = true);
                        }
                    }
                    NoticeKind::Reset(Some(name)) => {
                        running.remove(&**name);
                        if let Some(run) = failed.get_mut(&**name) {
                            run.foreign.end = run.foreign.end.min(foreign.len());
                            run.strangers.end = run.strangers.end.min(strangers.len());
                        }
                    }
                    _ => {}
                },
                Entry::Attempt(attempt) => {
                    if let Some(run) = failed.get_mut(&*attempt.event.workspace) {
                        run.attempted.entry(attempt.delivery.id.clone()).or_insert(attempt.number);
                    }
                }
                Entry::Request(request) => {
                    arrived += usize::from(!request.is_incidental());
                    if scope.covers_request(request, keys) {
                        requests.push(Arc::clone(request));
                    }
                    let owner = request.owner(keys);
                    let is_refused =
                        request.workspace.is_none() && matches!(request.reason, Reason::Unauthorized { .. });
                    let is_of_test = owner.as_deref().is_some_and(|owner| of_tests.contains(owner));
                    if !is_of_test && !running.is_empty() && (is_refused || owner.is_some()) {
                        let list = if is_refused { &mut foreign } else { &mut strangers };
                        list.push(Arc::clone(request));
                    }
                    if let Some(owner) = owner {
                        if let Some(run) = failed.get_mut(&*owner) {
                            run.count += 1;
                            run.requests.push(Arc::clone(request));
                        }
                        match counts.get_mut(&*owner) {
                            Some(count) => *count += 1,
                            None => drop(counts.insert(owner.into_owned(), 1)),
                        }
                    }
                }
                Entry::Event(event) => {
                    if let Some(run) = failed.get_mut(&*event.workspace) {
                        run.fired.insert(event.id.clone());
                    }
                }
                Entry::Cleared => {}
            }
            None
        });
        let mut failed: Vec<TestRun> = failed.into_values().collect();
        failed.sort_by(|a, b| (&a.test.test, a.workspace.name()).cmp(&(&b.test.test, b.workspace.name())));
        Self { failed, requests, foreign, strangers, counts, arrived, signed, is_whole }
    }

    /// Requests without a valid key while a test ran.
    pub(super) fn foreign_to(&self, run: &TestRun) -> &[Arc<RequestRecord>] {
        &self.foreign[run.foreign.start..run.foreign.end.min(self.foreign.len())]
    }

    /// Requests with a key of no test while a test ran.
    pub(super) fn strangers_to(&self, run: &TestRun) -> &[Arc<RequestRecord>] {
        &self.strangers[run.strangers.start..run.strangers.end.min(self.strangers.len())]
    }
}

/// Adds a test to those that run, and returns which of them overlap another since now: each only once, however many run.
fn add_running<'a>(running: &mut HashSet<&'a str>, name: &'a str) -> Vec<&'a str> {
    match (running.insert(name), running.len()) {
        (false, _) | (true, 1) => Vec::new(),
        (true, 2) => running.iter().copied().collect(),
        (true, _) => vec![name],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_is_marked_once_however_many_run() {
        let names: Vec<String> = (0..1_000).map(|number| format!("sk_test_{number}")).collect();
        let mut running = HashSet::new();
        let mut marked: Vec<&str> = names.iter().flat_map(|name| add_running(&mut running, name)).collect();
        assert_eq!(add_running(&mut running, &names[0]), [""; 0], "it runs already");
        marked.sort_unstable();
        assert_eq!((marked.len(), marked.windows(2).any(|pair| pair[0] == pair[1])), (1_000, false));
        assert_eq!(add_running(&mut HashSet::new(), "alone"), [""; 0]);
    }
}
