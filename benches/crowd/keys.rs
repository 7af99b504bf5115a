//! Ten thousand keys in turn beside one key: what it costs that each has its own workspace, and what they hold.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::Plan;
use crate::answer::request_with;
use crate::load::{Load, Until, count, run_with};
use crate::pairs::{Pairs, in_turn};
use crate::process::Subject;
use crate::table::{Compared, Figure};

/// As many as the emulator keeps; the key of the first request, at the start, is one of them.
const KEYS: u64 = 10_000;
/// The key of the other side.
const ONE: &str = "sk_test_local";

pub(crate) fn measure(plan: Plan) -> io::Result<Vec<Figure>> {
    let load = |key: fn(u64) -> String| {
        let requests: Vec<Vec<u8>> = (0..KEYS).map(|number| request_with(&key(number))).collect();
        Load { requests: Arc::from(requests), pause: Duration::ZERO }
    };
    let many = load(|number| if number == 0 { ONE.to_owned() } else { format!("sk_test_key_{number}") });
    // As many requests in the clients' memory, so that only the server's work differs.
    let one = load(|_| ONE.to_owned());
    let (with, without) = (Subject::Emulator.start()?.server, Subject::Emulator.start()?.server);
    // Every key is met, and the journal is full, before the clock runs.
    let until = Until::Requests(4 * KEYS);
    run_with(&without, until, &one)?;
    run_with(&with, until, &many)?;
    // The journal takes the same memory on both sides, so the difference belongs to the keys.
    let held = with.resident_bytes()?.saturating_sub(without.resident_bytes()?);
    let mut throughput = Pairs::default();
    let until = Until::Elapsed(plan.length);
    for round in 0..plan.rounds {
        let [many, one] = in_turn(round, || run_with(&with, until, &many), || run_with(&without, until, &one))?;
        throughput.push(many.throughput(), one.throughput());
    }
    let mut memory = Pairs::default();
    memory.push(count(held) / count(KEYS) / 1024.0, 0.0);
    Ok(vec![
        throughput.figure("throughput, 10,000 keys", "/s", Compared::Ratio),
        memory.figure("memory per key", "KiB", Compared::Value),
    ])
}
