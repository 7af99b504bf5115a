//! What a crowd costs everybody else: ten thousand keys beside one, a hundred calls that wait for what does not come beside
//! none, and 64 viewers of the event stream, one of them stuck, beside none. The release binary, each server a process of
//! its own; both sides of a comparison are measured in turn.
//!
//! `cargo bench --bench crowd` prints one table; `-- --quick`, `-- --json` and `-- --check` as for `bare_hyper`. Clients,
//! processes and the table are those of `bare_hyper`. Reading order: `keys`, `waiting`, `viewers`.

#[allow(dead_code, reason = "shared with `bare_hyper`, which uses all of it")]
#[path = "../bare_hyper/answer.rs"]
mod answer;
#[allow(dead_code, reason = "shared with `bare_hyper`, which uses all of it")]
#[path = "../bare_hyper/bare.rs"]
mod bare;
mod keys;
#[allow(dead_code, reason = "shared with `bare_hyper`, which uses all of it")]
#[path = "../bare_hyper/load.rs"]
mod load;
#[path = "../bare_hyper/pairs.rs"]
mod pairs;
#[allow(dead_code, reason = "shared with `bare_hyper`, which uses all of it")]
#[path = "../bare_hyper/process.rs"]
mod process;
#[path = "../bare_hyper/table.rs"]
mod table;
mod viewers;
mod waiting;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use table::Table;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Rounds of each comparison.
    rounds: usize,
    /// The length of one side's part of a round.
    length: Duration,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if !has("--bench") {
        // A run of `cargo test --all-targets`, which measures nothing.
        return ExitCode::SUCCESS;
    }
    let known = ["--bench", "--quick", "--json", "--check"];
    if let Some(unknown) = arguments.iter().find(|argument| !known.contains(&argument.as_str())) {
        let _ = writeln!(io::stderr(), "unknown argument `{unknown}`; known: --quick, --json, --check");
        return ExitCode::from(2);
    }
    let plan = if has("--quick") {
        Plan { rounds: 3, length: Duration::from_millis(500) }
    } else {
        Plan { rounds: 7, length: Duration::from_millis(1500) }
    };
    let measured = measure(plan).and_then(|table| {
        let text = if has("--json") { format!("{:#}\n", table.to_json()) } else { table.to_string() };
        io::stdout().lock().write_all(text.as_bytes())?;
        Ok(if has("--check") && !table.all_met() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    });
    measured.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "crowd: {error}");
        ExitCode::from(3)
    })
}

fn measure(plan: Plan) -> io::Result<Table> {
    let mut figures = Vec::new();
    for (part, run) in [
        ("10,000 keys beside one", keys::measure as fn(Plan) -> io::Result<Vec<table::Figure>>),
        ("100 calls that wait beside none", waiting::measure),
        ("64 viewers, one of them stuck, beside none", viewers::measure),
    ] {
        let _ = writeln!(io::stderr(), "{part}");
        figures.extend(run(plan)?);
    }
    let conditions = format!(
        "GET /v1/system/status with a Bearer key over {} keep-alive connections; medians over {} rounds of {} ms with the crowd \
         and without in turn. With viewers, {} requests a second; else as many as can be.",
        load::CONNECTIONS,
        plan.rounds,
        plan.length.as_millis(),
        viewers::REQUESTS_A_SECOND,
    );
    Ok(Table { columns: ["with", "without"], conditions, figures })
}
