//! Several run documents as one: the shards of a test run that was divided among machines.
//!
//! Emulators with one seed make the same ids and their tests use the same keys, so everything that names a record gets the name of its
//! shard behind it. Problems, findings and the grid are joined, and then judged as those of one run are.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::findings::Findings;
use super::grid::join_grids;
use super::profile::Setting;
use super::run::{EmulatorFacts, ExecFacts, MAX_BYTES, NextCursors, Omitted, Run, RunScenario, Shard, bytes_of};
use super::shard_names::ShardNames;
use super::verdict::{Unfinished, Verification};

/// Most records of each kind in a merged document: as many as the page shows.
pub(crate) const MAX_MERGED: usize = 10_000;
/// Most bytes of all records together, so that the document stays below the size that can be read.
const MAX_MERGED_BYTES: usize = 6 * MAX_BYTES;

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
        ShardNames::of(&document, &name, &changed).rename(&mut document, "");
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
    Ok(join_runs(runs))
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

/// The documents as one. Their names differ already.
fn join_runs(runs: Vec<(String, Run)>) -> Run {
    let mut base: Option<HashMap<String, Value>> = None;
    let (mut shards, mut joined) = (Vec::new(), None);
    let (mut verifications, mut findings, mut scenarios) = (Vec::new(), Vec::new(), Vec::new());
    for (name, mut run) in runs {
        let data = &run.profile.data;
        let base = base.get_or_insert_with(|| data.iter().map(|it| (it.knob.clone(), it.value.clone())).collect());
        let settings = data.iter().filter(|setting| base.get(&setting.knob) != Some(&setting.value)).cloned().collect();
        shards.extend(shards_of(name, &mut run, settings));
        verifications.push(std::mem::take(&mut run.verification));
        findings.extend(run.findings.take());
        scenarios.append(&mut run.scenarios);
        match &mut joined {
            Some(joined) => add(joined, run),
            None => joined = Some(run),
        }
    }
    let mut run = joined.expect("at least one document is given");
    run.key = None;
    run.exec = join_commands(&shards);
    run.emulator = join_emulators(&shards, run.emulator);
    run.shards = shards;
    run.viewing = None;
    run.verification = join_verifications(verifications);
    run.findings = (!findings.is_empty()).then(|| Findings::joined(findings));
    run.scenarios = join_scenarios(scenarios);
    run.active = run.active.map(|active| distinct(active, String::clone));
    run.next_cursor = NextCursors::default();
    put_in_order(&mut run);
    shorten(&mut run);
    run
}

/// The shard that a document is, or those that it was merged from, each with the settings in which the document differs from the first.
fn shards_of(name: String, run: &mut Run, settings: Vec<Setting>) -> Vec<Shard> {
    if run.shards.is_empty() {
        return vec![Shard {
            name,
            emulator: run.emulator.clone(),
            recorded_at: run.recorded_at.clone(),
            key: run.key.take(),
            exec: run.exec.take(),
            requests: run.verification.judged_requests,
            deliveries: run.verification.judged_deliveries,
            settings,
            clock: Some(run.clock.clone()),
            without_findings: run.findings.is_none(),
        }];
    }
    let mut shards = std::mem::take(&mut run.shards);
    for shard in &mut shards {
        let own: HashSet<&String> = shard.settings.iter().map(|setting| &setting.knob).collect();
        let inherited: Vec<_> = settings.iter().filter(|setting| !own.contains(&setting.knob)).cloned().collect();
        shard.settings.extend(inherited);
    }
    shards
}

/// Adds the records of another document.
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
    if let Some(active) = other.active {
        run.active.get_or_insert_default().extend(active);
    }
    run.omitted.add(other.omitted);
}

/// The scenarios by name, equal ones once.
fn join_scenarios(all: Vec<RunScenario>) -> Vec<RunScenario> {
    let mut joined: BTreeMap<String, RunScenario> = BTreeMap::new();
    for RunScenario { scenario, progress } in all {
        match joined.get_mut(&scenario.row.name) {
            Some(known) => {
                known.scenario.row.active |= scenario.row.active;
                known.progress.extend(progress);
            }
            None => drop(joined.insert(scenario.row.name.clone(), RunScenario { scenario, progress })),
        }
    }
    joined.into_values().collect()
}

/// Those of equal values that come first.
fn distinct<T, K: Eq + std::hash::Hash>(mut all: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut known = HashSet::new();
    all.retain(|one| known.insert(key(one)));
    all
}

/// Orders everything as in the document of one run.
fn put_in_order(run: &mut Run) {
    run.requests.sort_by(|a, b| b.request.row.at.0.cmp(&a.request.row.at.0));
    run.deliveries.sort_by(|a, b| b.record.created_at.0.cmp(&a.record.created_at.0));
    run.events.sort_by(|a, b| b.record.created_at.0.cmp(&a.record.created_at.0));
    run.notices.sort_by(|a, b| b.at.0.cmp(&a.at.0));
    run.due.sort_by(|a, b| a.at.0.cmp(&b.at.0));
    // Failed tests first, as for one run.
    run.keys.sort_by_key(|key| !key.has_failed());
}

/// Drops what a document has no room for. What leads to the cause of a failure comes first.
fn shorten(run: &mut Run) {
    let mut room = Room(MAX_MERGED_BYTES);
    // All of these are counted in the verification already.
    room.keep(&mut run.verification.unmatched);
    room.keep(&mut run.verification.undelivered);
    room.keep(&mut run.verification.forged);
    room.keep(&mut run.verification.unfinished);
    room.keep(&mut run.verification.keys);
    // It is part of the scenarios, whose texts need room as well.
    let mut room_for_progress = Room(MAX_BYTES / 2);
    let progress = run.scenarios.iter_mut().map(|scenario| room_for_progress.keep(&mut scenario.progress)).sum();
    let dropped = Omitted {
        keys: room.keep(&mut run.keys),
        outputs: room.keep_outputs(&mut run.shards),
        progress,
        scenarios: room.keep(&mut run.scenarios),
        requests: room.keep(&mut run.requests),
        deliveries: room.keep(&mut run.deliveries),
        events: room.keep(&mut run.events),
        subscriptions: room.keep(&mut run.subscriptions),
        due: room.keep(&mut run.due),
        notices: room.keep(&mut run.notices),
        ..Omitted::default()
    };
    run.omitted.add(dropped);
}

/// The bytes that there is still room for.
struct Room(usize);

impl Room {
    /// How many of these records there is room for.
    fn count<'r, T: Serialize + 'r>(&mut self, records: impl Iterator<Item = &'r T>) -> usize {
        let most = self.0.min(MAX_BYTES);
        let mut left = most;
        let has_room = |record: &&T| {
            let had_room = left > 0;
            left = left.saturating_sub(if had_room { bytes_of(record) } else { 0 });
            had_room
        };
        let count = records.take(MAX_MERGED).take_while(has_room).count();
        self.0 -= most - left;
        count
    }

    /// Keeps the first records that there is room for, and returns how many were left out.
    fn keep<T: Serialize>(&mut self, records: &mut Vec<T>) -> usize {
        let count = self.count(records.iter());
        records.split_off(count).len()
    }

    /// Keeps what commands printed, that of failed ones first.
    fn keep_outputs(&mut self, shards: &mut [Shard]) -> usize {
        let commands = shards.iter_mut().filter_map(|shard| shard.exec.as_mut());
        let mut commands: Vec<&mut ExecFacts> = commands.filter(|exec| exec.output.is_some()).collect();
        commands.sort_by_key(|exec| exec.exit_status == 0);
        let count = self.count(commands.iter().map(|exec| &exec.output));
        let dropped = commands.split_off(count);
        let omitted = dropped.len();
        for exec in dropped {
            exec.output = None;
        }
        omitted
    }
}

/// The problems of all documents, the oldest first, judged as those of one run.
fn join_verifications(all: Vec<Verification>) -> Verification {
    // What no request reached in one shard may have been reached in another in which the scenario was active.
    let mut shards_with: HashMap<&str, usize> = HashMap::new();
    let mut shards_without_request: HashMap<(&str, &str), usize> = HashMap::new();
    for one in &all {
        let active: HashSet<&str> = one.active_scenarios.iter().map(String::as_str).collect();
        let parts = one.unfinished.iter().map(name_of_part).filter(|(scenario, _)| active.contains(scenario));
        for part in parts.collect::<HashSet<_>>() {
            *shards_without_request.entry(part).or_default() += 1;
        }
        for scenario in active {
            *shards_with.entry(scenario).or_default() += 1;
        }
    }
    let is_left = |part: &Unfinished| {
        !part.is_unreached()
            || shards_with.get(&*part.scenario).copied().unwrap_or_default()
                == shards_without_request.get(&name_of_part(part)).copied().unwrap_or_default()
    };
    let (mut left, mut dropped, mut known) = (Vec::new(), 0, HashSet::new());
    for part in all.iter().flat_map(|one| &one.unfinished) {
        if is_left(part) && (!part.is_unreached() || known.insert(name_of_part(part))) {
            left.push(part.clone());
        } else {
            dropped += 1;
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
    joined.grid = join_grids(grids);
    joined.unmatched.sort_by(|a, b| a.row.at.0.cmp(&b.row.at.0));
    joined.undelivered.sort_by(|a, b| a.row.created_at.0.cmp(&b.row.created_at.0));
    joined.forged.sort_by(|a, b| a.row.created_at.0.cmp(&b.row.created_at.0));
    joined.concluded(false)
}

/// What distinguishes a part of a scenario that no request reached.
fn name_of_part(part: &Unfinished) -> (&str, &str) {
    (&part.scenario, &part.message)
}

/// How the commands of the shards ended together: as the first that failed did. The output of each stays with its shard.
fn join_commands(shards: &[Shard]) -> Option<ExecFacts> {
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
        failed_because: kinds(|exec| &exec.failed_because),
        ..decided.clone()
    })
}

/// The emulators of the shards as one; what differs is with the shards.
fn join_emulators(shards: &[Shard], first: EmulatorFacts) -> EmulatorFacts {
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
    use super::*;

    #[test]
    fn a_merged_document_has_the_newest_records_that_it_has_room_for() {
        let mut room = Room(10 * 1024 * 1024);
        let mut few: Vec<usize> = (0..MAX_MERGED + 3).collect();
        assert_eq!((room.keep(&mut few), few.len(), few[0]), (3, MAX_MERGED, 0));
        let mut large = vec!["x".repeat(1024 * 1024); 20];
        let dropped = room.keep(&mut large);
        assert!(dropped > 0 && large.len() + dropped == 20, "{dropped}");
        let mut others = vec!["x".repeat(1024 * 1024); 20];
        assert!(room.keep(&mut others) > dropped && room.keep(&mut vec![1]) == 1, "all of them share the room");
    }
}
