//! How much the emulator costs over the least an HTTP server can do: the release binary against a bare hyper server, in
//! the same run, under the same load, with authentication, quota, journal and request ids all on.
//!
//! `cargo bench` prints one table beside `benches/figures.json`, which `-- --write` rewrites. `-- --json` prints it for machines,
//! `-- --quick` measures briefly. The load comes from this process; each server is its own process, so that its
//! processor time and memory can be measured separately.
//!
//! Reading order: `measure` (what is measured, and how), `process` (a server and what it uses), `load` (the clients),
//! `answer` (one exchange), `bare` (the server compared with), `pairs` and `table` (figures beside the committed ones), `options` (the
//! command line).

mod answer;
mod bare;
mod load;
mod measure;
mod options;
mod pairs;
mod process;
mod table;

use std::io::Write as _;
use std::process::ExitCode;

use measure::Plan;

const NAME: &str = "bare_hyper";

fn main() -> ExitCode {
    if let [bare::FLAG, port_file, answer, address @ ..] =
        options::arguments().iter().map(String::as_str).collect::<Vec<_>>().as_slice()
    {
        let served = bare::run((*port_file).as_ref(), answer, address.first().copied());
        return options::report(NAME, served.map(|()| ExitCode::SUCCESS));
    }
    options::run(NAME, |quick| {
        let plan = if quick { Plan::QUICK } else { Plan::FULL };
        measure::measure(&plan, |text| {
            // Progress is for whoever waits; the table alone is the result.
            let _ = writeln!(std::io::stderr(), "{text}");
        })
    })
}
