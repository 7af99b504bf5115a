//! What is measured: a request each, with the scenario and settings that it meets.

use std::io;
use std::path::Path;

use crate::bare;
use crate::client::{self, Answer, CONNECTIONS};
use crate::counted::Counted;
use crate::report::Figure;

/// Requests of the short and of the long run. Those sent before them fill whatever is filled only once.
const SHORT: usize = 100 * CONNECTIONS;
const LONG: usize = 400 * CONNECTIONS;
/// Entries in the journal: fewer than the short run adds, so that each request drops an old one, as on a server that has run for
/// a while, and both runs leave as many to drop at the end.
const JOURNAL: usize = 1_000;
/// Keys that take turns: as many as the emulator keeps workspaces.
const KEYS: usize = 10_000;

/// One kind of request.
pub(crate) struct Case {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// The request with this number.
    request: fn(usize) -> String,
    /// The status of every answer.
    status: u16,
    /// Settings besides the quota, which refuses nothing unless the case measures refusals.
    settings: &'static [&'static str],
    /// The active scenario.
    scenario: String,
    /// Requests before the short run begins.
    before: usize,
    /// Requests of the long run: many where the start or the requests before are expensive, as their cost varies from run to run.
    long: usize,
    /// The most instructions that one request should take.
    goal: Option<f64>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            name: "status",
            request: |_| get("/v1/system/status", Some("sk_test_local")),
            status: 200,
            settings: &["rate_limit.requests=4294967295"],
            scenario: String::new(),
            before: 0,
            long: LONG,
            goal: None,
        }
    }
}

/// All cases, in the order of the table.
pub(crate) fn all() -> Vec<Case> {
    let rule = |then: &str| format!("[[rule]]\nwhen = {{ operation = \"system.status\" }}\n{then}\n");
    vec![
        Case { goal: Some(14_000.0), ..Case::default() },
        Case {
            name: "status with checks",
            request: |_| get("/v1/system/status?include_checks=true", Some("sk_test_local")),
            ..Case::default()
        },
        Case { name: "subscribe", request: subscribe, ..Case::default() },
        Case { name: "401", request: |_| get("/v1/system/status", None), status: 401, ..Case::default() },
        Case { name: "404", request: |_| get("/v1/nothing", Some("sk_test_local")), status: 404, ..Case::default() },
        Case {
            name: "429",
            status: 429,
            settings: &["rate_limit.requests=1", "rate_limit.window=24h"],
            // The first request is the one that is allowed.
            before: 1,
            ..Case::default()
        },
        Case {
            name: "reply rule",
            scenario: rule("reply = { status = 200, body = { status = \"degraded\" } }"),
            goal: Some(17_000.0),
            ..Case::default()
        },
        Case {
            name: "patch rule",
            scenario: rule("patch = { status = \"degraded\" }"),
            goal: Some(20_000.0),
            ..Case::default()
        },
        Case {
            name: "one rule by query",
            request: |_| get("/v1/system/status?n=9999", Some("sk_test_local")),
            scenario: "[[rule]]\nwhen = { operation = \"system.status\", query.n = \"9999\" }\npass = true\n"
                .to_owned(),
            ..Case::default()
        },
        Case {
            name: "10,000 keys in turn",
            request: |number| get("/v1/system/status", Some(&format!("sk_test_key_{}", number % KEYS))),
            before: KEYS,
            long: 10 * LONG,
            ..Case::default()
        },
    ]
}

impl Case {
    /// Instructions for a request of the emulator and of the bare server.
    pub(crate) fn measure(&self) -> io::Result<Figure> {
        let (short, _) = self.emulator(SHORT)?;
        let (long, answer) = self.emulator(self.long)?;
        let (bare_short, bare_long) = (self.bare(&answer, SHORT)?, self.bare(&answer, LONG)?);
        let each = |short: u64, long: u64, count: usize| per(long.saturating_sub(short), count - SHORT);
        Ok(Figure {
            name: self.name,
            emulator: each(short, long, self.long),
            bare: each(bare_short, bare_long, LONG),
            goal: self.goal,
            goal_times_bare: None,
        })
    }

    fn emulator(&self, count: usize) -> io::Result<(u64, Answer)> {
        let program = Path::new(env!("CARGO_BIN_EXE_wrs-emulator"));
        let mut arguments = vec!["serve", "--quiet", "--listen", "127.0.0.1:0", "--port-file", "url", "--seed", "1"];
        let journal = JOURNAL.to_string();
        arguments.extend(["--max-journal-entries", &journal]);
        arguments.extend(self.settings.iter().flat_map(|setting| ["--set", setting]));
        let files = [("scenarios/case.toml", self.scenario.as_str())];
        let files = if self.scenario.is_empty() { &files[..0] } else { &files[..] };
        if !files.is_empty() {
            arguments.extend(["--scenarios", "scenarios", "--scenario", "case"]);
        }
        let mut server = Counted::start(program, &arguments, files)?;
        let port = server.port()?;
        let before = self.before.next_multiple_of(CONNECTIONS);
        if self.status == 429 {
            client::ask(port, &(self.request)(0))?;
        } else if before > 0 {
            client::send(port, before, self.status, self.request)?;
        }
        let answer = client::send(port, count, self.status, self.request)?;
        Ok((server.stop()?, answer))
    }

    fn bare(&self, answer: &Answer, count: usize) -> io::Result<u64> {
        let arguments = [bare::FLAG.to_owned(), "url".to_owned(), bare::text(answer)];
        let mut server = Counted::start(&std::env::current_exe()?, &arguments, &[])?;
        client::send(server.port()?, count, self.status, self.request)?;
        server.stop()
    }
}

/// Instructions for each of so many.
#[allow(clippy::cast_precision_loss, reason = "both are far below 2⁵³")]
pub(crate) fn per(instructions: u64, count: usize) -> f64 {
    instructions as f64 / count as f64
}

fn get(path: &str, key: Option<&str>) -> String {
    let key = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
    format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: bench/1\r\naccept: application/json\r\n{key}\r\n")
}

/// A POST with a JSON body.
pub(crate) fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: bench/1\r\nauthorization: Bearer sk_test_local\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Subscribes one more URL.
pub(crate) fn subscribe(number: usize) -> String {
    let body = format!(r#"{{"url":"https://app.example.com/{number}","events":["workflow.completed"]}}"#);
    post("/v1/events/subscribe", &body)
}
