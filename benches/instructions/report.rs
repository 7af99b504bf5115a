//! The figures as a table, their goals, and the figures committed beside this file.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

/// The most that a figure may rise over the committed one.
const MOST_RISE: f64 = 1.03;

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    /// Instructions of the emulator.
    pub(crate) emulator: f64,
    /// Instructions of the bare server or client.
    pub(crate) bare: f64,
    /// The most instructions that are wanted.
    pub(crate) goal: Option<f64>,
    /// The same as a multiple of the bare server's or client's.
    pub(crate) goal_times_bare: Option<f64>,
    /// Whether a rise over the committed figure is an error: not where it varies by more than that.
    pub(crate) is_checked: bool,
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

/// Commits these figures in place of the earlier ones.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "instructions are counted")]
pub(crate) fn write(figures: &[Figure], mut committed: BTreeMap<String, u64>) -> io::Result<()> {
    committed.extend(figures.iter().map(|figure| (figure.name.to_owned(), figure.emulator.round() as u64)));
    fs::write(path(), format!("{}\n", serde_json::to_string_pretty(&committed)?))
}

/// What is wrong with a figure that has risen.
#[allow(clippy::cast_precision_loss, reason = "far below 2⁵³")]
pub(crate) fn problem(figure: &Figure, committed: &BTreeMap<String, u64>) -> Option<String> {
    let (name, now) = (figure.name, figure.emulator);
    let before = committed.get(name).map(|before| *before as f64)?;
    (figure.is_checked && now > before * MOST_RISE).then(|| {
        format!("{name}: {now:.0} instructions, {before:.0} are committed; if this is meant, run with `--write`")
    })
}

/// A Markdown table.
pub(crate) fn print(figures: &[Figure], committed: &BTreeMap<String, u64>, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "| {:<24} | {:>12} | {:>8} | {:>7} | {:>9} | {:>9} |",
        "instructions for", "wrs-emulator", "bare", "ratio", "goal", "committed"
    )?;
    writeln!(out, "|{:-<26}|{:->13}:|{:->9}:|{:->8}:|{:->10}:|{:->10}:|", "", "", "", "", "", "")?;
    for figure in figures {
        let goal = figure.goal().map(|goal| format!("{goal:.0}")).unwrap_or_default();
        let before = committed.get(figure.name).map(u64::to_string).unwrap_or_default();
        writeln!(
            out,
            "| {:<24} | {:>12.0} | {:>8.0} | {:>5.2} × | {goal:>9} | {before:>9} |",
            figure.name,
            figure.emulator,
            figure.bare,
            figure.emulator / figure.bare
        )?;
    }
    Ok(())
}
