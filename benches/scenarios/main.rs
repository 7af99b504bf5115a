//! What scenarios cost: ten thousand rules beside one, none beside one for another operation, and how long a saved file
//! takes to be served. Emulator and clients share this process; figures are compared within the run.
//!
//! `cargo bench --bench scenarios` prints one table; `-- --quick`, `-- --json` and `-- --check` as for `bare_hyper`.

mod load;
#[allow(dead_code, reason = "shared with `bare_hyper`, which uses all of it")]
#[path = "../bare_hyper/options.rs"]
mod options;
#[allow(dead_code, reason = "shared with `bare_hyper`, which uses all of it")]
#[path = "../bare_hyper/table.rs"]
mod table;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use table::{Compared, Figure, Table};
use wrs_emulator::Emulator;

/// Rules of the large scenario; the request matches the last.
const RULES: usize = 10_000;

fn main() -> ExitCode {
    options::run("scenarios", |quick| {
        let (length, rounds, saves) =
            if quick { (Duration::from_millis(300), 3, 7) } else { (Duration::from_millis(1500), 9, 25) };
        measure(length, rounds, saves)
    })
}

/// A scenario of rules that each match another number in the query, and let the request pass.
fn rules(operation: &str, numbers: std::ops::Range<usize>) -> String {
    let mut text = String::new();
    for number in numbers {
        // Writing to a String cannot fail.
        let _ =
            write!(text, "[[rule]]\nwhen = {{ operation = \"{operation}\", query.n = \"{number}\" }}\npass = true\n\n");
    }
    text
}

fn measure(length: Duration, rounds: usize, saves: usize) -> io::Result<Table> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let tell = |text: &str| {
        let _ = writeln!(io::stderr(), "{text}");
    };
    tell("10,000 rules beside one");
    let one = rules("system.status", RULES - 1..RULES);
    let many = rules("system.status", 0..RULES);
    let rules = runtime.block_on(compare(&many, &one, length, rounds))?;
    tell("no scenario beside one for another operation");
    let none = runtime.block_on(compare("", &self::rules("hello", 0..1), length, rounds))?;
    tell("save to served");
    let saved = runtime.block_on(save_to_served(saves, 0))?;
    let large = runtime.block_on(save_to_served(saves, 1_000))?;
    let throughput = |name: &str, (many, one, ratio): (f64, f64, f64)| Figure {
        name: name.to_owned(),
        unit: "/s",
        emulator: many,
        bare: one,
        compared: Compared::Ratio,
        result: ratio,
    };
    let served = |name: &str, millis| Figure {
        name: name.to_owned(),
        unit: "ms",
        emulator: millis,
        bare: 0.0,
        compared: Compared::Value,
        result: millis,
    };
    let figures = vec![
        throughput("throughput, 10,000 rules beside one", rules),
        throughput("throughput, no scenario beside a rule elsewhere", none),
        served("save to served", saved),
        served("save to served, 1,000 rules", large),
    ];
    let conditions = format!(
        "{} connections; medians over {rounds} rounds of {} ms by each in turn, and over {saves} saves.",
        load::CONNECTIONS,
        length.as_millis()
    );
    Ok(Table { columns: ["measured", "beside"], conditions, figures })
}

/// The throughput under two scenarios in turn: both medians, and the median of the ratios.
async fn compare(left: &str, right: &str, length: Duration, rounds: usize) -> io::Result<(f64, f64, f64)> {
    let (left, right) = (start(left).await?, start(right).await?);
    let mut pairs = Vec::new();
    for round in 0..=rounds {
        let pair = (load::throughput(&left, length).await?, load::throughput(&right, length).await?);
        // The first round warms both up.
        if round > 0 {
            pairs.push(pair);
        }
    }
    let of = |value: fn(&(f64, f64)) -> f64| median(pairs.iter().map(value).collect());
    Ok((of(|pair| pair.0), of(|pair| pair.1), of(|pair| pair.0 / pair.1)))
}

async fn start(scenario: &str) -> io::Result<Emulator> {
    let builder = Emulator::builder().seed(1).set("rate_limit.requests=4294967295");
    let builder = if scenario.is_empty() { builder } else { builder.scenario_text(scenario) };
    builder.start().await.map_err(io::Error::other)
}

/// Milliseconds from a rename-over save of a file with so many further rules to the first answer that shows it: the median.
async fn save_to_served(saves: usize, further: usize) -> io::Result<f64> {
    let folder = tempfile::tempdir()?;
    let save = |number: usize| -> io::Result<()> {
        let mut text = rules("system.status", 0..further);
        let _ = write!(
            text,
            "[[rule]]\nwhen = {{ operation = \"system.status\" }}\nreply = {{ status = 422, code = \"number_{number}\", message = \"saved\" }}\n"
        );
        std::fs::write(folder.path().join("story.new"), text)?;
        std::fs::rename(folder.path().join("story.new"), folder.path().join("story.toml"))
    };
    save(0)?;
    let builder = Emulator::builder().seed(1).set("rate_limit.requests=4294967295");
    let builder = builder.scenario_folder(folder.path()).scenario("story");
    let emulator = builder.start().await.map_err(io::Error::other)?;
    let mut times = Vec::new();
    for number in 1..=saves {
        save(number)?;
        let begun = load::moment();
        let shown = format!("number_{number}\"");
        while !load::ask(&emulator).await?.contains(&shown) {
            if begun.elapsed() > Duration::from_secs(20) {
                return Err(io::Error::other("a saved file was never served"));
            }
        }
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
        // Edits come one at a time; a burst would be folded into one reload.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(median(times))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
