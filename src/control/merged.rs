//! Several run documents as one: the shards of a test run that was divided among machines.
//!
//! Emulators with one seed make the same ids and their tests use the same keys, so everything that names a record gets the name of its
//! shard behind it. Problems, findings and the grid are joined, and then judged as those of one run are.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::findings::Findings;
use super::grid;
use super::profile::Setting;
use super::run::{EmulatorFacts, ExecFacts, NextCursors, Omitted, Run, RunScenario, Shard, newest};
use super::verdict::{Unfinished, Verification};
use crate::clock::ClockMode;

/// Most records of each kind in a merged document: as many as the page shows. Their bytes are bounded as in any other document.
const MAX_MERGED: usize = 10_000;
/// Why older records are not in a merged document.
pub(crate) const MERGED_BOUND: &str = "a merged document has at most 10,000 records, or 8 MiB, of each kind";

/// A saved document, and the name that distinguishes it from the others.
pub(crate) struct Saved {
    pub(crate) name: String,
    pub(crate) document: Value,
}

/// Merges documents of the present version. Fails with the name of the one that is not as it was saved.
pub(crate) fn merged(saved: Vec<Saved>) -> Result<Run, (String, serde_json::Error)> {
    let changed = differing_scenarios(&saved).map_err(|(at, error)| (saved[at].name.clone(), error))?;
    let mut runs = Vec::new();
    for Saved { name, mut document } in saved {
        let ids = Names { shard: &name, keys: keys_in(&document), scenarios: &changed };
        ids.rename(&mut document, "");
        let mut run = Run::deserialize(document).map_err(|error| (name.clone(), error))?;
        for scenario in &mut run.scenarios {
            let own = &mut scenario.scenario.row.name;
            if changed.contains(own) {
                own.push_str(&format!("@{name}"));
            }
        }
        // A merged document may be one of several.
        let within = |inner: &str| format!("{inner}@{name}");
        run.shards.iter_mut().for_each(|shard| shard.name = within(&shard.name));
        for key in &mut run.keys {
            key.shard = Some(key.shard.as_deref().map_or_else(|| name.clone(), within));
        }
        for notice in &mut run.notices {
            notice.message.insert_str(0, &format!("{name}: "));
        }
        runs.push((name, run));
    }
    Ok(joined(runs))
}

/// The scenarios whose text is not the same in all documents. Fails with the place of one that has none.
fn differing_scenarios(saved: &[Saved]) -> Result<BTreeSet<String>, (usize, serde_json::Error)> {
    #[derive(Deserialize)]
    struct Scenarios {
        scenarios: Vec<ScenarioText>,
    }
    #[derive(Deserialize)]
    struct ScenarioText {
        name: String,
        text: String,
    }
    let (mut texts, mut differing) = (BTreeMap::new(), BTreeSet::new());
    for (at, shard) in saved.iter().enumerate() {
        let Scenarios { scenarios } = Scenarios::deserialize(&shard.document).map_err(|error| (at, error))?;
        for ScenarioText { name, text } in scenarios {
            if *texts.entry(name.clone()).or_insert_with(|| text.clone()) != text {
                differing.insert(name);
            }
        }
    }
    Ok(differing)
}

/// Every value of a field `key` in a document.
fn keys_in(document: &Value) -> BTreeSet<String> {
    fn collect(value: &Value, keys: &mut BTreeSet<String>) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| collect(value, keys)),
            Value::Object(fields) => {
                for (field, value) in fields.iter().filter(|(field, _)| !VERBATIM.contains(&field.as_str())) {
                    match value {
                        Value::String(key) if field == "key" => drop(keys.insert(key.clone())),
                        value => collect(value, keys),
                    }
                }
            }
            _ => {}
        }
    }
    let mut keys = BTreeSet::new();
    collect(document, &mut keys);
    keys
}

/// Fields with text that others wrote or that was sent: ids in them are not renamed.
const VERBATIM: [&str; 22] = [
    "answer",
    "assumptions",
    "body",
    "command",
    "description",
    "dialled",
    "emulator",
    "error",
    "exec",
    "headers",
    "note",
    "path",
    "patch",
    "key_patch",
    "profile",
    "query",
    "settings",
    "signed_content",
    "test",
    "text",
    "title",
    "url",
];
/// Fields that have the names of scenarios.
const OF_SCENARIOS: [&str; 4] = ["scenario", "scenarios", "active", "active_scenarios"];
/// What the ids of records and workspaces begin with.
const IDS: [&str; 5] = ["req_", "evt_", "dlv_", "sub_", "ws_"];

/// The names that a shard shares with others.
struct Names<'a> {
    shard: &'a str,
    keys: BTreeSet<String>,
    scenarios: &'a BTreeSet<String>,
}

impl Names<'_> {
    /// Puts the shard's name behind each of its names in a field's value.
    fn rename(&self, value: &mut Value, field: &str) {
        match value {
            Value::String(text) => {
                let is_whole = field == "key" || OF_SCENARIOS.contains(&field) && self.scenarios.contains(text);
                if is_whole {
                    text.push_str(&format!("@{}", self.shard));
                } else {
                    *text = self.renamed(text);
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.rename(value, field)),
            Value::Object(fields) => {
                let own = fields.iter_mut().filter(|(field, _)| !VERBATIM.contains(&field.as_str()));
                own.for_each(|(field, value)| self.rename(value, field));
            }
            _ => {}
        }
    }

    /// A text in which each id, and each key that looks like one, names the shard.
    fn renamed(&self, text: &str) -> String {
        let mut renamed = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            // Of a merged document it has the name of a shard already.
            let length = names_end(rest, length);
            let (word, after) = rest.split_at(length);
            renamed.push_str(word);
            let is_id = IDS.iter().any(|prefix| word.len() > prefix.len() && word.starts_with(prefix));
            if is_id || (word.starts_with("sk_") && self.keys.contains(word)) {
                renamed.push_str(&format!("@{}", self.shard));
            }
            let length = after.find(is_part).unwrap_or(after.len());
            let (between, next) = after.split_at(length);
            renamed.push_str(between);
            rest = next;
        }
        renamed
    }
}

/// The end of the names of shards, each after an `@`, that follow a word of this length.
fn names_end(text: &str, mut length: usize) -> usize {
    while let Some(name) = text[length..].strip_prefix('@').filter(|_| length > 0) {
        match name.find(|c: char| !is_part(c)).unwrap_or(name.len()) {
            0 => break,
            named => length += 1 + named,
        }
    }
    length
}

/// True for what ids, keys and the names of shards consist of; a masked key has an ellipsis.
fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-…".contains(c)
}

/// The documents as one. Their names differ already.
fn joined(runs: Vec<(String, Run)>) -> Run {
    let mut shards: Vec<Shard> = Vec::new();
    let mut merged: Option<Run> = None;
    let (mut verifications, mut findings) = (Vec::new(), Vec::new());
    for (name, mut run) in runs {
        let base = merged.as_ref().map(|first| &first.profile.data);
        let is_other = |setting: &&Setting| {
            base.is_some_and(|base| !base.iter().any(|one| (&one.knob, &one.value) == (&setting.knob, &setting.value)))
        };
        let settings: Vec<_> = run.profile.data.iter().filter(is_other).cloned().collect();
        for key in &mut run.keys {
            let is_own = |setting: &&Setting| key.settings.iter().any(|own| own.knob == setting.knob);
            let inherited: Vec<_> = settings.iter().filter(|setting| !is_own(setting)).cloned().collect();
            key.settings.extend(inherited);
            // Its clock was that of its emulator, which need not be like the others.
            key.clock = key.clock.take().or_else(|| (run.clock.mode != ClockMode::Real).then(|| run.clock.clone()));
        }
        if run.shards.is_empty() {
            shards.push(Shard {
                name,
                emulator: run.emulator.clone(),
                recorded_at: run.recorded_at.clone(),
                key: run.key.take(),
                exec: run.exec.take(),
                requests: run.verification.judged_requests,
                deliveries: run.verification.judged_deliveries,
                settings,
            });
        } else {
            for mut shard in run.shards.drain(..) {
                let is_own = |setting: &&Setting| shard.settings.iter().any(|own| own.knob == setting.knob);
                let inherited: Vec<_> = settings.iter().filter(|setting| !is_own(setting)).cloned().collect();
                shard.settings.extend(inherited);
                shards.push(shard);
            }
        }
        verifications.push(std::mem::take(&mut run.verification));
        findings.extend(run.findings.take());
        match &mut merged {
            Some(merged) => add(merged, run),
            None => merged = Some(run),
        }
    }
    let mut run = merged.expect("at least one document is given");
    run.key = None;
    run.exec = commands(&shards);
    run.emulator = emulators(&shards, run.emulator);
    run.shards = shards;
    run.viewing = None;
    run.verification = verification(verifications);
    run.findings = (!findings.is_empty()).then(|| Findings::joined(findings));
    run.next_cursor = NextCursors::default();
    in_order(&mut run);
    run
}

/// Adds the records and the state of another document. Equal scenarios and clashes are kept once.
fn add(run: &mut Run, other: Run) {
    if other.recorded_at.0 > run.recorded_at.0 {
        (run.recorded_at, run.last_event_id, run.clock) = (other.recorded_at, other.last_event_id, other.clock);
    }
    run.due.extend(other.due);
    run.keys.extend(other.keys);
    run.requests.extend(other.requests);
    run.deliveries.extend(other.deliveries);
    run.events.extend(other.events);
    run.notices.extend(other.notices);
    run.subscriptions.extend(other.subscriptions);
    for RunScenario { scenario, progress } in other.scenarios {
        match run.scenarios.iter_mut().find(|known| known.scenario.row.name == scenario.row.name) {
            Some(known) => {
                known.scenario.row.active |= scenario.row.active;
                known.progress.extend(progress);
            }
            None => run.scenarios.push(RunScenario { scenario, progress }),
        }
    }
    for name in other.active.into_iter().flatten() {
        let active = run.active.get_or_insert_default();
        if !active.contains(&name) {
            active.push(name);
        }
    }
    for clash in other.clashes {
        if !run.clashes.iter().any(|known| (&known.scenarios, &known.warning) == (&clash.scenarios, &clash.warning)) {
            run.clashes.push(clash);
        }
    }
    run.omitted.add(other.omitted);
}

/// Orders everything as in the document of one run, and drops what exceeds the bounds.
fn in_order(run: &mut Run) {
    run.requests.sort_by(|a, b| b.request.row.at.0.cmp(&a.request.row.at.0));
    run.deliveries.sort_by(|a, b| b.record.created_at.0.cmp(&a.record.created_at.0));
    run.events.sort_by(|a, b| b.record.created_at.0.cmp(&a.record.created_at.0));
    run.notices.sort_by(|a, b| b.at.0.cmp(&a.at.0));
    run.due.sort_by(|a, b| a.at.0.cmp(&b.at.0));
    run.scenarios.sort_by(|a, b| a.scenario.row.name.cmp(&b.scenario.row.name));
    // Failed tests first, as for one run.
    run.keys.sort_by_key(|key| !key.has_failed());
    let dropped = Omitted {
        requests: shorten(&mut run.requests),
        deliveries: shorten(&mut run.deliveries),
        events: shorten(&mut run.events),
        notices: shorten(&mut run.notices),
        keys: shorten(&mut run.keys),
        subscriptions: shorten(&mut run.subscriptions),
        scenarios: shorten(&mut run.scenarios),
        ..Omitted::default()
    };
    run.omitted.add(dropped);
}

/// Keeps the records that a merged document has room for, and returns how many were left out.
fn shorten<T: serde::Serialize>(records: &mut Vec<T>) -> usize {
    let all = records.len();
    *records = newest(std::mem::take(records), MAX_MERGED, |record| record);
    all - records.len()
}

/// The problems of all documents, the oldest first, judged as those of one run.
fn verification(all: Vec<Verification>) -> Verification {
    // What no request reached in one shard may have been reached in another.
    let is_same =
        |one: &Unfinished, other: &Unfinished| (&one.scenario, &one.message) == (&other.scenario, &other.message);
    let is_left = |part: &Unfinished| {
        let concerned = all.iter().filter(|one| one.active_scenarios.contains(&part.scenario));
        let mut unfinished = concerned.map(|one| &one.unfinished);
        !part.is_unreached() || unfinished.all(|parts| parts.iter().any(|other| is_same(other, part)))
    };
    let (mut left, mut dropped): (Vec<Unfinished>, usize) = (Vec::new(), 0);
    for part in all.iter().flat_map(|one| &one.unfinished) {
        let is_known = part.is_unreached() && left.iter().any(|known| is_same(known, part));
        if is_known || !is_left(part) {
            dropped += 1;
        } else {
            left.push(part.clone());
        }
    }
    let mut joined = Verification::default();
    let (mut grids, mut active) = (Vec::new(), BTreeSet::new());
    for one in all {
        joined.unmatched.extend(one.unmatched);
        joined.undelivered.extend(one.undelivered);
        joined.forged.extend(one.forged);
        joined.keys.extend(one.keys);
        joined.refusals.extend(one.refusals);
        joined.counts.unmatched = joined.counts.unmatched.saturating_add(one.counts.unmatched);
        joined.counts.undelivered = joined.counts.undelivered.saturating_add(one.counts.undelivered);
        joined.counts.forged = joined.counts.forged.saturating_add(one.counts.forged);
        joined.counts.unfinished = joined.counts.unfinished.saturating_add(one.counts.unfinished);
        joined.judged_requests = joined.judged_requests.saturating_add(one.judged_requests);
        joined.judged_deliveries = joined.judged_deliveries.saturating_add(one.judged_deliveries);
        joined.refused_forgeries = joined.refused_forgeries.saturating_add(one.refused_forgeries);
        joined.forgotten_entries = joined.forgotten_entries.saturating_add(one.forgotten_entries);
        joined.forgotten_deliveries = joined.forgotten_deliveries.saturating_add(one.forgotten_deliveries);
        active.extend(one.active_scenarios);
        grids.push(one.grid);
    }
    joined.counts.unfinished = joined.counts.unfinished.saturating_sub(dropped);
    joined.unfinished = left;
    joined.active_scenarios = active.into_iter().collect();
    joined.grid = grid::joined(grids);
    joined.unmatched.sort_by(|a, b| a.row.at.0.cmp(&b.row.at.0));
    joined.undelivered.sort_by(|a, b| a.row.created_at.0.cmp(&b.row.created_at.0));
    joined.forged.sort_by(|a, b| a.row.created_at.0.cmp(&b.row.created_at.0));
    joined.concluded(false)
}

/// How the commands of the shards ended together: as the first that failed did. The output of each stays with its shard.
fn commands(shards: &[Shard]) -> Option<ExecFacts> {
    let all = || shards.iter().filter_map(|shard| shard.exec.as_ref());
    let failed = all().find(|exec| exec.exit_status != 0 || exec.problem.is_some());
    let decided = failed.or_else(|| all().next())?;
    let kinds = |kinds: fn(&ExecFacts) -> &Vec<String>| {
        let all: BTreeSet<&String> = all().flat_map(kinds).collect();
        all.into_iter().cloned().collect()
    };
    let is_same = all().all(|exec| exec.command == decided.command);
    Some(ExecFacts {
        command: if is_same { decided.command.clone() } else { Vec::new() },
        output: None,
        fail_on: kinds(|exec| &exec.fail_on),
        failed_by: kinds(|exec| &exec.failed_by),
        ..decided.clone()
    })
}

/// The emulators of the shards as one; what differs is with the shards.
fn emulators(shards: &[Shard], first: EmulatorFacts) -> EmulatorFacts {
    let all = || shards.iter().map(|shard| &shard.emulator);
    let versions: BTreeSet<&str> = all().map(|emulator| emulator.version.as_str()).collect();
    let folders: BTreeSet<&String> = all().flat_map(|emulator| &emulator.scenario_folders).collect();
    let started = all().map(|emulator| &emulator.started_at).min_by(|a, b| a.0.cmp(&b.0));
    EmulatorFacts {
        version: versions.into_iter().collect::<Vec<_>>().join(", "),
        seed: first.seed.filter(|_| all().all(|emulator| emulator.seed == first.seed)),
        generation: all().map(|emulator| emulator.generation).max().unwrap_or_default(),
        started_at: started.cloned().unwrap_or(first.started_at),
        scenario_folders: folders.into_iter().cloned().collect(),
        control: all().any(|emulator| emulator.control),
        ..first
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_and_known_keys_in_a_text_get_the_name_of_the_shard() {
        let keys = ["sk_test_a", "sk_live_…cdef", "team"].map(str::to_owned).into();
        let names = Names { shard: "b", keys, scenarios: &BTreeSet::new() };
        for (text, expected) in [
            ("after the 429 of req_01k-x_y, 3 ms", "after the 429 of req_01k-x_y@b, 3 ms"),
            ("workspace ws_1 (key sk_test_a)", "workspace ws_1@b (key sk_test_a@b)"),
            ("key sk_live_…cdef; sk_test_other", "key sk_live_…cdef@b; sk_test_other"),
            ("dlv_1@a of a team", "dlv_1@a@b of a team"),
            ("`sub_1`", "`sub_1@b`"),
            ("req_ a@b prereq_1 my-evt_1", "req_ a@b prereq_1 my-evt_1"),
            ("é→req_1", "é→req_1@b"),
            ("", ""),
        ] {
            assert_eq!(names.renamed(text), expected);
        }
    }

    #[test]
    fn what_was_sent_or_written_by_others_stays() {
        let scenarios = ["mine".to_owned()].into();
        let names = Names { shard: "b", keys: BTreeSet::new(), scenarios: &scenarios };
        let mut row = json!({
            "id": "req_1", "key": "team", "scenario": "mine", "body": "req_1", "headers": [["x", "req_1"]],
            "answer": { "body": "{\"request_id\":\"req_1\"}" }, "test": { "test": "req_1" }, "scenarios": ["mine", "other"],
        });
        let sent = row.clone();
        names.rename(&mut row, "");
        assert_eq!(row["id"], "req_1@b");
        assert_eq!((&row["key"], &row["scenario"]), (&json!("team@b"), &json!("mine@b")));
        assert_eq!(row["scenarios"], json!(["mine@b", "other"]));
        for field in ["body", "headers", "answer", "test"] {
            assert_eq!(row[field], sent[field], "{field}");
        }
    }

    #[test]
    fn a_merged_document_has_the_newest_records_that_it_has_room_for() {
        let mut few: Vec<usize> = (0..MAX_MERGED + 3).collect();
        assert_eq!((shorten(&mut few), few.len(), few[0]), (3, MAX_MERGED, 0));
        let mut large = vec!["x".repeat(1024 * 1024); 20];
        let dropped = shorten(&mut large);
        assert!(dropped > 0 && large.len() + dropped == 20, "{dropped}");
    }
}
