//! The figures as a table, their goals, and the figures committed beside this file.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// Figures that differ by more than this share from the committed ones are marked.
const MARKED: f64 = 0.15;

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    /// Instructions of the emulator.
    pub(crate) emulator: f64,
    /// Instructions of the bare server or client.
    pub(crate) bare: f64,
    /// The most instructions that the emulator should need.
    pub(crate) goal: Option<f64>,
    /// The same as a multiple of the bare server's or client's.
    pub(crate) goal_times_bare: Option<f64>,
}

impl Figure {
    fn goal(&self) -> Option<f64> {
        self.goal.or(self.goal_times_bare.map(|times| times * self.bare))
    }
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/instructions/figures.json")
}

/// The committed figures, by name.
pub(crate) fn read() -> io::Result<BTreeMap<String, u64>> {
    match fs::read(path()) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}

/// Commits these figures instead of the earlier ones.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "instructions are counted")]
pub(crate) fn write(figures: &[Figure], mut committed: BTreeMap<String, u64>) -> io::Result<()> {
    committed.extend(figures.iter().map(|figure| (figure.name.to_owned(), figure.emulator.round() as u64)));
    fs::write(path(), format!("{}\n", serde_json::to_string_pretty(&committed)?))
}

/// A Markdown table.
#[allow(clippy::cast_precision_loss, reason = "far below 2⁵³")]
pub(crate) fn print(figures: &[Figure], committed: &BTreeMap<String, u64>, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "| {:<24} | {:>12} | {:>8} | {:>7} | {:>9} | {:>9} | {:>10} |",
        "instructions for", "wrs-emulator", "bare", "ratio", "goal", "committed", "difference"
    )?;
    writeln!(out, "|{:-<26}|{:->13}:|{:->9}:|{:->8}:|{:->10}:|{:->10}:|{:->11}:|", "", "", "", "", "", "", "")?;
    for figure in figures {
        let goal = figure.goal().map(|goal| format!("{goal:.0}")).unwrap_or_default();
        let before = committed.get(figure.name);
        let difference = before.map(|before| figure.emulator / *before as f64 - 1.0);
        let mark = if difference.is_some_and(|share| share.abs() > MARKED) { "!! " } else { "" };
        let difference = difference.map(|share| format!("{mark}{:+.1} %", share * 100.0)).unwrap_or_default();
        writeln!(
            out,
            "| {:<24} | {:>12.0} | {:>8.0} | {:>5.2} × | {goal:>9} | {:>9} | {difference:>10} |",
            figure.name,
            figure.emulator,
            figure.bare,
            figure.emulator / figure.bare,
            before.map(u64::to_string).unwrap_or_default(),
        )?;
    }
    Ok(())
}
