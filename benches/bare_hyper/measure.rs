//! What is measured, and how: rounds of load on both servers in turn, growth over many requests, starts in turn.
//!
//! Whatever else the machine does meanwhile hits both servers of a round about equally, so each round gives one
//! comparison, and the median of the comparisons is the result. The order within a round alternates.

use std::io;
use std::thread::available_parallelism;
use std::time::Duration;

use crate::answer::Answer;
use crate::load::{self, CONNECTIONS, Run, Until, count};
use crate::pairs::{Pairs, in_turn, median};
use crate::process::{Server, Subject};
use crate::table::{Compared, Figure, Table};

const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Rounds of load.
    rounds: usize,
    /// The length of one server's part of a round.
    length: Duration,
    /// Starts of each server.
    starts: usize,
    /// Requests over which memory may grow.
    requests: u64,
}

impl Plan {
    /// The measurement that counts.
    pub(crate) const FULL: Self =
        Self { rounds: 15, length: Duration::from_millis(1500), starts: 25, requests: 1_000_000 };
    /// Some seconds, for a first look.
    pub(crate) const QUICK: Self =
        Self { rounds: 5, length: Duration::from_millis(500), starts: 15, requests: 100_000 };
}

/// Measures everything. `tell` gets a line whenever a part begins.
pub(crate) fn measure(plan: &Plan, tell: impl Fn(&str)) -> io::Result<Table> {
    let answer = Subject::Emulator.start()?.answer;
    tell(&format!("{} starts of each server", plan.starts));
    let [start, idle] = starts(plan, &answer)?;
    tell(&format!("{} rounds of {} ms on each server", plan.rounds, plan.length.as_millis()));
    let (mut figures, generator) = rounds(plan, &answer)?;
    tell(&format!("{} requests to each server", plan.requests));
    figures.push(growth(plan, &answer)?);
    figures.extend([idle, start]);
    let processors = available_parallelism().map_or(1, usize::from);
    let conditions = format!(
        "GET /v1/system/status with a Bearer key over {CONNECTIONS} keep-alive connections, {processors} processors; medians over \
         {} rounds of {} ms on each server in turn, and over {} starts. The load takes {generator:.1} µs of processor time \
         per request.",
        plan.rounds,
        plan.length.as_millis(),
        plan.starts
    );
    Ok(Table { columns: ["wrs-emulator", "bare hyper"], conditions, figures })
}

/// Throughput, processor time and latency; and what making the load itself takes, in microseconds per request.
fn rounds(plan: &Plan, answer: &Answer) -> io::Result<(Vec<Figure>, f64)> {
    let emulator = Subject::Emulator.start()?.server;
    let bare = Subject::Bare(answer).start()?.server;
    let until = Until::Elapsed(plan.length);
    // What is allocated or looked up once only is not what is compared.
    for server in [&emulator, &bare] {
        load::run(server, until)?;
    }
    let [mut throughput, mut processor, mut latency] = [Pairs::default(), Pairs::default(), Pairs::default()];
    let mut client = Pairs::default();
    for round in 0..plan.rounds {
        let [mut ours, mut theirs] = in_turn(round, || load::run(&emulator, until), || load::run(&bare, until))?;
        client.push(ours.client_microseconds(), theirs.client_microseconds());
        throughput.push(ours.throughput(), theirs.throughput());
        processor.push(ours.processor_microseconds(), theirs.processor_microseconds());
        latency.push(ours.p99_microseconds(), theirs.p99_microseconds());
    }
    let figures = vec![
        throughput.figure("throughput", "/s", Compared::Ratio),
        processor.figure("processor time per request", "µs", Compared::Ratio),
        latency.figure("latency, 99th percentile", "µs", Compared::Ratio),
    ];
    Ok((figures, median(client.values())))
}

/// How far memory grows over many requests, from the first answer on.
fn growth(plan: &Plan, answer: &Answer) -> io::Result<Figure> {
    let grown = |subject: Subject| -> io::Result<f64> {
        let server = subject.start()?.server;
        let before = mebibytes(&server)?;
        let _: Run = load::run(&server, Until::Requests(plan.requests))?;
        Ok(mebibytes(&server)? - before)
    };
    let mut pairs = Pairs::default();
    pairs.push(grown(Subject::Emulator)?, grown(Subject::Bare(answer))?);
    let name = format!("memory growth over {} requests", plan.requests);
    Ok(pairs.figure(&name, "MiB", Compared::Value))
}

/// Process start to first answer, and memory after it.
fn starts(plan: &Plan, answer: &Answer) -> io::Result<[Figure; 2]> {
    let [mut start, mut idle] = [Pairs::default(), Pairs::default()];
    for round in 0..plan.starts {
        let once = |subject: Subject| -> io::Result<(f64, f64)> {
            let started = subject.start()?;
            Ok((started.elapsed.as_secs_f64() * 1e3, mebibytes(&started.server)?))
        };
        let [ours, theirs] = in_turn(round, || once(Subject::Emulator), || once(Subject::Bare(answer)))?;
        start.push(ours.0, theirs.0);
        idle.push(ours.1, theirs.1);
    }
    Ok([
        start.figure("process start to first answer", "ms", Compared::Difference),
        idle.figure("idle memory", "MiB", Compared::Value),
    ])
}

fn mebibytes(server: &Server) -> io::Result<f64> {
    Ok(count(server.resident_bytes()?) / MEBIBYTE)
}
