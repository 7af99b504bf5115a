//! How much the emulator costs over the least an HTTP server can do: the release binary against a bare hyper server, in
//! the same run, under the same load, with authentication, quota, journal and request ids all on.
//!
//! `cargo bench` prints one table. `-- --json` prints it for machines, `-- --quick` measures briefly, `-- --check` exits
//! with 1 if a bound is missed. The load comes from this process; each server is a process of its own, so that its
//! processor time and memory can be told apart. Figures are compared, never held to absolute numbers of a machine.
//!
//! Reading order: `measure` (what is measured, and how), `process` (a server and what it uses), `load` (the clients),
//! `answer` (one exchange), `bare` (the server compared with), `pairs` and `table` (figures and bounds).

mod answer;
mod bare;
mod load;
mod measure;
mod pairs;
mod process;
mod table;

use std::io::{self, Write as _};
use std::process::ExitCode;

use measure::Plan;

const USAGE: &str = "\
Usage: cargo bench [-- [--quick] [--json] [--check]]

  --quick   fewer and shorter rounds, a tenth of the requests
  --json    the table as JSON
  --check   exit with 1 if a bound is missed";

/// What `cargo bench` passes. Without it this is a run of `cargo test --all-targets`, which measures nothing.
const CARGO_FLAG: &str = "--bench";

/// What the command line asks for.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    quick: bool,
    json: bool,
    check: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [bare::FLAG, port_file, answer, address @ ..] =
        arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice()
    {
        let served = bare::run((*port_file).as_ref(), answer, address.first().copied());
        return report(served.map(|()| ExitCode::SUCCESS));
    }
    if !arguments.iter().any(|argument| argument == CARGO_FLAG) {
        return ExitCode::SUCCESS;
    }
    match Options::parse(&arguments) {
        Ok(options) => report(run(options)),
        Err(unknown) => {
            let _ = writeln!(io::stderr(), "unknown argument `{unknown}`\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

impl Options {
    /// Reads the arguments; gives back one that is not known.
    fn parse(arguments: &[String]) -> Result<Self, &str> {
        let mut options = Self::default();
        for argument in arguments {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--json" => options.json = true,
                "--check" => options.check = true,
                CARGO_FLAG => {}
                unknown => return Err(unknown),
            }
        }
        Ok(options)
    }
}

fn run(options: Options) -> io::Result<ExitCode> {
    let plan = if options.quick { Plan::QUICK } else { Plan::FULL };
    let table = measure::measure(&plan, |text| {
        // Progress is for whoever waits; the table alone is the result.
        let _ = writeln!(io::stderr(), "{text}");
    })?;
    let text = if options.json { format!("{:#}\n", table.to_json()) } else { table.to_string() };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(if options.check && !table.all_met() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn report(result: io::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "bare_hyper: {error}");
        ExitCode::from(3)
    })
}
