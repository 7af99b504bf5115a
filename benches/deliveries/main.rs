//! How many webhooks a second the emulator delivers, beside a bare hyper client that signs and posts, in the same run: 64 in
//! flight, over HTTP and over HTTPS, journal on. The receiver is its own process.
//!
//! `cargo bench --bench deliveries` prints one table; `-- --quick`, `-- --json` and `-- --check` as for `bare_hyper`.

mod emulator;
#[path = "../bare_hyper/options.rs"]
mod options;
mod plain;
mod receiver;
#[allow(dead_code, reason = "shared with `bare_hyper`, which uses all of it")]
#[path = "../bare_hyper/table.rs"]
mod table;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use receiver::{Protocol, Receiver};
use table::{Compared, Figure, Table};

/// Subscriptions, each with one delivery under way: what is in flight.
const IN_FLIGHT: usize = 64;

fn main() -> ExitCode {
    let arguments = options::arguments();
    if let [receiver::FLAG, folder, protocol] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        let ran = receiver::run(folder.as_ref(), Protocol::parse(protocol));
        return options::report("deliveries", ran.map(|()| ExitCode::SUCCESS));
    }
    options::run("deliveries", |quick| {
        let (events, rounds) = if quick { (100, 3) } else { (300, 9) };
        measure(events, rounds)
    })
}

fn measure(events: usize, rounds: usize) -> io::Result<Table> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures = Vec::new();
    for protocol in [Protocol::Http, Protocol::Https] {
        let _ = writeln!(io::stderr(), "{rounds} rounds over {}", protocol.name());
        let receiver = Receiver::start(protocol)?;
        let ca_file = receiver.ca_file();
        let authority = (protocol == Protocol::Https).then_some(ca_file.as_path());
        let mut pairs = Vec::new();
        for round in 0..=rounds {
            let count = IN_FLIGHT * events;
            let plain = rate(count, runtime.block_on(plain::post(receiver.port, authority, events)));
            let emulator = rate(count, runtime.block_on(emulator::deliver(&receiver, events))?);
            // The first round warms both up.
            if round > 0 {
                pairs.push((emulator, plain));
            }
        }
        figures.push(Figure {
            name: format!("deliveries over {}", protocol.name()),
            unit: "/s",
            emulator: median(pairs.iter().map(|(emulator, _)| *emulator).collect()),
            bare: median(pairs.iter().map(|(_, plain)| *plain).collect()),
            compared: Compared::Ratio,
            result: median(pairs.iter().map(|(emulator, plain)| emulator / plain).collect()),
        });
    }
    let conditions = format!(
        "{IN_FLIGHT} in flight; medians over {rounds} rounds of {} deliveries by each in turn; journal on. The bare client signs and posts.",
        IN_FLIGHT * events
    );
    Ok(Table { columns: ["wrs-emulator", "bare client"], conditions, figures })
}

#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn rate(count: usize, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures the machine's time")]
fn moment() -> std::time::Instant {
    std::time::Instant::now()
}
