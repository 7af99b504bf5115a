//! The queue against random receivers and clocks: nothing lost, nothing after success, order kept, bounds kept; and the schedules of retries.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::body::Bytes;
use proptest::prelude::*;

use super::*;
use crate::clock::Seed;
use crate::settings::Layered;

fn event(number: u64, due: Instant, subscriptions: &[usize]) -> Arc<EventRecord> {
    let deliveries = subscriptions.iter().map(|subscription| {
        Arc::new(PlannedDelivery {
            id: format!("dlv_{number}_{subscription}"),
            subscription: format!("sub_{subscription}"),
            url: Arc::new(url::Url::parse("https://a.example/").expect("a URL")),
            attempts_before: 0,
            serial: std::sync::OnceLock::new(),
        })
    });
    Arc::new(EventRecord {
        id: format!("evt_{number}"),
        workspace: Arc::from("test"),
        event_type: "workflow.completed".to_owned(),
        created_at: jiff::Timestamp::UNIX_EPOCH,
        handed_at: jiff::Timestamp::UNIX_EPOCH,
        body: Bytes::new(),
        due,
        deliveries: deliveries.collect(),
        skipped: Vec::new(),
        tamper: None,
        lost: false,
        damage: None,
        origin: crate::state::workspace::Origin::default(),
        warnings: Vec::new(),
        charge: None,
    })
}

fn answered(status: u16) -> AttemptOutcome {
    AttemptOutcome::Answered { status, retry_after: None, body: Bytes::new() }
}

fn webhooks(assignments: &[&str]) -> Webhooks {
    let layered = assignments.iter().fold(Layered::default(), |layered, assignment| {
        layered.with_assignment(assignment, "test").expect("the assignment is valid")
    });
    layered.profile().webhooks.clone()
}

fn at(seconds: u64) -> Instant {
    Instant::after_start(Duration::from_secs(seconds))
}

#[test]
fn lanes_keep_their_order_and_do_not_wait_for_each_other() {
    let (mut queue, webhooks) = (Queue::default(), webhooks(&[]));
    queue.push(&event(1, at(0), &[1, 2]));
    queue.push(&event(2, at(0), &[1, 2]));
    let mut due = || queue.take_due(at(0)).map(|job| job.delivery.id.clone());
    assert_eq!([due(), due(), due()], [Some("dlv_1_1".to_owned()), Some("dlv_1_2".to_owned()), None]);
    // The first fails; its lane continues with the second event, and comes back a second later.
    assert!(
        matches!(queue.finish("sub_1", &answered(500), &webhooks, at(0), || Seed::from_number(1).source("test")), Next::Retry(due) if due == at(1))
    );
    assert_eq!(queue.take_due(at(0)).map(|job| job.delivery.id.clone()).as_deref(), Some("dlv_2_1"));
    assert!(matches!(
        queue.finish("sub_1", &answered(200), &webhooks, at(0), || Seed::from_number(1).source("test")),
        Next::Delivered
    ));
    assert_eq!((queue.next_due(), queue.under_way(), queue.pending()), (Some(at(1)), 1, 3));
    assert_eq!(
        queue.take_due(at(1)).map(|job| (job.delivery.id.clone(), job.attempt)),
        Some(("dlv_1_1".to_owned(), 2))
    );
}

#[test]
fn strict_order_holds_later_events_back() {
    let (mut queue, webhooks) = (Queue::default(), webhooks(&["webhooks.order=strict"]));
    queue.set_order(webhooks.order);
    queue.push(&event(1, at(0), &[1]));
    queue.push(&event(2, at(0), &[1]));
    queue.take_due(at(0)).expect("the first is due");
    queue.finish("sub_1", &answered(500), &webhooks, at(0), || Seed::from_number(1).source("test"));
    assert!(queue.take_due(at(0)).is_none());
    assert_eq!(queue.take_due(at(1)).map(|job| job.delivery.id.clone()).as_deref(), Some("dlv_1_1"));
}

#[test]
fn gone_gives_up_what_waits() {
    let deleted = AttemptOutcome::Failed { reason: FailureReason::SubscriptionGone, detail: String::new() };
    for outcome in [answered(410), deleted] {
        let (mut queue, webhooks) = (Queue::default(), webhooks(&[]));
        for number in 1..=3 {
            queue.push(&event(number, at(0), &[1]));
        }
        queue.take_due(at(0)).expect("the first is due");
        let next = queue.finish("sub_1", &outcome, &webhooks, at(0), || Seed::from_number(1).source("test"));
        assert!(matches!(next, Next::Gone(jobs) if jobs.len() == 2), "{outcome:?}");
        assert_eq!((queue.pending(), queue.next_due()), (0, None));
    }
}

/// One step of a random run.
#[derive(Clone, Debug)]
enum Step {
    /// An event for these subscriptions, due so many seconds from now.
    Push(Vec<usize>, u64),
    /// Time passes.
    Pass(u64),
    /// The oldest attempt under way ends: 200, 500, 410 or no answer.
    End(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (prop::collection::btree_set(0usize..4, 1..4), prop_oneof![Just(0u64), 0u64..5])
            .prop_map(|(subscriptions, delay)| Step::Push(subscriptions.into_iter().collect(), delay)),
        (0u64..40).prop_map(Step::Pass),
        (0u8..10).prop_map(Step::End),
    ]
}

/// What a run has seen of one delivery.
#[derive(Debug, Default)]
struct Seen {
    attempts: u32,
    ended: Option<&'static str>,
}

fn run(steps: &[Step], strict: bool) -> Result<(), TestCaseError> {
    let webhooks = webhooks(if strict { &["webhooks.order=strict"] } else { &[] });
    let mut queue = Queue::default();
    queue.set_order(webhooks.order);
    let (mut now, mut made) = (0, 0);
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    let mut under_way: Vec<Job> = Vec::new();
    // Deliveries due at once, by subscription: their first attempts must come in this order.
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut first_attempts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // The end of every run lets everything come to its end.
    let ending = std::iter::repeat_n([Step::End(9), Step::Pass(40)], 40 * (1 + steps.len())).flatten();
    for step in steps.iter().cloned().chain(ending) {
        match step {
            Step::Push(subscriptions, delay) => {
                made += 1;
                let event = event(made, at(now + delay), &subscriptions);
                for delivery in &event.deliveries {
                    seen.insert(delivery.id.clone(), Seen::default());
                    if delay == 0 {
                        expected.entry(delivery.subscription.clone()).or_default().push(delivery.id.clone());
                    }
                }
                queue.push(&event);
            }
            Step::Pass(seconds) => now += seconds,
            Step::End(kind) if !under_way.is_empty() => {
                let job = under_way.remove(0);
                let outcome = match kind {
                    0..=2 => answered(500),
                    3 => AttemptOutcome::Failed { reason: FailureReason::Timeout, detail: String::new() },
                    4 => answered(410),
                    _ => answered(200),
                };
                let next = queue.finish(&job.delivery.subscription, &outcome, &webhooks, at(now), || {
                    Seed::from_number(1).source("test")
                });
                let ended = match next {
                    Next::Delivered => Some("delivered"),
                    Next::Exhausted => Some("exhausted"),
                    Next::Retry(due) => {
                        prop_assert!(due > at(now));
                        None
                    }
                    Next::Gone(jobs) => {
                        for job in jobs {
                            seen.get_mut(&job.delivery.id).expect("it was pushed").ended = Some("cancelled");
                        }
                        Some("cancelled")
                    }
                };
                seen.get_mut(&job.delivery.id).expect("it was pushed").ended = ended;
            }
            Step::End(_) => {}
        }
        while let Some(job) = queue.take_due(at(now)) {
            prop_assert!(job.due <= at(now), "taken before its time");
            let busy = under_way.iter().any(|other| other.delivery.subscription == job.delivery.subscription);
            prop_assert!(!busy, "two attempts of one lane at a time");
            let seen = seen.get_mut(&job.delivery.id).expect("it was pushed");
            prop_assert!(seen.ended.is_none(), "an attempt after the end");
            seen.attempts += 1;
            prop_assert_eq!(seen.attempts, job.attempt);
            prop_assert!(seen.attempts <= 4, "more attempts than the schedule has");
            if job.attempt == 1 {
                first_attempts.entry(job.delivery.subscription.clone()).or_default().push(job.delivery.id.clone());
            }
            under_way.push(job);
        }
        prop_assert_eq!(queue.under_way(), under_way.len());
        prop_assert_eq!(queue.pending(), seen.values().filter(|seen| seen.ended.is_none()).count());
    }
    prop_assert_eq!(queue.pending(), 0, "something was lost");
    for (subscription, expected) in expected {
        let made = &first_attempts.get(&subscription).cloned().unwrap_or_default();
        let in_time: Vec<&String> = made.iter().filter(|id| expected.contains(id)).collect();
        let expected: Vec<&String> = expected.iter().filter(|id| made.contains(id)).collect();
        prop_assert_eq!(in_time, expected, "first attempts out of order");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_doubled_or_reordered(steps in prop::collection::vec(step(), 0..40), strict in any::<bool>()) {
        run(&steps, strict)?;
    }
}

#[test]
fn schedules_follow_their_preset() {
    for (preset, millis) in [
        ("none", &[][..]),
        ("ci", &[100, 200, 400]),
        ("standard", &[1000, 4000, 25_000]),
        ("slack", &[0, 60_000, 300_000]),
        ("custom", &[7_000]),
    ] {
        let webhooks = webhooks(&[&format!("webhooks.retry.preset={preset}"), "webhooks.retry.schedule=[\"7s\"]"]);
        let delays: Vec<u64> = (1..)
            .map_while(|attempt| delay_after(&webhooks.retry, attempt))
            .map(|delay| u64::try_from(delay.as_millis()).expect("short"))
            .collect();
        assert_eq!(delays, millis, "{preset}");
    }
}

#[test]
fn retry_after_is_clamped_and_jitter_stays_within_its_spread() {
    let mut random = Seed::from_number(1).source("test");
    let plain = webhooks(&[]);
    for (requested, seconds) in [(0, 4), (5, 5), (8, 8), (3600, 8)] {
        let delay = next_delay(&plain, 2, Some(Duration::from_secs(requested)), &mut random);
        assert_eq!(delay, Some(Duration::from_secs(seconds)));
    }
    let ignoring = webhooks(&["webhooks.honor_retry_after=false"]);
    assert_eq!(next_delay(&ignoring, 2, Some(Duration::from_secs(5)), &mut random), Some(Duration::from_secs(4)));
    let spread = webhooks(&["webhooks.retry.jitter=0.5"]);
    let delays: Vec<Duration> = (0..50).filter_map(|_| next_delay(&spread, 2, None, &mut random)).collect();
    assert!(delays.iter().all(|delay| (2.0..=6.0).contains(&delay.as_secs_f64())));
    assert!(delays.windows(2).any(|pair| pair[0] != pair[1]));
}
