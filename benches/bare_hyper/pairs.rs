//! The values of one figure, round by round, and their comparison. Knows nothing of what is measured.
//!
//! Whatever else the machine does hits both sides of a round about equally, so each round gives one comparison; the median
//! of these is the result, not the comparison of the medians.

use std::io;

use crate::table::{Compared, Figure};

/// The values of one figure, round by round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs(Vec<(f64, f64)>);

impl Pairs {
    /// Adds the values of a round.
    pub(crate) fn push(&mut self, emulator: f64, bare: f64) {
        self.0.push((emulator, bare));
    }

    /// Both values of every round.
    pub(crate) fn values(&self) -> impl Iterator<Item = f64> {
        self.0.iter().flat_map(|(emulator, bare)| [*emulator, *bare])
    }

    /// One line of the table.
    pub(crate) fn figure(self, name: &str, unit: &'static str, compared: Compared) -> Figure {
        let compare = |(emulator, bare): &(f64, f64)| match compared {
            Compared::Ratio => emulator / bare,
            Compared::Difference => emulator - bare,
            Compared::Value => *emulator,
        };
        Figure {
            name: name.to_owned(),
            unit,
            emulator: median(self.0.iter().map(|pair| pair.0)),
            bare: median(self.0.iter().map(|pair| pair.1)),
            compared,
            result: median(self.0.iter().map(compare)),
        }
    }
}

/// Calls one and the other, the first of them first in every other round. The results keep their places.
pub(crate) fn in_turn<T>(
    round: usize,
    ours: impl FnOnce() -> io::Result<T>,
    theirs: impl FnOnce() -> io::Result<T>,
) -> io::Result<[T; 2]> {
    if round.is_multiple_of(2) {
        let first = ours()?;
        return Ok([first, theirs()?]);
    }
    let first = theirs()?;
    Ok([ours()?, first])
}

/// The middle value; of an even number of values, the upper of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
