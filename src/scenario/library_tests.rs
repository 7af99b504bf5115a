//! Tests of the library: what a swap changes, and what a broken one does not.

use std::path::PathBuf;
use std::time::Duration;

use hyper::Method;
use hyper::header::HeaderMap;

use super::*;
use crate::clock::{Random, Seed};
use crate::contract::routes::Operation;
use crate::diagnostic::Level;
use crate::scenario::rule_counters::RuleCounters;
use crate::scenario::{FileTexts, Reload, RequestView, parse};

const NOW: Instant = Instant::after_start(Duration::from_secs(1));
const LATER: Instant = Instant::after_start(Duration::from_secs(9));

fn reply(status: u16) -> String {
    format!("[[rule]]\nwhen = {{ operation = \"system.status\" }}\nreply = {{ status = {status} }}\n")
}

fn file(name: &str, text: &str) -> (PathBuf, Result<String, Box<Diagnostic>>) {
    (PathBuf::from(format!("dir/{name}.toml")), Ok(text.to_owned()))
}

fn random() -> Random {
    Seed::from_number(1).source("test")
}

fn status(config: &EffectiveConfig, counters: &mut RuleCounters) -> Option<(u16, u64)> {
    let headers = HeaderMap::new();
    let view = RequestView {
        operation: Some(Operation::SystemStatus),
        method: &Method::GET,
        path: "/v1/system/status",
        query: None,
        headers: &headers,
        body: b"",
        key: Some("sk_test_a"),
        keys: &crate::settings::Profile::default().keys,
    };
    config.decide_by_rules(&view, counters, LATER.since(config.activated_at), &mut random()).map(|decision| {
        match decision.action {
            crate::scenario::Action::Reply(reply) => (reply.status, decision.turn),
            other => panic!("{other}"),
        }
    })
}

/// Reads files; gives the number of the generation and the codes of what is wrong.
fn replace(library: &Library, files: FileTexts, now: Instant) -> (u64, Vec<&'static str>) {
    let Reload { generation: number, found, .. } = library.reload_files(files, now);
    assert_eq!(found, library.diagnostics());
    (number, found.iter().map(|problem| problem.code).collect())
}

fn unread(path: &str, severity: Level, code: &'static str) -> (PathBuf, Result<String, Box<Diagnostic>>) {
    let problem = Diagnostic::of_file(code, "", "");
    let problem = if severity == Level::Error { problem } else { problem.as_warning() };
    (PathBuf::from(path), Err(problem.into()))
}

#[test]
fn a_file_keeps_its_last_good_version_however_it_is_broken() {
    let library = Library::new(Layered::default());
    let counters = &mut RuleCounters::default();
    replace(&library, vec![file("b", &reply(202))], NOW);
    library.activate(None, &["b"], NOW).expect("known");
    let broken = || file("b", "[[rule]]\ntmes = 1\npass = true\n");
    for (turn, (files, code)) in (1..).zip([
        (vec![broken()], "scenario/unknown-key"),
        (vec![unread("dir/b.toml", Level::Error, "file/not-utf8")], "file/not-utf8"),
        (vec![broken(), file("b", &reply(203))], "scenario/unknown-key"),
        (vec![file("b", &reply(202)), file("b", &reply(203))], "scenario/duplicate-name"),
    ]) {
        let (number, found) = replace(&library, files, NOW);
        assert_eq!((number, found[0]), (3, code));
        assert_eq!(status(library.load().config_for(None), counters), Some((202, turn)));
    }
    assert_eq!(replace(&library, vec![file("b", &reply(203))], LATER), (4, vec![]));
    let generation = library.load();
    assert_eq!(status(generation.config_for(None), counters), Some((203, 1)), "the rule's text changed");
    assert_eq!(generation.config_for(None).activated_at, NOW, "a reload does not activate anything");
}

#[test]
fn a_deleted_file_stays_as_long_as_a_list_names_it() {
    let library = Library::new(Layered::default());
    let both = vec![file("a", &reply(201)), file("b", &reply(202))];
    replace(&library, both.clone(), NOW);
    library.activate(None, &["a"], NOW).expect("known");
    library.mark_start();
    library.activate(Some("k"), &["b"], NOW).expect("known");
    library.activate(None, &[], NOW).expect("known");
    let number = library.load().number;
    // The list of the start is one as well: a reset goes back to it.
    assert_eq!(replace(&library, vec![], NOW), (number, vec!["scenario/active-missing"; 2]));
    assert_eq!(["a", "b"].map(|name| library.load().held_back(name) == Some(&HeldBack::Deleted)), [true; 2]);
    // A folder that cannot be read is no scenario, whatever its name.
    let folder = unread("dir/a", Level::Error, "file/unreadable");
    assert_eq!(
        replace(&library, vec![folder], NOW).1,
        ["file/unreadable", "scenario/active-missing", "scenario/active-missing"]
    );
    library.follow_global("k", NOW);
    assert_eq!(["a", "b"].map(|name| library.load().find(name).is_some()), [true, false]);
    library.restart(NOW).expect("the last good version is there");
    assert_eq!(status(library.load().config_for(None), &mut RuleCounters::default()), Some((201, 1)));
    replace(&library, both, NOW);
    assert!(library.is_as_saved());
}

#[test]
fn a_scenario_that_clashes_with_others_is_held_back_alone() {
    let library = Library::new(Layered::default());
    let settings = |lines: &str| format!("[profile]\n{lines}\n");
    let header = |name: &str, value: &str| settings(&format!("rate_limit.header_names.{name} = '{value}'"));
    let (good, other) = (header("limit", "x-limit"), header("remaining", "x-b"));
    replace(&library, vec![file("a", &good), file("b", &other), file("c", &reply(201))], NOW);
    library.activate(None, &["a", "b"], NOW).expect("they fit");
    let clashing = header("limit", "x-b");
    assert!(parse::check_text("a", &clashing).0.is_some(), "it is right alone");
    let (_, found) = replace(&library, vec![file("a", &clashing), file("b", &other), file("c", &reply(202))], NOW);
    assert!(!found.is_empty());
    let generation = library.load();
    assert!(matches!(generation.held_back("a"), Some(HeldBack::Broken(_))));
    assert_eq!(generation.find("a").map(|found| found.text.contains("x-limit")), Some(true));
    assert_eq!(generation.find("c").map(|found| found.text.contains("202")), Some(true));
}

#[test]
fn unchanged_files_make_no_generation_and_unchanged_rules_keep_counters() {
    let library = Library::new(Layered::default());
    let counters = &mut RuleCounters::default();
    let two = format!("{}{}", reply(201).replace("reply", "times = 1\nreply"), reply(202));
    library.reload_files(vec![file("a", &two)], NOW);
    library.activate(None, &["a"], NOW).expect("known");
    assert_eq!(status(library.load().config_for(None), counters), Some((201, 1)));
    assert_eq!(library.reload_files(vec![file("a", &two)], LATER).generation, 3);
    assert_eq!(library.reload_files(vec![file("a", &two.replace("202", "203"))], LATER).generation, 4);
    assert_eq!(status(library.load().config_for(None), counters), Some((203, 1)));
    assert_eq!(library.activate(None, &["a"], LATER), Ok(5));
    assert_eq!(status(library.load().config_for(None), counters), Some((201, 1)), "activating starts the story afresh");
}

#[test]
fn what_a_request_may_name_is_bounded() {
    let library = Library::new(Layered::default());
    let text = reply(201) + &format!("# {}\n", "x".repeat(900_000));
    let files = (0..3).map(|at| file(&format!("s{at}"), &text)).collect();
    library.reload_files(files, NOW);
    let generation = library.load();
    assert!(generation.config_named(None, &["s0", "s1"]).is_ok());
    let large = generation.config_named(None, &["s0", "s1", "s2"]).expect_err("too large");
    assert!(large[0].code == "scenario/too-many" && large[0].message.contains("2097152"), "{large:?}");
    assert!(generation.config_named(None, &["s0"; 32]).is_ok(), "one that is named twice counts once");
    let many = generation.config_named(None, &["nope"; 33]).expect_err("too many");
    assert_eq!((many.len(), many[0].code), (1, "scenario/too-many"));
    // For a key there is no such bound.
    assert!(library.activate(Some("k"), &["s0", "s1", "s2"], NOW).is_ok());
}

#[test]
fn inline_comes_before_files_before_shipped() {
    let library = Library::new(Layered::default());
    let title = |library: &Library| library.load().find("rate-limit-burst").map(|found| found.title.clone());
    let shipped = title(&library);
    library.reload_files(vec![file("rate-limit-burst", &format!("title = 'file'\n{}", reply(201)))], NOW);
    assert_eq!(title(&library).as_deref(), Some("file"));
    library.put_inline("rate-limit-burst", &format!("title = 'inline'\n{}", reply(201)), NOW).expect("valid");
    assert_eq!(title(&library).as_deref(), Some("inline"));
    library.remove_inline("rate-limit-burst", NOW).expect("it is there");
    library.reload_files(Vec::new(), NOW);
    assert_eq!(title(&library), shipped);
    library.put_inline("mine", &reply(201), NOW).expect("valid");
    library.activate(None, &["mine"], NOW).expect("known");
    assert!(library.remove_inline("mine", NOW).is_err(), "it is active");
    assert!(library.put_inline("mine", "tmes = 1", NOW).is_err());
    assert!(library.remove_inline("nope", NOW).is_err());
}

#[test]
fn files_beyond_a_cap_hold_no_others_back() {
    let library = Library::new(Layered::default());
    let capped = vec![file("a", &reply(201)), unread("dir", Level::Warning, "file/too-many")];
    assert_eq!(library.reload_files(capped, NOW).generation, 2);
    assert_eq!(library.diagnostics()[0].code, "file/too-many");

    // A body of that many small values takes more than 40 MiB, so the second is one too many.
    let dense = format!("[[rule]]\nreply = {{ status = 200, body = [{}] }}\n", "0,".repeat(250_000));
    let files = vec![file("a", &reply(201)), file("b", &dense), file("c", &dense), file("d", &reply(202))];
    assert_eq!(library.reload_files(files, NOW).generation, 3);
    let found = library.diagnostics();
    assert_eq!((found.len(), found[0].code, found[0].file.as_deref()), (1, "scenario/too-many", Some("dir/c.toml")));
    let generation = library.load();
    assert_eq!(["a", "b", "c", "d"].map(|name| generation.find(name).is_some()), [true, true, false, false]);
}

#[test]
fn a_reload_says_what_changed() {
    const RULE: &str = "[[rule]]\nname = 'a'\nreply = { status = 500 }\n";
    const EMIT: &str = "[[emit]]\nevent = 'workflow.completed'\non = 'command'\n";
    const NONE: &str = "title = 't'\n";
    for (old, new, expected) in [
        (RULE, &*RULE.replace("500", "501"), "rule `a` changed"),
        (NONE, RULE, "rule `a` added"),
        (RULE, NONE, "rule `a` removed"),
        (NONE, EMIT, "emission 1 added"),
        (RULE, &format!("# a note\n{RULE}"), "no rule changed"),
        (&format!("{RULE}{EMIT}"), &format!("[[rule]]\npass = true\n{RULE}{EMIT}"), "rule 1 added"),
        (
            &format!("{RULE}[[rule]]\npass = true\n"),
            &format!("[[rule]]\npass = true\n{RULE}"),
            "the order of rules changed",
        ),
        ("profile.rate_limit.requests = 3\n", "profile.rate_limit.requests = 4\n", "[profile] changed"),
        (NONE, "[[given.user]]\nid = 'u'\n", "given state changed"),
    ] {
        let library = Library::new(Layered::default());
        assert_eq!(library.reload_files(vec![file("s", old)], NOW).changes, ["dir/s.toml: added"]);
        let reload = library.reload_files(vec![file("s", new)], NOW);
        assert_eq!(reload.changes, [format!("dir/s.toml: {expected}")], "{old}\n{new}");
        assert_eq!(library.reload_files(vec![], NOW).changes, ["dir/s.toml: removed"]);
    }
    let library = Library::new(Layered::default());
    let rules: String = (0..20).map(|n| format!("[[rule]]\nname = 'r{n}'\ntimes = 1\npass = true\n")).collect();
    library.reload_files(vec![file("s", NONE)], NOW);
    let changes = library.reload_files(vec![file("s", &rules)], NOW).changes;
    assert!(changes[0].ends_with("rule `r7` added, and 12 more"), "{changes:?}");
    let files = (0..20).map(|n| file(&format!("t{n}"), NONE)).collect();
    let changes = library.reload_files(files, NOW).changes;
    assert_eq!((changes.len(), changes[5].as_str()), (6, "and 16 more files"));
}
