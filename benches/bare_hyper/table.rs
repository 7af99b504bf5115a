//! Figures with their bounds, as a table for people and as JSON for machines. Knows nothing of how they came about.

use std::fmt;

use serde_json::{Value, json};

/// What of a figure is held to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// The emulator's value divided by the bare server's.
    Ratio,
    /// The emulator's value less the bare server's.
    Difference,
    /// The emulator's value alone.
    Value,
}

/// A bound, in what is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// No less than this.
    AtLeast(f64),
    /// No more than this.
    AtMost(f64),
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
    /// What it is held to.
    pub(crate) bound: Bound,
}

impl Figure {
    /// Whether the bound holds.
    pub(crate) fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtLeast(least) => self.result >= least,
            Bound::AtMost(most) => self.result <= most,
        }
    }

    fn cells(&self) -> [String; 6] {
        let unit = self.unit;
        let places = |value: f64| usize::from(value.abs() < 1000.0);
        let value = |value: f64| format!("{value:.*} {unit}", places(value));
        let compared = |value: f64| match self.compared {
            Compared::Ratio => format!("{value:.2} ×"),
            Compared::Difference => format!("{value:+.1} {unit}"),
            Compared::Value => format!("{value:.1} {unit}"),
        };
        let bound = match self.bound {
            Bound::AtLeast(least) => format!("≥ {}", compared(least)),
            Bound::AtMost(most) => format!("≤ {}", compared(most)),
        };
        let verdict = if self.is_met() { "met" } else { "MISSED" };
        [self.name.clone(), value(self.emulator), value(self.bare), compared(self.result), bound, verdict.to_owned()]
    }

    fn to_json(&self) -> Value {
        let compared = match self.compared {
            Compared::Ratio => "ratio",
            Compared::Difference => "difference",
            Compared::Value => "value",
        };
        let (bound, value) = match self.bound {
            Bound::AtLeast(least) => ("at_least", least),
            Bound::AtMost(most) => ("at_most", most),
        };
        json!({
            "name": self.name,
            "unit": self.unit,
            "emulator": self.emulator,
            "bare": self.bare,
            "compared": compared,
            "result": self.result,
            "bound": { bound: value },
            "met": self.is_met(),
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

impl Table {
    /// Whether every bound holds.
    pub(crate) fn all_met(&self) -> bool {
        self.figures.iter().all(Figure::is_met)
    }

    /// The table for machines.
    pub(crate) fn to_json(&self) -> Value {
        let figures: Vec<Value> = self.figures.iter().map(Figure::to_json).collect();
        json!({ "conditions": self.conditions, "columns": self.columns, "figures": figures, "met": self.all_met() })
    }
}

impl fmt::Display for Table {
    /// A Markdown table, aligned so that it reads as plain text too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [left, right] = self.columns;
        let titles = ["figure", left, right, "compared", "bound", ""].map(str::to_owned);
        let rows: Vec<[String; 6]> = [titles].into_iter().chain(self.figures.iter().map(Figure::cells)).collect();
        let widths: [usize; 6] =
            std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default());
        for (number, row) in rows.iter().enumerate() {
            // Names and verdicts stand to the left, numbers to the right.
            for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
                if column == 0 || column == 5 {
                    write!(f, "| {cell:<width$} ")?;
                } else {
                    write!(f, "| {cell:>width$} ")?;
                }
            }
            writeln!(f, "|")?;
            if number == 0 {
                for (column, width) in widths.into_iter().enumerate() {
                    let end = if column == 0 || column == 5 { '-' } else { ':' };
                    write!(f, "|{}{end}", "-".repeat(width + 1))?;
                }
                writeln!(f, "|")?;
            }
        }
        writeln!(f, "\n{}", self.conditions)
    }
}
