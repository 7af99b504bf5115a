//! The binary as people use it: its streams, exit codes and messages.

use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::process::{STATUS, SUBSCRIBE, Served, request};
use crate::support::{finish, listing, run, text, wrs_emulator};

#[test]
fn explain_prints_what_each_rule_makes_of_a_request() {
    let served = Served::start(&["--scenario", "rate-limit-burst"]);
    assert!(request(&served.url, STATUS, "").starts_with("HTTP/1.1 200 "));
    let requests = served.json(&["requests", "list", "--json"]);
    let why = text(&served.call(&["explain", requests["data"][0]["id"].as_str().expect("an id")]).stdout);
    let rule = "  · rate-limit-burst, too many requests: matched, but did not apply: it lets 5 matching requests through first; this was the 1st\n";
    assert!(why.contains("\nrules (") && why.ends_with(rule), "{why}");
}

#[test]
fn wrong_settings_are_told_before_a_port_in_use() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("an address").to_string();
    for (flag, value) in [("--webhook-ca", "missing.pem"), ("--scenario", "rate-limit-brust"), ("--tls", "a.pem:b.pem")]
    {
        let said = text(&run(&["serve", "--listen", &address, flag, value]).exits(2).stderr);
        let file = value.split(':').next().unwrap_or(value);
        assert!(said.contains(file) && !said.contains(&address), "{flag}: {said}");
    }
}

#[test]
fn an_empty_token_is_no_token_and_empty_variables_are_none() {
    let served = Served::spawn(
        wrs_emulator(&["serve", "--listen", "0.0.0.0:0"])
            .env("WRS_EMULATOR_CONTROL_TOKEN", "")
            .env("WRS_EMULATOR_PROFILE", "")
            .env("WRS_EMULATOR_SCENARIO", "")
            .env("WRS_EMULATOR_QUIET", "1"),
    );
    let refused = request(&served.url, "GET /_emulator/requests HTTP/1.1", "");
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    let (_, log) = served.stop();
    assert!(log.contains("control token: ctl_"), "{log}");
}

/// A file's last newline is part of no value, whoever reads the variable, and no reason to call it unknown.
#[test]
fn blanks_and_line_ends_around_a_variable_are_no_part_of_it() {
    let script = "echo \"[$WRS_API_KEY][$WRS_EMULATOR_CONTROL_TOKEN]\"";
    let mut program = wrs_emulator(&["exec", "--log", "json", "--", "sh", "-c", script]);
    for (name, value) in [
        ("WRS_API_KEY", " sk_test_own\r\n"),
        ("WRS_EMULATOR_CONTROL_TOKEN", " let-me-in\n"),
        ("WRS_EMULATOR_SEED", "5 "),
        ("WRS_EMULATOR_CLOCK", " frozen\n"),
        ("WRS_EMULATOR_PROFILE", " \n"),
    ] {
        program.env(name, value);
    }
    let output = finish(&mut program).exits(0);
    assert_eq!(text(&output.stdout), "[sk_test_own][let-me-in]\n");
    let said = text(&output.stderr);
    assert!(!said.contains("is set, but no flag has this variable"), "{said}");
    assert!(said.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{said}");
}

/// Each refusal names the variable, whichever way the emulator is asked; `health` needs no token.
#[test]
fn a_missing_or_wrong_token_names_the_variable() {
    let served = Served::start(&["--control-token", "let-me-in"]);
    for command in [
        &["requests"][..],
        &["forwards"],
        &["listen", "--forward-to", "localhost:1", "--listen", "127.0.0.1:0"],
        &["trigger", "workflow.completed"],
        &["run", "save", "-"],
        &["subscriptions", "show", "sub_1", "--secret"],
    ] {
        for (token, problem) in [(None, "requires its token"), (Some("guessed"), "token is wrong")] {
            let mut program = wrs_emulator(command);
            program.env("WRS_EMULATOR_URL", &served.url).envs(token.map(|token| ("WRS_EMULATOR_CONTROL_TOKEN", token)));
            finish(&mut program).exits(2).says(&[problem, "hint: set WRS_EMULATOR_CONTROL_TOKEN"]);
        }
    }
    let refused = request(&served.url, "GET /_emulator/requests HTTP/1.1", "");
    assert!(refused.contains("that of WRS_EMULATOR_CONTROL_TOKEN or --control-token"), "{refused}");
    assert_eq!(served.call(&["health"]).status.code(), Some(0));
}

/// The first command between backticks or on a line of its own, without the program's name.
fn command_in(text: &str) -> Vec<&str> {
    let command = text.split(['`', '\n']).find_map(|part| part.trim_start().strip_prefix("wrs-emulator "));
    command.unwrap_or_else(|| panic!("a command in {text}")).split(' ').collect()
}

#[test]
fn a_remedy_is_a_command_that_works_at_once() {
    let served = Served::start(&["--clock", "frozen"]);
    let key = "Authorization: Bearer sk_test_local";
    let plain = r#"{"url":"http://8.8.8.8/x","events":["workflow.completed"]}"#;
    for (head, body) in [(format!("GET /v1/workflows HTTP/1.1\r\n{key}"), ""), (SUBSCRIBE.to_owned(), plain)] {
        let refused = request(&served.url, &head, body);
        assert!(refused.starts_with("HTTP/1.1 4"), "{refused}");
        served.said(&command_in(&served.said(&["explain"])));
        let answer = request(&served.url, &head, body);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    served.call(&["trigger", "workflow.completed", "--wait"]);
    let explained = served.said(&["explain"]).replace("PORT", "3000");
    assert!(served.said(&command_in(&explained)).contains("http://8.8.8.8 -> http://localhost:3000"), "{explained}");

    let findings = served.json(&["review", "findings", "--json"]);
    let idle = findings["not_exercised"].as_array().expect("a list");
    let of = |code: &str| idle.iter().find(|one| one["code"] == code).map(|one| one["advice"].clone());
    let burst = json!([{ "do": "use_scenarios", "active": ["rate-limit-burst"], "key": null }]);
    assert_eq!(of("no-back-off"), Some(burst));
    let reviewed = text(&served.call(&["review", "findings"]).stdout);
    assert!(reviewed.contains(": `wrs-emulator scenarios use rate-limit-burst --url http://"), "{reviewed}");
    let nobody = served.fails(&["trigger", "workflow.completed", "--key", "sk_test_new"], 1);
    assert!(
        nobody.contains(
            "`wrs-emulator listen --forward-to localhost:3000/hooks --key sk_test_new --url http://127.0.0.1:"
        ),
        "{nobody}"
    );
    let (other, _) = nobody.split_once("`wrs-emulator subscriptions").expect("a command that subscribes");
    let of_other = "hint: `wrs-emulator trigger workflow.completed --key ";
    assert!(other.contains(of_other), "the same for a key that has a subscription: {other}");
    let create =
        [&command_in(&nobody[other.len()..])[..2], &["https://a.sink.localhost/x", "--key", "sk_test_new"]].concat();
    served.said(&create);
    served.said(&["trigger", "workflow.completed", "--key", "sk_test_new", "--wait"]);
}

/// Whoever waits for the file finds the address of an emulator that is ready, whole, or no file.
#[test]
fn a_port_file_exists_only_while_the_emulator_is_ready() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("url.txt");
    let file = path.to_str().expect("a path of text");
    std::fs::write(&path, "http://127.0.0.1:1\n").expect("it is written");
    run(&["serve", "--listen", "127.0.0.1:0", "--port-file", file, "--scenario", "unknown"]).exits(2);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let said = text(&run(&["serve", "--listen", &address.to_string(), "--port-file", file]).exits(2).stderr);
    let other = format!("--listen 127.0.0.1:{}", address.port() + 1);
    assert!(said.contains(&other) && !said.contains(&format!("--listen {address}")), "{said}");
    assert!(!path.exists(), "the address of an earlier start");
    let served = Served::start(&["--port-file", file]);
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), format!("{}\n", served.url));
    served.stop();
    assert!(!path.exists(), "the address of an emulator that has stopped");
    let seen = run(&["exec", "--port-file", file, "--", "cat", file]).exits(0);
    assert!(text(&seen.stdout).starts_with("http://127.0.0.1:"), "{seen:?}");
    assert!(!path.exists());
}

#[test]
fn a_file_that_takes_the_place_of_a_shipped_scenario_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rate-limit-burst.toml");
    std::fs::write(&path, "title = 'Mine'\n[[rule]]\npass = true\n").expect("it is written");
    let path = path.to_str().expect("a path of text");
    run(&["check", path]).exits(0).says(&["`rate-limit-burst.toml` replaces the built-in scenario of that name"]);
}

/// One default for what lists: all keys, by a call as by the command.
#[test]
fn listings_show_all_keys_unless_one_is_named() {
    let served = Served::start(&["--clock", "frozen"]);
    for key in ["sk_test_b", "sk_test_a"] {
        served.said(&["subscriptions", "create", "https://a.sink.localhost/", "--key", key]);
        let said = served.call(&["trigger", "workflow.completed", "--key", key, "--wait"]).exits(0);
        said.prints(&[&format!(" fired for {key} at 1 subscription")]);
    }
    served.call(&["trigger", "workflow.completed"]).exits(1).says(&["sk_test_local"]);
    for (path, count) in [("deliveries", 2), ("subscriptions", 2), ("deliveries?key=sk_test_a", 1)] {
        let (_, listed) = served.control("GET", path, &Value::Null);
        let listed: Value = serde_json::from_str(&listed).expect("JSON");
        assert_eq!(listed["data"].as_array().map(Vec::len), Some(count), "{path}: {listed}");
    }
}

#[test]
fn settings_come_from_the_environment_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("url.txt");
    let mut served = Served::spawn(
        wrs_emulator(&[])
            .env("WRS_EMULATOR_LISTEN", "127.0.0.1:0")
            .env("WRS_EMULATOR_PORT_FILE", &file)
            .env("WRS_EMULATOR_SET", "rate_limit.requests=7;errors.codes.not_found=missing")
            .env("WRS_EMULATOR_LOG", "json"),
    );
    let ready: Value = serde_json::from_str(&served.ready).expect("one JSON object");
    let url = std::fs::read_to_string(&file).expect("the file is written before the ready line");
    assert_eq!((&ready["event"], ready["url"].as_str()), (&Value::from("ready"), Some(url.trim())));
    let answer = request(&served.url, "GET /v1/system/status HTTP/1.1\r\nAuthorization: Bearer sk_test_local", "");
    assert!(answer.contains("x-ratelimit-limit: 7"), "{answer}");
    assert!(request(&served.url, "GET /nowhere HTTP/1.1", "").contains("\"code\":\"missing\""));
    assert!(served.child.try_wait().expect("a status").is_none());
    let (_, log) = served.stop();
    let records: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect();
    assert_eq!(records.iter().filter(|record| record["event"] == "request").count(), 2, "{log}");
}

#[test]
fn keys_and_secrets_are_in_no_log_and_no_error() {
    for arguments in [&[][..], &["--log", "json"]] {
        let served = Served::start(&[arguments, &["--set", "environment=production"]].concat());
        let (key, secret) = ("sk_live_a_key_that_nobody_may_see", "a secret that nobody may see");
        let head = format!("POST /v1/events/subscribe HTTP/1.1\r\nAuthorization: Bearer {key}");
        let mut shown = String::new();
        for body in [
            format!(r#"{{"url":"https://a.sink.localhost/","events":["workflow.completed"],"secret":"{secret}"}}"#),
            format!(r#"{{"url":"ftp://a","events":["workflow.completed"],"secret":"{secret}"}}"#),
            format!(r#"{{"secret":"{secret}",}}"#),
            format!(r#"{{"url":"https://a.sink.localhost/","events":["workflow.completed"],"secret":["{secret}"]}}"#),
        ] {
            shown += &request(&served.url, &head, &body);
        }
        shown += &request(&served.url, &format!("GET /v1/system/status HTTP/1.1\r\nAuthorization: Bearer {key}"), "");
        let (_, log) = served.stop();
        assert!(log.contains("/v1/events/subscribe"), "the log was on: {log}");
        for (place, text) in [("the log", log), ("an answer", shown)] {
            for hidden in [key, secret] {
                assert!(!text.contains(hidden), "`{hidden}` is in {place}: {text}");
            }
        }
    }
}

#[test]
fn a_preset_is_named_and_a_file_of_its_name_reached_by_path() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("friendly"), "[rate_limit]\nrequests = 3\n").expect("the file is written");
    std::fs::write(folder.path().join("mine"), "[rate_limit]\nrequests = 4\n").expect("the file is written");
    let row = |profile: &str, setting: &str| {
        let mut command = wrs_emulator(&["assumptions", "--json", "--set", "rate_limit.window=5s"]);
        let output = finish(command.current_dir(folder.path()).env("WRS_EMULATOR_PROFILE", profile));
        let ledger = listing(&text(&output.stdout)).unwrap_or_else(|| panic!("{output:?}"));
        let rows = ledger["data"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["setting"] == setting).expect("the row");
        format!("{} from {}", row["value"], row["source"].as_str().expect("a source"))
    };
    for (profile, setting, expected) in [
        ("contract", "rate_limit.requests", "100 from default"),
        ("friendly", "rate_limit.retry_after", "\"seconds\" from preset friendly"),
        ("friendly", "rate_limit.window", "\"5s\" from --set"),
        ("hostile", "ids.style", "\"longest\" from preset hostile"),
        ("./friendly", "rate_limit.requests", "3 from ./friendly"),
        ("mine", "rate_limit.requests", "4 from mine"),
    ] {
        assert_eq!(row(profile, setting), expected, "{profile}");
    }
    let document = |arguments: &[&str]| text(&run(arguments).stdout);
    let hostile = document(&["openapi", "--profile", "hostile"]);
    assert!(hostile.contains("^sub_[A-Za-z0-9_-]{64}$"), "{hostile}");
    assert!(document(&["openapi", "--profile", "friendly"]).contains("\"X-Request-Id\""));
    assert_eq!(document(&["openapi", "--profile", "contract"]), document(&["openapi"]));
    assert!(run(&["check", "--profile", "hostile"]).status.success());
}

#[test]
fn tls_is_served_with_an_authority_made_at_start() {
    let served = Served::start(&["--tls", "self-signed"]);
    assert!(served.url.starts_with("https://127.0.0.1:"), "{}", served.url);
    served.call(&["health"]).exits(3).says(&["--ca FILE"]);
    assert_eq!(served.call(&["health", "--insecure"]).status.code(), Some(0));
    // A command next to the server, as in its container, has its environment.
    let mut sibling = wrs_emulator(&["health"]);
    let listen = served.url.trim_start_matches("https://");
    let output = sibling.env("WRS_EMULATOR_LISTEN", listen).env("WRS_EMULATOR_TLS", "self-signed").output();
    assert_eq!(output.expect("the binary runs").status.code(), Some(0));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    let fetched =
        Command::new("curl").args(["-sk", &format!("{}/_emulator/ca.pem", served.url), "-o"]).arg(&file).status();
    assert!(fetched.expect("curl runs").success());
    served.said(&["health", "--ca", &file.display().to_string()]);
    let hello =
        Command::new("curl").arg("-s").arg("--cacert").arg(&file).arg(format!("{}/v1/hello", served.url)).output();
    assert!(text(&hello.expect("curl runs").stdout).contains("1.3.2"));
    let (code, log) = served.stop();
    assert_eq!(code, Some(0), "{log}");
}
