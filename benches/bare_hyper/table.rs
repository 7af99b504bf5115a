//! Figures beside the committed ones, as a table for people and as JSON for machines. Knows nothing of how they came about.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{fmt, fs, io};

use serde_json::{Value, json};

/// Results that differ by more than this share from the committed ones are marked.
const MARKED: f64 = 0.15;

/// How the emulator is compared with the bare server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// The emulator's value divided by the bare server's.
    Ratio,
    /// The emulator's value less the bare server's.
    Difference,
    /// The emulator's value alone.
    Value,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) name: String,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// The emulator's value: the median over all rounds.
    pub(crate) emulator: f64,
    /// The bare server's.
    pub(crate) bare: f64,
    /// How the two are compared.
    pub(crate) compared: Compared,
    /// The comparison: the median over the pairs of rounds, not the comparison of the medians.
    pub(crate) result: f64,
}

impl Figure {
    fn cells(&self, committed: Option<f64>) -> [String; 6] {
        let unit = self.unit;
        let places = |value: f64| usize::from(value.abs() < 1000.0);
        let value = |value: f64| format!("{value:.*} {unit}", places(value));
        let compared = |value: f64| match self.compared {
            Compared::Ratio => format!("{value:.2} ×"),
            Compared::Difference => format!("{value:+.1} {unit}"),
            Compared::Value => format!("{value:.1} {unit}"),
        };
        // As a share of the committed result; of a difference that may be near zero, of the value that it is added to.
        let change = committed.map(|before| match self.compared {
            Compared::Difference => (self.result - before) / self.emulator,
            Compared::Ratio | Compared::Value => self.result / before - 1.0,
        });
        let mark = if change.is_some_and(|share| share.abs() > MARKED) { "!! " } else { "" };
        [
            self.name.clone(),
            value(self.emulator),
            value(self.bare),
            compared(self.result),
            committed.map(compared).unwrap_or_default(),
            change.map(|share| format!("{mark}{:+.0} %", share * 100.0)).unwrap_or_default(),
        ]
    }

    fn to_json(&self) -> Value {
        let compared = match self.compared {
            Compared::Ratio => "ratio",
            Compared::Difference => "difference",
            Compared::Value => "value",
        };
        json!({
            "name": self.name,
            "unit": self.unit,
            "emulator": self.emulator,
            "bare": self.bare,
            "compared": compared,
            "result": self.result,
        })
    }
}

/// All figures of one run.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// What the two columns of values are of.
    pub(crate) columns: [&'static str; 2],
    /// How it was measured, in one line.
    pub(crate) conditions: String,
    /// The lines.
    pub(crate) figures: Vec<Figure>,
}

/// The committed results of all benchmarks, by the names of their figures.
fn committed() -> io::Result<BTreeMap<String, f64>> {
    Ok(serde_json::from_slice(&fs::read(committed_file())?)?)
}

fn committed_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/figures.json")
}

impl Table {
    /// Commits these results instead of the earlier ones.
    pub(crate) fn write(&self) -> io::Result<()> {
        let mut results = committed()?;
        results
            .extend(self.figures.iter().map(|figure| (figure.name.clone(), (figure.result * 1000.0).round() / 1000.0)));
        fs::write(committed_file(), format!("{}\n", serde_json::to_string_pretty(&results)?))
    }

    /// The table for machines.
    pub(crate) fn to_json(&self) -> Value {
        let figures: Vec<Value> = self.figures.iter().map(Figure::to_json).collect();
        json!({ "conditions": self.conditions, "columns": self.columns, "figures": figures })
    }
}

impl fmt::Display for Table {
    /// A Markdown table, aligned so that it reads as plain text too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let committed = committed().map_err(|_| fmt::Error)?;
        let [left, right] = self.columns;
        let titles = ["figure", left, right, "compared", "committed", "difference"].map(str::to_owned);
        let rows: Vec<[String; 6]> = [titles]
            .into_iter()
            .chain(self.figures.iter().map(|figure| figure.cells(committed.get(&figure.name).copied())))
            .collect();
        let widths: [usize; 6] =
            std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default());
        for (number, row) in rows.iter().enumerate() {
            // Names are aligned left, numbers right.
            for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
                if column == 0 {
                    write!(f, "| {cell:<width$} ")?;
                } else {
                    write!(f, "| {cell:>width$} ")?;
                }
            }
            writeln!(f, "|")?;
            if number == 0 {
                for (column, width) in widths.into_iter().enumerate() {
                    let end = if column == 0 { '-' } else { ':' };
                    write!(f, "|{}{end}", "-".repeat(width + 1))?;
                }
                writeln!(f, "|")?;
            }
        }
        writeln!(f, "\n{}", self.conditions)
    }
}
