//! The whole emulator in a simulated world: one thread, virtual time, a network in memory, and clients, receivers and calls that
//! one seed decides. Each seed is played twice, and judged by what was promised.
//!
//! `WORLD_SEEDS=1000` plays so many seeds, `WORLD_SEED=7` that one alone; `WORLD_TRACE=FILE` writes its traces.

mod clients;
mod facts;
mod judge;
mod plan;
mod quota;
mod receivers;
mod run;
mod wire;

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most problems shown of a seed, if there are several.
const SHOWN: usize = 5;

/// The problems of one seed.
fn problems_of(seed: u64) -> Vec<String> {
    let played = catch_unwind(AssertUnwindSafe(|| {
        let (first, second) = (run::play(seed), run::play(seed));
        let mut problems = judge::judge(&first.world);
        let lines = first.trace.lines().zip(second.trace.lines()).enumerate();
        let mut differing = lines.filter(|(_, (one, other))| one != other);
        if let Some((at, (one, other))) = differing.next() {
            problems.push(format!("two runs differ in line {at} of their traces:\n    {one}\n    {other}"));
        } else if first.trace != second.trace {
            problems.push("one of two runs has more than the other".to_owned());
        }
        if let Ok(file) = std::env::var("WORLD_TRACE") {
            std::fs::write(&file, &first.trace).expect("the trace can be written");
            std::fs::write(format!("{file}.2"), &second.trace).expect("the trace can be written");
        }
        problems
    }));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        vec![format!("a panic: {text}")]
    })
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn every_seed_keeps_what_was_promised_and_repeats() {
    let seeds = match number("WORLD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..number("WORLD_SEEDS").unwrap_or(50) + 1,
    };
    let most = if seeds.end - seeds.start == 1 { usize::MAX } else { SHOWN };
    let (next, failed) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let problems = problems_of(seed);
                    if !problems.is_empty() {
                        failed.lock().expect("no panic").push((seed, problems));
                    }
                }
            });
        }
    });
    let _ = std::fs::remove_dir_all(run::folder());
    let mut failed = failed.into_inner().expect("no panic");
    failed.sort_unstable();
    let shown: String = failed
        .iter()
        .map(|(seed, problems)| {
            let first: String = problems.iter().take(most).map(|problem| format!("  {problem}\n")).collect();
            let plan = plan::Plan::of(*seed);
            format!(
                "WORLD_SEED={seed} cargo test --features simulation --test world   # {plan}\n{first}  ({} problems)\n",
                problems.len()
            )
        })
        .collect();
    assert!(failed.is_empty(), "{} seeds failed; each repeats:\n{shown}", failed.len());
}
