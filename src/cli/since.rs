//! `explain --since RUN`: where each test of a run began to differ from the same test of an earlier run. Ids, times, ports and bodies differ
//! in every run, so they are not compared.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches as _};
use serde::Serialize;
use serde_json::json;

use super::arguments::CallArgs;
use super::client::ControlClient;
use super::explain::{delivery_explanation, request_explanation};
use super::failure::{Failure, FailureCode, warn};
use super::output::{cell, show_list};
use super::run::LIMIT;
use super::verdict::reader_of_file;
use crate::advice::Audience;
use crate::control::api::{AttemptResult, Explanation, RecordedRun};
use crate::control::render::Text as _;
use crate::redact::Redactor;
use crate::state::journal::record::name_of;
use crate::state::workspace::Ending;
use crate::util::wording::quoted;

/// Maximum number of tests in the text; JSON has all.
const MAX_SHOWN: usize = 10;
const SAME: &str = "nothing differs: the same requests, answers and deliveries; bodies are not compared\n";

/// How the text names a run, and who follows its advice.
type Side = (String, Audience);

#[derive(Serialize)]
struct Comparison {
    /// The key, if no runner reported a test with it; empty for requests without a key.
    test: String,
    earlier_outcome: Option<Ending>,
    outcome: Option<Ending>,
    /// The run that has the test, if the other does not.
    only_in: Option<String>,
    /// What differs first, such as `request 2`.
    differs: Option<String>,
    earlier: Option<Explanation>,
    now: Option<Explanation>,
}

const KINDS: [&str; 2] = ["delivery", "request"];
const DELIVERY: usize = 0;
const REQUEST: usize = 1;

/// What a test did: its deliveries and its requests, the oldest first.
#[derive(Default)]
struct TestHistory {
    outcome: Option<Ending>,
    kinds: [Vec<Happened>; 2],
}

struct Happened {
    at: String,
    compared: Vec<String>,
    explanation: Explanation,
}

/// Prints where the tests of a run, saved or of a running emulator, began to differ from those of an earlier one.
pub(super) fn compare(file: &Path, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let common = CallArgs::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?;
    let side = |file: &Path| (format!("`{}`", file.display()), reader_of_file(file));
    let (run, now) = if let Some(from) = matches.get_one::<PathBuf>("from") {
        (RecordedRun::read(from)?, side(from))
    } else {
        let call = ControlClient::new(&common.target).limit(LIMIT);
        (RecordedRun::ask(call, "*")?, ("the emulator".to_owned(), common.target.reader()))
    };
    let (runs, sides) = ([RecordedRun::read(file)?, run], [side(file), now]);
    // The same test may have another key each time, or, if its runner was killed, no name.
    let tests = runs.iter().flat_map(|run| &run.keys).filter_map(|of| Some((of.key.clone(), of.test.clone()?.test)));
    let tests: HashMap<String, String> = tests.collect();
    let named = |key: &str| tests.get(key).map_or(key, String::as_str).to_owned();
    let mut found = BTreeMap::new();
    for (number, run) in runs.into_iter().enumerate() {
        if run.omitted.records() > 0 || run.omitted.evicted_entries > 0 {
            warn(&format!("{} lacks older records, so tests may differ only for that reason", sides[number].0));
        }
        for (test, history) in histories(run, named) {
            found.entry(test).or_insert([None, None])[number] = Some(history);
        }
    }
    let mut comparisons: Vec<Comparison> = found.into_iter().map(|pair| comparison(pair, &sides)).collect();
    comparisons.sort_by_key(|it| (it.outcome != Some(Ending::Failed), it.differs.is_none()));
    // A key in the environment is that of the client under test.
    let is_typed = matches.value_source("key") == Some(ValueSource::CommandLine);
    if let Some(key) = matches.get_one::<String>("key").filter(|key| is_typed && *key != "*") {
        comparisons.retain(|it| it.test == named(&Redactor::default().key(key)));
        if comparisons.is_empty() {
            let none = format!("neither run has the key `{}`", quoted(key));
            return Err(Failure::new(1, FailureCode::NotFound, none).with_hint("omit --key to compare all"));
        }
    }
    Ok(show_list(common.json, &json!({ "data": comparisons }), || text(&comparisons, &sides)))
}

/// What the tests of a run did, by their names.
fn histories(run: RecordedRun, named: impl Fn(&str) -> String) -> BTreeMap<String, TestHistory> {
    let (mut keys, mut found) = (HashMap::new(), BTreeMap::<String, TestHistory>::new());
    for state in run.keys {
        if let Some(ended) = state.test {
            found.entry(ended.test).or_default().outcome = Some(ended.outcome);
        }
        keys.insert(state.workspace, state.key);
    }
    // A run has the newest first.
    for request in run.requests.into_iter().rev().filter(|request| !request.request.row.incidental) {
        let row = &request.request.row;
        let rule = request.explanation.rules.iter().flatten().find(|rule| rule.applied);
        let rule = rule.map(|rule| rule.rule.to_string()).unwrap_or_default();
        // A path that a scenario answers may have ids in it; its rule is the same each time.
        let target = if row.operation.as_deref() == Some("stub") { String::new() } else { row.target() };
        let compared = vec![row.method.clone(), target, row.status_text(), row.reason.clone(), rule];
        let (key, at) = (row.key.clone().unwrap_or_default(), row.at.0.clone());
        let happened = Happened { at, compared, explanation: request_explanation(request) };
        found.entry(named(&key)).or_default().kinds[REQUEST].push(happened);
    }
    for delivery in run.deliveries.into_iter().rev() {
        let record = &delivery.record;
        let ended = record.attempts.0.iter().map(|attempt| match &attempt.outcome {
            AttemptResult::Answered { status, .. } => status.to_string(),
            AttemptResult::Failed { failure, .. } => failure.clone(),
        });
        let compared = [record.event_type.clone(), name_of(record.status)].into_iter().chain(ended).collect();
        let key = record.workspace.as_ref().and_then(|workspace| keys.get(workspace)).map_or("", String::as_str);
        let (test, at) = (named(key), record.created_at.0.clone());
        let happened = Happened { at, compared, explanation: delivery_explanation(delivery) };
        found.entry(test).or_default().kinds[DELIVERY].push(happened);
    }
    found
}

fn comparison((test, runs): (String, [Option<TestHistory>; 2]), sides: &[Side; 2]) -> Comparison {
    let [earlier_outcome, outcome] = runs.each_ref().map(|run| run.as_ref()?.outcome);
    let only = if runs.iter().all(Option::is_some) { None } else { runs.iter().position(Option::is_some) };
    let only_in = only.map(|side| sides[side].0.clone());
    let kinds = runs.map(|run| run.unwrap_or_default().kinds);
    let (differs, [earlier, now]) = if only_in.is_some() { (None, [None, None]) } else { first_difference(kinds) };
    Comparison { test, earlier_outcome, outcome, only_in, differs, earlier, now }
}

/// Requests and deliveries are compared separately, because they overtake each other.
fn first_difference(runs: [[Vec<Happened>; 2]; 2]) -> (Option<String>, [Option<Explanation>; 2]) {
    let place = |kind: usize| {
        let [earlier, now] = runs.each_ref().map(|run| &run[kind]);
        let same = earlier.iter().zip(now).take_while(|(earlier, now)| earlier.compared == now.compared).count();
        let is_missing = now.len() == same;
        let run = &runs[usize::from(!is_missing)];
        let at = &run[kind].get(same)?.at;
        // A clock may stand still: the requests of an instant come before its deliveries.
        let is_before = |other: &&Happened| other.at < *at || kind == DELIVERY && other.at == *at;
        let before = run[1 - kind].iter().filter(is_before).count();
        // A test that fails ends early, so that later requests are missing: that is not why it failed.
        Some((kind == REQUEST && is_missing, same + before, kind, same))
    };
    let Some((.., kind, same)) = [DELIVERY, REQUEST].into_iter().filter_map(place).min() else {
        return (None, [None, None]);
    };
    let differing = runs.map(|mut kinds| kinds[kind].drain(..).nth(same).map(|it| it.explanation));
    (Some(format!("{} {}", KINDS[kind], same + 1)), differing)
}

fn text(comparisons: &[Comparison], sides: &[Side; 2]) -> String {
    let is_shown =
        |it: &&Comparison| it.only_in.is_some() || it.differs.is_some() || it.outcome == Some(Ending::Failed);
    let shown: Vec<String> = comparisons.iter().filter(is_shown).map(|it| block(it, sides)).collect();
    match shown.len().checked_sub(MAX_SHOWN) {
        _ if shown.is_empty() => SAME.to_owned(),
        None | Some(0) => shown.concat(),
        Some(more) => format!("{}and {more} more: --json has all, --key KEY one\n", shown[..MAX_SHOWN].concat()),
    }
}

fn block(of: &Comparison, sides: &[Side; 2]) -> String {
    let test = if of.test.is_empty() { "requests without a key".to_owned() } else { cell(&of.test) };
    if let Some(side) = &of.only_in {
        return format!("{test}: only in {side}\n");
    }
    let endings = sides.iter().zip([of.earlier_outcome, of.outcome]);
    let endings = endings.filter_map(|((side, _), ending)| Some(format!(", {} in {side}", name_of(ending?))));
    let mut text = test + &endings.collect::<String>();
    let Some(differs) = &of.differs else { return format!("{text}\n  {SAME}") };
    text.push_str(&format!("\n  {differs} is the first that differs\n"));
    for ((side, reader), explanation) in sides.iter().zip([&of.earlier, &of.now]) {
        let Some(explanation) = explanation else {
            text.push_str(&format!("  in {side}: no {differs}\n"));
            continue;
        };
        let request = explanation.request.as_ref().map(|it| format!(": {} {}", it.row.method, it.row.target()));
        let shown = format!("in {side}{}\n{}", request.map(cell).unwrap_or_default(), explanation.text(reader));
        text.push_str(&format!("  {}\n", shown.trim_end().replace('\n', "\n    ")));
    }
    text
}
