//! What every benchmark does with its arguments, and with the table that it has measured.

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::table::Table;

const USAGE: &str = "\
Usage: cargo bench --bench NAME [-- [--quick] [--json] [--write]]

  --quick   fewer and shorter rounds
  --json    the table as JSON
  --write   write the results to benches/figures.json";

/// What `cargo bench` passes. Without it this is a run of `cargo test --all-targets`, which measures nothing.
const CARGO_FLAG: &str = "--bench";

/// The arguments of this process.
pub(crate) fn arguments() -> Vec<String> {
    std::env::args().skip(1).collect()
}

/// Measures, briefly if the arguments say so, and prints the table in the form that they request.
pub(crate) fn run(name: &str, measure: impl FnOnce(bool) -> io::Result<Table>) -> ExitCode {
    let arguments = arguments();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if !has(CARGO_FLAG) {
        return ExitCode::SUCCESS;
    }
    let known = [CARGO_FLAG, "--quick", "--json", "--write"];
    if let Some(unknown) = arguments.iter().find(|argument| !known.contains(&argument.as_str())) {
        let _ = writeln!(io::stderr(), "{name}: unknown argument `{unknown}`\n\n{USAGE}");
        return ExitCode::from(2);
    }
    let measured = measure(has("--quick")).and_then(|table| {
        let text = if has("--json") { format!("{:#}\n", table.to_json()) } else { table.to_string() };
        io::stdout().lock().write_all(text.as_bytes())?;
        if has("--write") {
            table.write()?;
        }
        Ok(ExitCode::SUCCESS)
    });
    report(name, measured)
}

/// The exit code; prints the error if there was one.
pub(crate) fn report(name: &str, result: io::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "{name}: {error}");
        ExitCode::from(3)
    })
}
