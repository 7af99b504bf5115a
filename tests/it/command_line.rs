//! The binary as people use it: its streams, exit codes and messages.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::support::{listing, run, text, wrs_emulator};

/// Starts an emulator; gives the process and the first line that it prints.
pub(crate) fn spawn(command: &mut Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a ready line");
    (child, line)
}

/// The emulator as a process; its base URL is read from the ready line.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Served {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let all = [&["serve", "--listen", "127.0.0.1:0", "--seed", "1"], arguments].concat();
        let (child, line) = spawn(&mut wrs_emulator(&all));
        let as_text = line.trim().strip_prefix("wrs-emulator ready on ").map(str::to_owned);
        let as_json = || Some(serde_json::from_str::<Value>(&line).ok()?["url"].as_str()?.to_owned());
        let url = as_text.or_else(as_json).unwrap_or_else(|| panic!("`{line}` is no ready line"));
        Self { child, url }
    }

    /// A client command against this emulator.
    pub(crate) fn call(&self, arguments: &[&str]) -> Output {
        wrs_emulator(arguments).env("WRS_EMULATOR_URL", &self.url).output().expect("the binary runs")
    }

    /// The document or the listing that a command prints.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.call(arguments);
        if let Some(listing) = listing(&text(&output.stdout)) {
            return listing;
        }
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
    }

    /// Ends it with SIGTERM; gives its exit code and what it logged.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
        let status = self.child.wait().expect("it ends");
        let mut log = String::new();
        self.child.stderr.as_mut().expect("a pipe").read_to_string(&mut log).expect("a log");
        (status.code(), log)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request by hand: the binary's tests need no client library.
pub(crate) fn request(url: &str, head: &str, body: &str) -> String {
    use std::io::Write as _;
    let address = url.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(address).expect("the emulator listens");
    let length = body.len();
    write!(stream, "{head}\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\nContent-Type: application/json\r\n\r\n{body}").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

pub(crate) const SUBSCRIBE: &str = "POST /v1/events/subscribe HTTP/1.1\r\nAuthorization: Bearer sk_test_local";

#[test]
fn from_start_to_first_webhook_and_stop() {
    let served = Served::start(&[]);
    assert_eq!(served.call(&["health"]).status.code(), Some(0));
    let nobody = served.call(&["trigger", "workflow.completed"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains("no subscription for key"), "{nobody:?}");
    let hook = r#"{"url":"https://app.sink.localhost/x","events":["workflow.completed"]}"#;
    assert!(request(&served.url, SUBSCRIBE, hook).starts_with("HTTP/1.1 200 "));
    let fired = served.call(&["trigger", "workflow.completed", "--data", "workflow_id=wf_7", "--wait"]);
    assert_eq!(fired.status.code(), Some(0), "{fired:?}");
    assert!(
        text(&fired.stdout).contains("fired at 1 subscription") && text(&fired.stdout).contains("answered 200"),
        "{fired:?}"
    );
    let wrong = served.call(&["trigger", "workflow.completed", "--data", "workflow=wf_7"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("did you mean `workflow_id`"), "{wrong:?}");
    let deliveries = served.json(&["deliveries", "list", "--json"]);
    assert_eq!(deliveries["data"][0]["status"], "delivered");
    let id = deliveries["data"][0]["id"].as_str().expect("an id");
    let shown = text(&served.call(&["deliveries", "show", id]).stdout);
    assert!(
        shown.contains("webhook-signature: v1,") && shown.contains("wf_7") && shown.contains("answered: 200"),
        "{shown}"
    );
    assert!(text(&served.call(&["deliveries", "redeliver", id]).stdout).contains("delivered"));
    let requests = served.json(&["requests", "list", "--json", "--status", "200"]);
    let id = requests["data"][0]["id"].as_str().expect("an id");
    let why = text(&served.call(&["explain", id]).stdout);
    assert!(why.contains("every check passed and sub_"), "{why}");
    let shown = text(&served.call(&["requests", "show", id]).stdout);
    assert!(
        shown.contains("POST /v1/events/subscribe")
            && shown.contains("Bearer sk_test_local")
            && !shown.contains("whsec_"),
        "{shown}"
    );
    let (code, log) = served.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("200 POST /v1/events/subscribe req_") && log.contains("attempt 1"), "{log}");
    assert!(!log.contains("whsec_"), "{log}");
}

#[test]
fn explain_prints_what_each_rule_makes_of_a_request() {
    let served = Served::start(&["--scenario", "rate-limit-burst"]);
    let status = "GET /v1/system/status HTTP/1.1\r\nAuthorization: Bearer sk_test_local";
    assert!(request(&served.url, status, "").starts_with("HTTP/1.1 200 "));
    let requests = served.json(&["requests", "list", "--json"]);
    let why = text(&served.call(&["explain", requests["data"][0]["id"].as_str().expect("an id")]).stdout);
    let rule = "  · rate-limit-burst, too many requests: lets 5 matching requests through first; this was number 2\n";
    assert!(why.contains("\nrules (") && why.ends_with(rule), "{why}");
}

#[test]
fn wrong_settings_are_told_before_a_port_in_use() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("an address").to_string();
    for (flag, value) in [("--webhook-ca", "missing.pem"), ("--scenario", "rate-limit-brust"), ("--tls", "a.pem:b.pem")]
    {
        let output = run(&["serve", "--listen", &address, flag, value]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flag}: {said}");
        let file = value.split(':').next().unwrap_or(value);
        assert!(said.contains(file) && !said.contains(&address), "{flag}: {said}");
    }
}

#[test]
fn an_empty_token_is_no_token_and_empty_variables_are_none() {
    let (child, line) = spawn(
        wrs_emulator(&["serve", "--listen", "0.0.0.0:0"])
            .env("WRS_EMULATOR_CONTROL_TOKEN", "")
            .env("WRS_EMULATOR_PROFILE", "")
            .env("WRS_EMULATOR_SCENARIO", "")
            .env("WRS_EMULATOR_QUIET", "1"),
    );
    let url = line.trim().strip_prefix("wrs-emulator ready on ").expect("a ready line").replace("0.0.0.0", "127.0.0.1");
    let served = Served { child, url };
    let refused = request(&served.url, "GET /_emulator/requests HTTP/1.1", "");
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    let (_, log) = served.stop();
    assert!(log.contains("control token: ctl_"), "{log}");
}

#[test]
fn a_taken_port_is_one_line_and_exit_2() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = run(&["serve", "--listen", &address]);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""));
    assert_eq!(said.lines().filter(|line| line.contains(&address)).count(), 1, "{said}");
    assert!(said.contains("--listen 127.0.0.1:9771") && said.contains("--url"), "{said}");
}

#[test]
fn settings_come_from_the_environment_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("url.txt");
    let (child, line) = spawn(
        wrs_emulator(&[])
            .env("WRS_EMULATOR_LISTEN", "127.0.0.1:0")
            .env("WRS_EMULATOR_PORT_FILE", &file)
            .env("WRS_EMULATOR_SET", "rate_limit.requests=7;errors.codes.not_found=missing")
            .env("WRS_EMULATOR_LOG", "json"),
    );
    let ready: Value = serde_json::from_str(&line).expect("one JSON object");
    let url = std::fs::read_to_string(&file).expect("the file is written before the ready line");
    assert_eq!((&ready["event"], ready["url"].as_str()), (&Value::from("ready"), Some(url.trim())));
    let mut served = Served { child, url: url.trim().to_owned() };
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
    let row = |profile: &str, knob: &str| {
        let mut command = wrs_emulator(&["assumptions", "--json", "--set", "rate_limit.window=5s"]);
        let output = command.current_dir(folder.path()).env("WRS_EMULATOR_PROFILE", profile).output().expect("it runs");
        let ledger = listing(&text(&output.stdout)).unwrap_or_else(|| panic!("{output:?}"));
        let rows = ledger["data"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["knob"] == knob).expect("the row");
        format!("{} from {}", row["value"], row["source"].as_str().expect("a source"))
    };
    for (profile, knob, expected) in [
        ("contract", "rate_limit.requests", "100 from default"),
        ("friendly", "rate_limit.retry_after", "\"seconds\" from preset friendly"),
        ("friendly", "rate_limit.window", "\"5s\" from --set"),
        ("hostile", "ids.style", "\"longest\" from preset hostile"),
        ("./friendly", "rate_limit.requests", "3 from ./friendly"),
        ("mine", "rate_limit.requests", "4 from mine"),
    ] {
        assert_eq!(row(profile, knob), expected, "{profile}");
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
    let distrusted = served.call(&["health"]);
    assert_eq!(distrusted.status.code(), Some(3));
    assert!(text(&distrusted.stderr).contains("--ca FILE"), "{distrusted:?}");
    assert_eq!(served.call(&["health", "--insecure"]).status.code(), Some(0));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    let fetched =
        Command::new("curl").args(["-sk", &format!("{}/_emulator/ca.pem", served.url), "-o"]).arg(&file).status();
    assert!(fetched.expect("curl runs").success());
    let trusted = served.call(&["health", "--ca", &file.display().to_string()]);
    assert_eq!(trusted.status.code(), Some(0), "{trusted:?}");
    let hello =
        Command::new("curl").arg("-s").arg("--cacert").arg(&file).arg(format!("{}/v1/hello", served.url)).output();
    assert!(text(&hello.expect("curl runs").stdout).contains("1.3.2"));
    let (code, log) = served.stop();
    assert_eq!(code, Some(0), "{log}");
}
