//! Everything that is kept shares one budget: the process stays within it and 128 MiB.

use std::io::Read as _;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::overload::{PLAIN, hanging};
use crate::process::{Served, eventually, status};
use crate::support::{PATIENCE, sized};

const MIB: usize = 1024 * 1024;

/// The promise: the allocator's sum, which the budget is measured by, and what the process takes in all. Prints both.
fn assert_within(served: &Served, budget: usize, what: &str) {
    let (_, health) = served.send("GET", "/_emulator/health", "");
    let health: Value = serde_json::from_str(&health).expect("JSON");
    let allocated = health["memory_bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok()).expect("a number");
    let (resident, peak, most) = (served.resident(), served.peak(), budget + 128 * MIB);
    let sizes = [allocated, resident, peak, most].map(|bytes| bytes / MIB);
    #[expect(clippy::print_stdout, reason = "`--nocapture` shows the two sums side by side")]
    {
        println!("{what}: allocated {}, resident {}, at most {} of {} MiB", sizes[0], sizes[1], sizes[2], sizes[3]);
    }
    assert!(allocated > 0 && allocated <= most && peak <= most, "{what}: {allocated} and {peak} bytes");
}

/// A snapshot of `keys` keys, each with its own setting if `own_settings`.
fn snapshot_of(served: &Served, keys: usize, own_settings: bool) -> Vec<u8> {
    let (_, empty) = served.control("GET", "snapshot?key=*", &Value::Null);
    let mut snapshot: Value = serde_json::from_str(&empty).expect("a snapshot");
    let (clock, sources) = (snapshot["clock"].clone(), snapshot["whole"]["anonymous"]["sources"].clone());
    let workspace = |number: usize| {
        let settings = if own_settings { json!({ "rate_limit.requests": number + 1 }) } else { json!({}) };
        json!({
            "key": format!("sk_test_{number}"), "clock": clock, "sources": sources, "quota": null, "subscriptions": [],
            "knobs": settings, "planned": [], "deliveries": [],
            "scenarios": {
                "active": [], "own": false, "active_for": 0, "began": null, "turns": [], "steps": [],
                "named_turns": [], "named_steps": [],
            },
        })
    };
    snapshot["workspaces"] = (0..keys).map(workspace).collect();
    snapshot.to_string().into_bytes()
}

/// Everything that a client can make it keep, at most `budget` of it: what is kept stays within the budget and 128 MiB, and something is
/// refused with the name of the setting.
fn fill(what: &str, budget: usize, keep: impl Fn(&Served, usize) -> (u16, String)) -> Served {
    let served = Served::start(&[&PLAIN[..], &["--max-memory-bytes", &budget.to_string()]].concat());
    let refusal = (0..3_000).map(|number| keep(&served, number)).find(|(status, _)| *status != 200);
    let (status, answer) = refusal.unwrap_or_else(|| panic!("{what}: all is kept"));
    assert!(status == 422 && answer.contains("--max-memory-bytes"), "{what}: {status} {answer}");
    assert_within(&served, budget, what);
    assert_eq!(served.control("POST", "reset", &json!({ "key": "*" })).0, 200, "{what}");
    let (status, answer) = keep(&served, 0);
    assert_eq!(status, 200, "{what}: {answer}");
    served
}

/// Each rule that a request matches has a counter for its key.
#[test]
fn counters_of_rules_are_kept_within_the_budget() {
    let rules = "[[rule]]\nskip = 9\nreply.status = 500\n".repeat(4_000);
    fill("counters of rules", 32 * MIB, |served, number| {
        if number == 0 {
            assert_eq!(served.send_as("application/toml", "PUT", "/_emulator/scenarios/rules", &rules).0, 200);
            assert_eq!(served.control("POST", "scenarios/active", &json!({ "active": ["rules"] })).0, 200);
        }
        let head = format!(
            "GET /v1/system/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk_test_{number}\r\nConnection: close\r\n\r\n"
        );
        let mut answer = String::new();
        let mut stream = served.sending(&head);
        let status = status(&mut stream).parse().expect("a status");
        stream.read_to_string(&mut answer).expect("text");
        (status, answer)
    });
}

/// A script is small, and the names are the client's.
#[test]
fn scripts_of_receivers_are_kept_within_the_budget() {
    let respond = vec![500; 1_000];
    let long = "x".repeat(6_000);
    fill("scripts", 16 * MIB, |served, number| {
        served.control("POST", &format!("sink/{long}{number}"), &json!({ "respond": respond }))
    });
}

/// A setting of a key is a profile of its own in memory.
#[test]
fn settings_of_keys_are_loaded_within_the_budget() {
    let budget = 32 * MIB;
    let served = Served::start(&["--max-memory-bytes", &budget.to_string()]);
    let values: serde_json::Map<String, Value> =
        (0..400).map(|number| (number.to_string(), json!([1, 2, 3]))).collect();
    let own = String::from_utf8(snapshot_of(&served, 900, true)).expect("text");
    let own = own.replace(
        "\"rate_limit.requests\":",
        &format!("\"hello.body\":{},\"rate_limit.requests\":", Value::from(values)),
    );
    assert!(own.len() < 16 * MIB, "{} bytes", own.len());
    let (status, answer) = load(&served, own.as_bytes());
    assert!(status == 422, "{status} {answer}");
    assert_within(&served, budget, "settings of keys");
    served.serves();
}

#[test]
fn a_storm_of_emissions_is_cut_at_the_budget() {
    let budget = 32 * MIB;
    let served = Served::start(&["--clock", "2026-01-31T09:30:00Z", "--max-memory-bytes", &budget.to_string()]);
    // What happens each ten milliseconds leaves two hours later: without a bound an hour would plan 360,000 events.
    let storm = "[[emit]]\nevent = 'workflow.completed'\non = { every = '10ms' }\ndelay = '2h'\n\n\
                 [[emit]]\nname = 'flood'\nevent = 'workflow.completed'\non = 'command'\ntimes = 100000\ndelay = '2h'\n";
    assert_eq!(served.send_as("application/toml", "PUT", "/_emulator/scenarios/storm", storm).0, 200);
    assert_eq!(served.control("POST", "scenarios/active", &json!({ "active": ["storm"] })).0, 200);
    served.subscribe("https://app.sink.localhost/");
    for _ in 0..3 {
        assert_eq!(served.control("POST", "events", &json!({ "emit": "flood" })).0, 200);
    }
    let step = |by: &str, timeout: &str| served.control("POST", "clock", &json!({ "advance": by, "timeout": timeout }));
    let (status, answer) = step("1h", "0s");
    assert!(status == 408 && answer.contains("not_settled"), "{status} {answer}");
    eventually("the storm meets the budget", || {
        served.control("GET", "run", &Value::Null).1.contains("events of emissions were left out: the memory budget")
    });
    assert_within(&served, budget, "a storm");
    // A reset ends the storm, its planned events, and the step.
    assert_eq!(served.control("POST", "reset", &json!({ "key": "*" })).0, 200);
    let (status, answer) = step("0s", "30s");
    assert!(status == 200 && answer.contains("2026-01-31T09:30:00.000Z"), "{status} {answer}");
    eventually("what was planned is freed", || {
        served.control("POST", "sink/app", &json!({ "respond": [200] })).0 == 200
    });
}

/// One rule for keys, wherever one comes in.
#[test]
fn a_key_is_judged_alike_wherever_it_comes_in() {
    let served = Served::start(&["--set", "keys.mode=any"]);
    let key = |length: usize| "k".repeat(length);
    for (key, is_valid) in [(key(256), true), (key(257), false), (key(200_000), false), ("ä".to_owned(), false)] {
        let called =
            served.control("POST", "subscriptions", &json!({ "key": key, "url": "https://a.sink.localhost/" }));
        let named = String::from_utf8(snapshot_of(&served, 1, false)).expect("text").replace("sk_test_0", &key);
        let loaded = load(&served, named.as_bytes());
        let forked =
            served.control("POST", "snapshot/fork", &json!({ "from": "other", "key": key.replacen('k', "f", 1) }));
        let statuses = [called.0, loaded.0, forked.0];
        let shown: String = key.chars().take(9).collect();
        assert_within(&served, 0, "keys of any length");
        if is_valid {
            assert_eq!(statuses, [200; 3], "{shown}: {} {} {}", called.1, loaded.1, forked.1);
        } else {
            assert!(statuses.iter().all(|status| *status != 200), "{shown}: {statuses:?}");
        }
        assert_eq!(served.control("POST", "reset", &json!({ "key": "*" })).0, 200);
    }
}

fn load(served: &Served, snapshot: &[u8]) -> (u16, String) {
    served.send("PUT", "/_emulator/snapshot", snapshot)
}

/// What a call would refuse, a snapshot cannot bring in either.
#[test]
fn a_snapshot_is_loaded_within_the_bounds_of_the_calls() {
    let served = Served::start(&["--max-workspaces", "100"]);
    let (status, answer) = load(&served, &snapshot_of(&served, sized(2_000, 10_000), true));
    assert!(status == 422 && answer.contains("their own settings"), "{status} {answer}");
    assert_within(&served, 256 * MIB, "keys with their own settings");

    let own = snapshot_of(&served, 500, true);
    assert_eq!(load(&served, &own).0, 200);
    let (_, saved) = served.control("GET", "snapshot?key=*", &Value::Null);
    let saved: Value = serde_json::from_str(&saved).expect("a snapshot");
    let kept = saved["workspaces"].as_array().expect("workspaces").len();
    assert!((90..=100).contains(&kept), "{kept} workspaces are kept");
    (0..sized(2, 4)).for_each(|_| assert_eq!(load(&served, &own).0, 200));
    let before = served.resident();
    (0..sized(3, 8)).for_each(|_| assert_eq!(load(&served, &own).0, 200));
    assert!(served.resident() < 2 * before, "{} bytes became {}", before, served.resident());

    // Keys without their own settings share one configuration.
    let shared = Served::start(&[]);
    assert_eq!(load(&shared, &snapshot_of(&shared, sized(3_000, 10_000), false)).0, 200);
    assert_within(&shared, 0, "keys");
    shared.serves();
}

/// The journal gives way first; then whatever would keep more is refused, and names the setting.
#[test]
fn what_is_kept_shares_one_budget() {
    let budget = 32 * MIB;
    let served = Served::start(&[&PLAIN[..], &["--max-memory-bytes", &budget.to_string()]].concat());
    let requests = || omitted(&served, "requests");
    let subscribe = |body: &Value| served.send("POST", "/v1/events/subscribe", body.to_string());
    let hook = |number: usize, size: usize| {
        json!({
            "url": format!("https://a.sink.localhost/{number}"), "events": ["workflow.completed"],
            "description": "x".repeat(size),
        })
    };
    let invalid = json!({ "url": "x".repeat(60_000) });
    (0..800).for_each(|_| assert_eq!(subscribe(&invalid).0, 422));
    let full = requests() * 60_000;
    assert!(full > budget / 2 && full <= budget && omitted(&served, "evicted_entries") > 0, "{full}");

    // Returns how many were kept.
    let refused = |what: &str, keep: &dyn Fn(usize) -> Option<String>| {
        let refusal = (0..2_000).find_map(|number| Some((number, keep(number)?)));
        let (number, refusal) = refusal.unwrap_or_else(|| panic!("{what}: all are kept"));
        assert!(refusal.contains("--max-memory-bytes"), "{what}: {refusal}");
        served.serves();
        number
    };
    // Small rules take a hundred times as much as their text.
    let rules = "[[rule]]\nreply.status=422\n".repeat(2_000);
    let put_rules = |number: usize| {
        let put = served.send_as("application/toml", "PUT", &format!("/_emulator/scenarios/s{number}"), &rules);
        (put.0 != 200).then_some(put.1)
    };
    let scenarios = refused("scenarios", &put_rules);
    refused("subscriptions", &|number| {
        let (status, answer) = subscribe(&hook(number, 50_000));
        (status != 200).then_some(answer)
    });
    refused("events", &|_| {
        let event = json!({ "type": "workflow.completed", "data": { "x": "x".repeat(50_000) }, "delay": "1h" });
        let fired = served.control("POST", "events", &event);
        (fired.0 != 200).then_some(fired.1)
    });
    let left = requests() * 50_000;
    assert!(left < budget / 4, "the journal gave way, but for {left} bytes");
    let reset = || {
        assert_eq!(served.control("POST", "reset", &json!({ "key": "*" })).0, 200);
        // Not resident memory, of which the allocator keeps a share that depends on the load.
        eventually("what was kept is freed", || (0..scenarios).all(|number| put_rules(number).is_none()));
        assert_eq!(served.control("POST", "reset", &json!({ "key": "*" })).0, 200);
    };
    reset();
    // What a receiver has taken and not answered is kept as well.
    for (subscriptions, size) in [(1, 240_000), (100, 10)] {
        let (_receiver, silent) = hanging();
        (0..subscriptions).for_each(|number| drop(served.subscribe(&format!("{silent}/{number}"))));
        let event = json!({ "type": "workflow.completed", "data": { "x": "x".repeat(size) }, "count": 2_000 });
        let (status, answer) = served.control("POST", "events", &event);
        assert!(status == 422 && answer.contains("too_many_pending"), "{status} {answer}");
        assert!(answer.contains("of 2000 events were fired") && answer.len() < MIB, "{answer}");
        let (status, snapshot) = served.control("GET", "snapshot?key=*", &Value::Null);
        // In chunks, of which the last is empty.
        assert!(status == 200 && snapshot.ends_with("}\r\n0\r\n\r\n"), "{status} {} bytes", snapshot.len());
        served.serves();
        assert_within(&served, budget, "one budget");
        // What is forgotten makes room.
        reset();
    }
    served.subscribe("https://a.sink.localhost/");
    let (status, answer) = served.control("POST", "events?wait=10s", &json!({ "type": "workflow.completed" }));
    assert!(status == 200 && answer.contains("\"delivered\""), "{status} {answer}");
    (0..200).for_each(|number| assert_eq!(subscribe(&hook(number, 50_000)).0, 200));
}

/// As much as the budget allows, of one key: what is saved, sent eight times at once and loaded is never there as a whole again.
#[test]
fn a_full_state_is_saved_sent_and_loaded_within_the_budget() {
    let budget = sized(16, 32) * MIB;
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state.json").display().to_string();
    let most = budget.to_string();
    let flags = [&PLAIN[..], &["--max-memory-bytes", &most, "--state", &state]].concat();
    let served = Served::start(&flags);
    let hook = |number: usize| {
        json!({
            "url": format!("https://a.sink.localhost/{number}"), "events": ["workflow.completed"],
            "description": "x".repeat(60_000),
        })
    };
    let subscribe = |number: &usize| served.send("POST", "/v1/events/subscribe", hook(*number).to_string()).0 == 200;
    let count = (0..10_000).take_while(subscribe).count();
    assert!(count * 60_000 > budget / 2, "{count} subscriptions");
    let size = count * 60_000;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            // While too many are being sent, others are refused.
            scope.spawn(|| eventually("it is sent", || received(&served, "snapshot?key=*") > size));
        }
    });
    assert_within(&served, budget, "sent");
    eventually("it is saved", || std::fs::metadata(&state).is_ok_and(|file| file.len() > size as u64));
    assert_within(&served, budget, "saved");
    let (code, said) = served.stop();
    assert_eq!(code, Some(0), "{said}");

    let again = Served::start(&flags);
    assert!(received(&again, "snapshot?key=*") > size);
    assert_within(&again, budget, "loaded");
}

/// The deliveries of an event are saved one by one, and share the event again once they are loaded.
#[test]
fn full_of_events_it_is_loaded_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state.json").display().to_string();
    let most = (16 * MIB).to_string();
    let flags = [&PLAIN[..], &["--max-memory-bytes", &most, "--state", &state, "--clock", "frozen"]].concat();
    let served = Served::start(&flags);
    (0..10).for_each(|number| drop(served.subscribe(&format!("https://a.sink.localhost/{number}"))));
    let event = json!({ "type": "workflow.completed", "delay": "1h", "count": 100 });
    while served.control("POST", "events", &event).0 == 200 {}
    let pending = |served: &Served| omitted(served, "deliveries");
    let count = pending(&served);
    assert!(count > 10_000, "{count}");
    assert_eq!(served.stop().0, Some(0));
    let again = Served::start(&flags);
    assert_eq!(pending(&again), count);
}

/// How many records of a kind a run document without any leaves out, which are all that are kept.
fn omitted(served: &Served, kind: &str) -> usize {
    // A client of HTTP/1.0 gets no chunks.
    let mut answer = String::new();
    served.sending("GET /_emulator/run?limit=0 HTTP/1.0\r\n\r\n").read_to_string(&mut answer).expect("an answer");
    let (_, run) = answer.split_once("\r\n\r\n").expect("an answer");
    let run: Value = serde_json::from_str(run).expect("a document");
    run["omitted"][kind].as_u64().and_then(|count| usize::try_from(count).ok()).expect("a count")
}

/// The bytes of an answer, none of which are kept.
fn received(served: &Served, path: &str) -> usize {
    let head = format!("GET /_emulator/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let copied = std::io::copy(&mut served.sending(head), &mut std::io::sink()).expect("an answer and the end");
    usize::try_from(copied).expect("a number of bytes")
}

/// A few bytes of text may be many of memory. There must be room before each piece of a document is read.
#[test]
fn a_snapshot_that_expands_is_refused_within_the_budget() {
    let budget = 32 * MIB;
    let served = Served::start(&["--max-memory-bytes", &budget.to_string()]);
    let keyed = String::from_utf8(snapshot_of(&served, 1, false)).expect("text");
    let many = |item: &str| format!("[{}{item}]", format!("{item},").repeat(15 * MIB / (item.len() + 1)));
    for (field, list) in [
        ("\"named_steps\":[]", format!("\"named_steps\":{}", many("[0,\"\"]"))),
        ("\"active\":[]", format!("\"active\":{}", many("\"\""))),
        (
            "\"scenarios\":{}",
            format!("\"scenarios\":{{{}\"x\":\"\"}}", {
                (0..MIB).map(|number| format!("\"{number:x}\":\"\",")).collect::<String>()
            }),
        ),
    ] {
        assert!(keyed.contains(field), "{field} in {keyed}");
        let (status, answer) = load(&served, keyed.replacen(field, &list, 1).as_bytes());
        assert!(status == 422 && answer.contains("--max-memory-bytes"), "{field}: {status} {answer}");
        assert_within(&served, budget, field);
    }
}

/// An emulator with a folder of as much as is read, and more.
fn with_a_full_folder(folder: &Path) -> Served {
    let large = 1000 * 1024;
    let dense = |rules: usize| "[[rule]]\nreply.status=422\n".repeat(rules);
    for number in 0..3 {
        std::fs::write(folder.join(format!("a{number}.toml")), dense(25_000)).expect("it is written");
    }
    for number in 0..20 {
        let text = format!("{}# {}\n", dense(1), "x".repeat(large));
        std::fs::write(folder.join(format!("b{number:02}.toml")), text).expect("it is written");
    }
    Served::start(&["--scenarios", &folder.display().to_string()])
}

#[test]
fn a_folder_of_scenarios_takes_bounded_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = with_a_full_folder(folder.path());
    for _ in 0..2 {
        assert_eq!(served.control("POST", "scenarios/reload", &json!({})).0, 200);
    }
    let (_, listed) = served.control("GET", "scenarios", &Value::Null);
    for code in ["file/too-many", "scenario/too-many"] {
        assert_eq!(listed.matches(code).count(), 1, "{code}");
    }
    assert_within(&served, 128 * MIB, "a folder");
}

/// Once the files have grown old: all of them would be 16 MiB a second.
#[test]
#[ignore = "measures the machine: `.ci/nightly large` runs it"]
fn a_folder_of_scenarios_is_not_read_while_idle() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = with_a_full_folder(folder.path());
    let pause = Duration::from_millis(1500);
    let mut left = PATIENCE;
    while {
        let before = served.bytes_read();
        std::thread::sleep(pause);
        served.bytes_read() - before > 1024 * 1024
    } {
        left = left.checked_sub(pause).expect("an idle watcher reads nothing");
    }
}

/// What is shown of each problem may be as long as a request, and there are as many as the journal has.
#[test]
fn a_verdict_of_long_paths_is_bounded() {
    let served = Served::start(&PLAIN);
    for number in 0..300 {
        let path = format!("/v1/{number}{}", "x\"".repeat(3_900));
        assert_eq!(served.send("GET", &path, "").0, 404);
    }
    let (status, verdict) = served.control("GET", "verdict", &Value::Null);
    assert!(status == 200 && verdict.len() < 8 * MIB, "{status} {} bytes", verdict.len());
    let verdict: Value = serde_json::from_str(&verdict).expect("JSON");
    let shown = verdict["unmatched"].as_array().expect("a list").len();
    assert!(verdict["counts"]["unmatched"] == 300 && (1..300).contains(&shown), "{shown} are shown");
}

/// What a failed test shows is kept for each key, and the verdict, the run and the report have it once more.
#[test]
#[ignore = "5,000 failed tests, read by four at once: `.ci/nightly large` runs it"]
fn documents_of_failed_tests_take_bounded_memory() {
    const READERS: usize = 4;
    let budget = 64 * MIB;
    let served = Served::start(&["--max-memory-bytes", &budget.to_string()]);
    let (path, cause, output) = ("x".repeat(500), "z".repeat(600), "\u{1b}o".repeat(2_000));
    for number in 0..5_000 {
        let message = format!("cause {number} {cause}");
        let refused = json!({ "call": format!("POST {number}{path}"), "status": 422, "code": number.to_string(), "message": message });
        let outcome = json!({
            "key": format!("sk_test_{number}"), "test": number.to_string(), "outcome": "failed",
            "message": message, "output": output, "refused": refused,
        });
        assert_eq!(served.control("POST", "outcome", &outcome).0, 200);
    }
    for path in ["verdict", "run", "report.html"] {
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let reading = [(); READERS].map(|()| scope.spawn(|| served.control("GET", path, &Value::Null).0));
            reading.map(|reader| reader.join().expect("an answer")).into()
        });
        // Those who find no room for ten seconds are told so.
        assert!(
            statuses.contains(&200) && statuses.iter().all(|status| [200, 429].contains(status)),
            "{path}: {statuses:?}"
        );
        assert_within(&served, budget, path);
    }
    assert!(omitted(&served, "keys") > 0);
}

/// An emulator with 1,001 requests and 100 deliveries, each of which is shown as far more bytes than it has.
fn with_long_records() -> Served {
    let served = Served::start(&PLAIN);
    for number in 0..1_000 {
        // In JSON twice as long.
        assert_eq!(served.send("GET", &format!("/v1/{number}{}", "\"".repeat(7_000)), "").0, 404);
    }
    // In JSON six times as long.
    let answer: &str = Box::leak("\u{1}".repeat(16_000).into_boxed_str());
    served.subscribe(&format!("http://127.0.0.1:{}/", crate::diagnosis::receiver(200, answer)));
    let events = json!({ "type": "workflow.completed", "count": 100 });
    assert_eq!(served.control("POST", "events?wait=30s", &events).0, 200);
    served
}

/// What a call has waited for may be thousands of records: they are sent one by one, and of a table there is only so much.
#[test]
#[ignore = "those who find no room wait ten seconds for it: `.ci/nightly large` runs it"]
fn what_was_waited_for_takes_bounded_memory() {
    let served = with_long_records();
    for (path, count) in [("requests/wait", 1_001), ("deliveries/wait", 100)] {
        let body = json!({ "count": count }).to_string();
        let call = |accept: &str| {
            format!(
                "POST /_emulator/{path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: {accept}\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let mut unread: Vec<TcpStream> = (0..24).map(|_| served.sending(call("*/*"))).collect();
        let statuses: Vec<String> = unread.iter_mut().map(status).collect();
        assert!(statuses.iter().all(|status| ["200", "429"].contains(&status.as_str())), "{path}: {statuses:?}");
        assert_within(&served, 32 * MIB, path);
        drop(unread);
        let read = |accept: &str| {
            let mut answer = String::new();
            served.sending(call(accept)).read_to_string(&mut answer).expect("text");
            answer.split_once("\r\n\r\n").expect("an answer").1.to_owned()
        };
        let whole: Value = serde_json::from_str(&read("application/json")).expect("JSON");
        assert_eq!(whole["data"].as_array().map(Vec::len), Some(count), "{path}");
        let table = read("text/plain");
        assert!(table.len() < 4 * MIB && table.ends_with(" more\n"), "{path}: {} bytes", table.len());
    }
}

/// A page ends after so many bytes, whatever `limit` allows, and the next one continues there.
#[test]
fn a_page_is_bounded_in_bytes() {
    let served = with_long_records();
    for (path, count) in [("requests?limit=1000", 1_001), ("deliveries?limit=1000", 100)] {
        let call = format!("GET /_emulator/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut unread: Vec<TcpStream> = (0..24).map(|_| served.sending(&call)).collect();
        let statuses: Vec<String> = unread.iter_mut().map(status).collect();
        assert!(statuses.iter().all(|status| status == "200"), "{path}: {statuses:?}");
        assert_within(&served, 32 * MIB, path);
        drop(unread);
        let (mut found, mut cursor) = (std::collections::BTreeSet::new(), String::new());
        loop {
            let (status, page) = served.control("GET", &format!("{path}{cursor}"), &Value::Null);
            assert!(status == 200 && page.len() < 2 * MIB, "{path}: {status}, {} bytes", page.len());
            let page: Value = serde_json::from_str(&page).expect("JSON");
            found.extend(page["data"].as_array().expect("rows").iter().map(|row| row["id"].to_string()));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert!(found.len() == count && !cursor.is_empty(), "{path}: {}", found.len());
    }
}

/// A large answer holds its share of the memory for bodies until its client has read it.
#[test]
#[ignore = "those who find no room wait ten seconds for it: `.ci/nightly large` runs it"]
fn answers_that_nobody_reads_take_bounded_memory() {
    let served = Served::start(&PLAIN);
    // What is escaped is six times as large in the answer.
    let invalid = "\u{1}".repeat(60_000);
    (0..sized(40, 140)).for_each(|_| assert_eq!(served.send("POST", "/v1/events/subscribe", &invalid).0, 422));
    for path in ["/_emulator/run?key=*", "/_emulator/report.html?key=*"] {
        let call = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut unread: Vec<TcpStream> = (0..24).map(|_| served.sending(&call)).collect();
        let statuses: Vec<String> = unread.iter_mut().map(status).collect();
        assert_within(&served, 32 * MIB, path);
        let mut read = 0;
        for (mut stream, status) in unread.into_iter().zip(statuses) {
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("text");
            match status.as_str() {
                "200" => read += 1,
                status => assert!(status == "429" && answer.contains("\"busy\""), "{path}: {status} {answer}"),
            }
        }
        assert!((1..24).contains(&read), "{path}: {read} are answered");
        // What was read makes room for others.
        assert_eq!(served.send("GET", path, "").0, 200);
    }
}
