//! What a crowd costs everybody else: ten thousand keys compared with one, a hundred waiting calls compared with none, and
//! 64 viewers of the event stream, one of them stuck, compared with none. The release binary, each server a process of its
//! own; both sides of a comparison are measured in turn.
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
#[allow(dead_code, reason = "shared with `bare_hyper`, which uses all of it")]
#[path = "../bare_hyper/options.rs"]
mod options;
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
    options::run("crowd", |quick| {
        measure(if quick {
            Plan { rounds: 3, length: Duration::from_millis(500) }
        } else {
            Plan { rounds: 7, length: Duration::from_millis(1500) }
        })
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
