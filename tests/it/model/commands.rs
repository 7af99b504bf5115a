//! What the model test does to the emulator, at random: the commands, how they are drawn, and the rules of one run.

use proptest::prelude::*;

/// How many keys take part.
pub(super) const KEYS: usize = 3;
/// The hooks of each key below this one are built-in receivers; this one is a receiver behind a socket.
pub(super) const OUTSIDE: usize = 2;

/// One thing that a client or a tester does. `key: None` means the emulator, or all keys; `at` picks one of what there is.
#[derive(Clone, Debug)]
pub(super) enum Command {
    Status { key: usize },
    BadQuery { key: usize },
    Named { key: usize },
    Nowhere { key: usize },
    Subscribe { key: usize, hook: usize, events: u8, secret: bool },
    BadSubscribe { key: usize },
    Fire { key: usize, kind: usize, delay: u64 },
    Answer { key: usize, hook: usize, answers: Vec<u16> },
    Rotate { key: usize, at: usize },
    Delete { key: usize, at: usize },
    Switch { key: usize, at: usize, active: bool },
    Scenarios { key: Option<usize>, list: usize },
    Requests { key: usize, most: u32 },
    Advance { key: Option<usize>, millis: u64 },
    Set { key: Option<usize>, millis: i64 },
    Freeze { key: usize },
    Resume { key: usize },
    Follow { key: usize },
    Reset { key: Option<usize> },
    Save { key: Option<usize> },
    Load,
}

/// How quotas are counted in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Fixed,
    Sliding,
    TokenBucket,
}

/// What counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Allowed,
    All,
    Successful,
}

/// What is set for one run.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) algorithm: Algorithm,
    pub(super) count: Count,
    pub(super) requests: u32,
    /// The retry preset, and the delays in milliseconds that it stands for.
    pub(super) preset: &'static str,
    pub(super) schedule: &'static [u64],
    pub(super) strict: bool,
}

/// Retry presets and their schedules, which the documents state.
const SCHEDULES: [(&str, &[u64]); 5] = [
    ("standard", &[1_000, 4_000, 25_000]),
    ("ci", &[100, 200, 400]),
    ("slack", &[0, 60_000, 300_000]),
    ("custom", &[3_000, 9_000]),
    ("none", &[]),
];

pub(super) fn rules() -> impl Strategy<Value = Rules> {
    let algorithm = prop_oneof![Just(Algorithm::Fixed), Just(Algorithm::Sliding), Just(Algorithm::TokenBucket)];
    let count = prop_oneof![Just(Count::Allowed), Just(Count::All), Just(Count::Successful)];
    (algorithm, count, 1..6_u32, 0..SCHEDULES.len(), any::<bool>()).prop_map(
        |(algorithm, count, requests, schedule, strict)| {
            let (preset, schedule) = SCHEDULES[schedule];
            Rules { algorithm, count, requests, preset, schedule, strict }
        },
    )
}

/// Steps of time: many that end just at, just before or between due instants.
fn millis() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => prop::sample::select(vec![0, 1, 99, 100, 999, 1_000, 2_500, 4_000, 5_000, 9_999, 60_000]),
        2 => prop::sample::select(vec![10_000, 15_000, 20_000]),
        1 => 0..12_000_u64,
    ]
}

fn answers() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(prop::sample::select(vec![200, 204, 302, 500, 500, 503, 503, 410]), 0..5)
}

pub(super) fn commands() -> impl Strategy<Value = Vec<Command>> {
    // Most happens to one key, so that commands meet; the others show that they are left alone.
    let key = prop_oneof![6 => Just(0), 2 => Just(1), 1 => 2..KEYS];
    let one = key.clone();
    let perhaps = move || prop::option::weighted(0.6, one.clone());
    let hook = prop_oneof![1 => Just(0), 1 => Just(1), 2 => Just(OUTSIDE)];
    let at = 0..8_usize;
    let command = prop_oneof![
        8 => key.clone().prop_map(|key| Command::Status { key }),
        2 => key.clone().prop_map(|key| Command::BadQuery { key }),
        3 => key.clone().prop_map(|key| Command::Named { key }),
        2 => key.clone().prop_map(|key| Command::Nowhere { key }),
        6 => (key.clone(), hook.clone(), prop_oneof![3 => Just(3), 1 => 1..=2_u8], prop::bool::weighted(0.4))
            .prop_map(|(key, hook, events, secret)| Command::Subscribe { key, hook, events, secret }),
        1 => key.clone().prop_map(|key| Command::BadSubscribe { key }),
        8 => (key.clone(), 0..2_usize, prop_oneof![3 => Just(0), 1 => millis()])
            .prop_map(|(key, kind, delay)| Command::Fire { key, kind, delay }),
        6 => (key.clone(), hook, answers())
            .prop_map(|(key, hook, answers)| Command::Answer { key, hook, answers }),
        3 => (key.clone(), at.clone()).prop_map(|(key, at)| Command::Rotate { key, at }),
        1 => (key.clone(), at.clone()).prop_map(|(key, at)| Command::Delete { key, at }),
        2 => (key.clone(), at, any::<bool>()).prop_map(|(key, at, active)| Command::Switch { key, at, active }),
        2 => (perhaps(), 0..5_usize).prop_map(|(key, list)| Command::Scenarios { key, list }),
        2 => (key.clone(), 1..8_u32).prop_map(|(key, most)| Command::Requests { key, most }),
        9 => (perhaps(), millis()).prop_map(|(key, millis)| Command::Advance { key, millis }),
        3 => (perhaps(), -20_000..30_000_i64).prop_map(|(key, millis)| Command::Set { key, millis }),
        1 => key.clone().prop_map(|key| Command::Freeze { key }),
        1 => key.clone().prop_map(|key| Command::Resume { key }),
        1 => key.clone().prop_map(|key| Command::Follow { key }),
        1 => prop::option::weighted(0.8, key).prop_map(|key| Command::Reset { key }),
        2 => perhaps().prop_map(|key| Command::Save { key }),
        2 => Just(Command::Load),
    ];
    prop::collection::vec(command, 10..=40)
}
