//! Instructions for a request and for a webhook, in user space, as valgrind counts them: a figure that hardly depends on the machine.
//!
//! Each server runs twice under valgrind, for a short and for a long run; the difference divided by the requests between them is
//! the figure, so that the start costs nothing. Beside each case stands a bare hyper server that gives the same answer, and beside
//! deliveries a bare client that signs and posts. The load comes from this process, which is not counted.
//!
//! `cargo bench --bench instructions` prints one table; `-- --check` exits with 1 if a case needs more than 3 % over
//! `figures.json`, which `-- --write` rewrites; `-- --only NAME` measures the cases whose name contains this.
//!
//! Reading order: `cases` (what is measured), `counted` (a process under valgrind), `client` (the load), `bare` (the server
//! compared with), `webhooks` (deliveries), `report` (the table, the goals and the committed figures).

mod bare;
mod cases;
mod client;
mod counted;
#[path = "../deliveries/plain.rs"]
mod plain;
#[allow(dead_code, reason = "shared with `deliveries`, which uses all of it")]
#[path = "../deliveries/receiver.rs"]
mod receiver;
mod report;
mod webhooks;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::process::ExitCode;

use report::Figure;

/// Connections of the bare client of webhooks: what `deliveries` has in flight.
const IN_FLIGHT: usize = 64;

/// How often a case is measured at most.
const MOST_MEASURED: usize = 5;

const USAGE: &str = "\
Usage: cargo bench --bench instructions [-- [--check] [--write] [--only NAME]]

  --check      exit with 1 if a figure has risen by more than 3 % over the committed one
  --write      write the figures to benches/instructions/figures.json
  --only NAME  measure only the cases whose name contains NAME";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [bare::FLAG, port_file, answer] => bare::run(port_file.as_ref(), answer).map(|()| true),
        [webhooks::FLAG, port, count] => webhooks::post(port, count).map(|()| true),
        [receiver::FLAG, folder, protocol] => {
            receiver::run(folder.as_ref(), receiver::Protocol::parse(protocol)).map(|()| true)
        }
        // Without this flag it is a run of `cargo test --all-targets`, which measures nothing.
        words if words.contains(&"--bench") => match Options::parse(words) {
            Ok(options) => measure(&options),
            Err(problem) => {
                let _ = writeln!(io::stderr(), "instructions: {problem}\n\n{USAGE}");
                return ExitCode::from(2);
            }
        },
        _ => Ok(true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "instructions: {error}");
            ExitCode::from(3)
        }
    }
}

/// What the command line asks for.
#[derive(Debug, Default)]
struct Options {
    check: bool,
    write: bool,
    only: String,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--bench" => {}
                "--check" => options.check = true,
                "--write" => options.write = true,
                "--only" => options.only = words.next().ok_or("--only needs a name")?.to_string(),
                unknown => return Err(format!("unknown argument `{unknown}`")),
            }
        }
        Ok(options)
    }
}

/// Measures and prints; false if a check failed.
fn measure(options: &Options) -> io::Result<bool> {
    let chosen = |name: &str| name.contains(&options.only);
    let committed = report::read()?;
    let mut figures = Vec::new();
    for case in cases::all() {
        if chosen(case.name) {
            let _ = writeln!(io::stderr(), "{}", case.name);
            figures.push(least(&committed, || case.measure())?);
        }
    }
    if chosen(webhooks::NAME) {
        let _ = writeln!(io::stderr(), "{}", webhooks::NAME);
        figures.push(least(&committed, webhooks::measure)?);
    }
    let problems: Vec<String> = figures.iter().filter_map(|figure| report::problem(figure, &committed)).collect();
    report::print(&figures, &committed, &mut io::stdout().lock())?;
    if options.write {
        report::write(&figures, committed)?;
    }
    for problem in &problems {
        writeln!(io::stderr(), "{problem}")?;
    }
    Ok(!options.check || problems.is_empty())
}

/// The figure of a case. If it has risen, the least of a few: when other work takes processors away, threads wake each other more
/// often, which only ever adds.
fn least(committed: &BTreeMap<String, u64>, measure: impl Fn() -> io::Result<Figure>) -> io::Result<Figure> {
    let mut least = measure()?;
    for _ in 1..MOST_MEASURED {
        if report::problem(&least, committed).is_none() {
            break;
        }
        let again = measure()?;
        if again.emulator < least.emulator {
            least = again;
        }
    }
    Ok(least)
}

/// The machine's monotonic time; the shared files of `deliveries` ask for it.
#[allow(clippy::disallowed_methods, reason = "a benchmark may read the machine's time")]
fn moment() -> std::time::Instant {
    std::time::Instant::now()
}
