//! Instructions for a request and for a webhook, in user space, as valgrind counts them: a figure that hardly depends on the machine.
//!
//! Each server runs twice under valgrind, for a short and for a long run. The figure is the difference between the two, divided by
//! the number of further requests in the long run, so the cost of the start cancels out. Each case is compared with a bare hyper server
//! that gives the same answer, and deliveries with a bare client that signs and posts. The load comes from this process, which is not counted.
//!
//! `cargo bench --bench instructions` prints one table with the difference from `figures.json`, which `-- --write` rewrites;
//! `-- --only NAME` measures the cases whose name contains this. Differences over 15 % are marked; none is an error.
//!
//! Reading order: `cases` (what is measured), `counted` (a process under valgrind), `client` (the load), `bare` (the server
//! compared with), `webhooks` (deliveries), `receiver` and `plain` (their receiver and the client compared with), `report` (the table, the goals and the committed figures).

mod bare;
mod cases;
mod client;
mod counted;
mod plain;
mod receiver;
mod report;
mod webhooks;

use std::io::{self, Write as _};
use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo bench --bench instructions [-- [--write] [--only NAME]]

  --write      write the figures to benches/instructions/figures.json
  --only NAME  measure only the cases whose name contains NAME";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [bare::FLAG, port_file, answer] => bare::run(port_file.as_ref(), answer),
        [webhooks::FLAG, port, count] => webhooks::post(port, count),
        [receiver::FLAG, folder] => receiver::run(folder.as_ref()),
        // Without this flag it is a run of `cargo test --all-targets`, which measures nothing.
        words if words.contains(&"--bench") => match Options::parse(words) {
            Ok(options) => measure(&options),
            Err(problem) => {
                let _ = writeln!(io::stderr(), "instructions: {problem}\n\n{USAGE}");
                return ExitCode::from(2);
            }
        },
        _ => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "instructions: {error}");
            ExitCode::from(3)
        }
    }
}

/// What the command line asks for.
#[derive(Debug, Default)]
struct Options {
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
                "--write" => options.write = true,
                "--only" => options.only = words.next().ok_or("--only needs a name")?.to_string(),
                unknown => return Err(format!("unknown argument `{unknown}`")),
            }
        }
        Ok(options)
    }
}

fn measure(options: &Options) -> io::Result<()> {
    let chosen = |name: &str| name.contains(&options.only);
    let committed = report::read()?;
    let mut figures = Vec::new();
    for case in cases::all() {
        if chosen(case.name) {
            let _ = writeln!(io::stderr(), "{}", case.name);
            figures.push(case.measure()?);
        }
    }
    if chosen(webhooks::NAME) {
        let _ = writeln!(io::stderr(), "{}", webhooks::NAME);
        figures.push(webhooks::measure()?);
    }
    report::print(&figures, &committed, &mut io::stdout().lock())?;
    if options.write {
        report::write(&figures, committed)?;
    }
    Ok(())
}
