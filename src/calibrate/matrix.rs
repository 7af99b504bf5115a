//! The clauses of the contract in one table: how each is served, which tests prove it, and where it was seen on the real service.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::cassette::Cassette;
use super::report::{Report, broken_promises, kept_promises};
use crate::contract::clauses::{CLAUSES, Clause, Served};
use crate::settings::{Layered, ledger};
use crate::util::wording::counted;

/// The tests of each clause, by its name; `tests/it/matrix.rs` writes it.
const TESTED: &str = include_str!("tested.txt");
const NOT_SEEN: &str = "not yet: no one has run `calibrate` against it";

/// Every clause of the contract.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct Matrix {
    /// In the contract's order.
    pub data: Vec<MatrixRow>,
    /// How many clauses a test proves.
    pub tested: usize,
    /// How many were seen on the real service.
    pub seen: usize,
}

/// A clause of the contract.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Clause")]
pub struct MatrixRow {
    pub clause: &'static str,
    pub served: Served,
    /// Endpoints, `every answer`, `every delivery`, and settings or `GROUP.*`; the reason if it is not served.
    pub by: &'static [&'static str],
    /// The tests that prove it, in `tests/it/`.
    pub tested: Vec<&'static str>,
    /// What the real service did, by a calibration; absent if none has shown it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<String>,
}

impl Matrix {
    /// As a profile, with the comments that `calibrate` wrote into it, and the calls of a calibration show it.
    pub fn new(profile: &Layered, calls: Option<&Cassette>) -> Self {
        let mut seen: BTreeMap<Cow<'static, str>, String> = ledger(profile)
            .into_iter()
            .filter(|row| row.note.starts_with("observed in "))
            .map(|row| {
                let seen = format!("`{}` {}", row.setting, row.note.split("; ").next().unwrap_or_default());
                (row.setting, seen)
            })
            .collect();
        let mut promises = BTreeMap::new();
        if let Some(cassette) = calls {
            let date = cassette.calls.last().map(|call| call.at.strftime("%Y-%m-%d").to_string()).unwrap_or_default();
            let observed = Report::new(cassette, &[], profile).data.into_iter().filter(|row| row.observed.is_some());
            seen.extend(observed.map(|row| {
                let seen = format!("`{}` observed in {} on {date}", row.setting, row.source);
                (row.setting, seen)
            }));
            for call in cassette.answered() {
                for clause in kept_promises(call) {
                    promises.entry(clause).or_insert_with(|| format!("kept in call {} on {date}", call.number));
                }
            }
            // One call that breaks a promise counts more than any that keeps it.
            for broken in cassette.answered().flat_map(broken_promises) {
                promises
                    .insert(broken.clause, format!("broken in call {} on {date}: {}", broken.call, broken.observed));
            }
        }
        let row = |clause: &Clause| {
            let settings = seen.iter().filter(|(setting, _)| clause.is_by(setting)).map(|(_, seen)| seen.clone());
            MatrixRow {
                clause: clause.text,
                served: clause.served,
                by: clause.by,
                tested: tests_of(clause.name).collect(),
                seen: promises.get(clause.text).cloned().into_iter().chain(settings).collect(),
            }
        };
        let data: Vec<MatrixRow> = CLAUSES.iter().map(row).collect();
        let count = |has: fn(&MatrixRow) -> bool| data.iter().filter(|row| has(row)).count();
        let (tested, seen) = (count(|row| !row.tested.is_empty()), count(|row| !row.seen.is_empty()));
        Self { data, tested, seen }
    }

    /// The counts, in a sentence.
    fn summary(&self) -> String {
        let count = |served| self.data.iter().filter(|row| row.served == served).count();
        let [yes, assumed, preview, no] = [Served::Yes, Served::Assumed, Served::Preview, Served::No].map(count);
        let clauses = counted(self.data.len() as u64, "clause");
        let seen = if self.seen == 0 { format!(" ({NOT_SEEN})") } else { String::new() };
        format!(
            "{clauses}: {yes} served as promised, {assumed} by an assumption, {preview} with --preview, {no} outside an offline emulator; \
             {} tested; {} seen on the real service{seen}.\n",
            self.tested, self.seen
        )
    }

    pub fn text(&self) -> String {
        let row = |row: &MatrixRow| {
            let [served, tested, seen] = row.cells();
            format!("{}\n    served: {served}\n    tested: {tested}\n    seen:   {seen}\n", row.clause)
        };
        self.data.iter().map(row).collect::<String>() + &self.summary()
    }

    pub fn markdown(&self) -> String {
        let row = |row: &MatrixRow| {
            let [served, tested, seen] = row.cells().map(|cell| cell.replace('|', "\\|"));
            let clause = row.clause.replace('<', "&lt;");
            format!("| {clause} | {served} | {tested} | {seen} |\n")
        };
        let rows: String = self.data.iter().map(row).collect();
        let header = "| clause | served | tested | seen on the real service |\n| --- | --- | --- | --- |";
        format!("{}\n{header}\n{rows}", self.summary())
    }
}

impl MatrixRow {
    fn cells(&self) -> [String; 3] {
        let name = |text: &&str| if text.starts_with("every ") { (*text).to_owned() } else { format!("`{text}`") };
        let code = |texts: &[&str]| texts.iter().map(name).collect::<Vec<_>>().join(", ");
        let served = match self.served {
            Served::Yes => format!("yes: {}", code(self.by)),
            Served::Assumed => format!("assumed: {}", code(self.by)),
            Served::Preview => format!("with `--preview`: {}", code(self.by)),
            Served::No => format!("no: {}", self.by.join("; ")),
        };
        let tested = if self.tested.is_empty() { "-".to_owned() } else { code(&self.tested) };
        let seen = if self.seen.is_empty() { "not yet".to_owned() } else { self.seen.join("; ") };
        [served, tested, seen]
    }
}

fn tests_of(clause: &str) -> impl Iterator<Item = &'static str> {
    let line = TESTED.lines().find_map(|line| line.split_once(' ').filter(|(name, _)| *name == clause));
    line.into_iter().flat_map(|(_, tests)| tests.split(' '))
}
