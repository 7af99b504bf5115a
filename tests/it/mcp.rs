//! `mcp`: the protocol by hand, line by line. `tests/mcp` uses the official clients.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::process::{NOWHERE, Served, Started, request};
use crate::support::{PATIENCE, assert_in_step, finish, piped, text, wrs_emulator};

/// A session with a running `mcp`.
struct Session {
    child: Started,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    asked: u64,
}

impl Session {
    fn at(url: &str) -> Self {
        let mut command = wrs_emulator(&["mcp", "--url", url]);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Started::new(piped);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, stdin, lines, asked: 0 }
    }

    fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("an open pipe");
        stdin.write_all(line.as_bytes()).and_then(|()| stdin.write_all(b"\n")).expect("it reads");
    }

    /// The next line, which must be JSON.
    fn read(&self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        let answer = self.read();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(id)), "{answer}");
        answer
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))["result"].clone()
    }

    /// The text of a call that must succeed.
    fn done(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], json!(false), "{tool} {arguments}: {result}");
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// The message of a call that must fail.
    fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], json!(true), "{tool} {arguments}: {result}");
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// Closes stdin and gives the exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().expect("it ends").code()
    }
}

/// The answers to these lines.
fn answers(url: &str, input: &[u8]) -> Vec<Value> {
    let output = piped(&mut wrs_emulator(&["mcp", "--url", url]), input).exits(0);
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_session_begins_with_a_handshake_in_a_revision_that_both_speak() {
    let mut session = Session::at(NOWHERE);
    for (requested, spoken) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("2999-01-01", "2025-11-25"),
    ] {
        let params =
            json!({"protocolVersion": requested, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let result = session.ask("initialize", &params)["result"].clone();
        assert_eq!(result["protocolVersion"], spoken);
        assert_eq!(result["capabilities"], json!({"tools": {}}));
        assert_eq!(result["serverInfo"]["name"], "wrs-emulator");
        assert!(result["instructions"].as_str().is_some_and(|text| text.contains("`sk_test_agent_")), "{result}");
    }
    session.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(session.ask("ping", &json!({}))["result"], json!({}), "the notification was not answered");
    assert_eq!(session.end(), Some(0));
}

/// What a request of the stateless revision carries.
fn envelope(revision: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[test]
fn a_request_without_a_handshake_names_its_revision() {
    let mut session = Session::at(NOWHERE);
    let meta = envelope("2026-07-28");
    let found = session.ask("server/discover", &json!({"_meta": meta}))["result"].clone();
    assert_eq!(found["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(found["capabilities"], json!({"tools": {}}));
    // A client may discover with another process than it uses.
    let instructions = found["instructions"].as_str().expect("a text");
    assert!(instructions.contains("`status`") && !instructions.contains("sk_test_agent_"), "{instructions}");
    let listed = session.ask("tools/list", &json!({"_meta": meta}))["result"].clone();
    let called = session.ask("tools/call", &json!({"_meta": meta, "name": "assumptions"}))["result"].clone();
    assert_eq!(called["isError"], json!(true), "no emulator runs: {called}");
    for result in [&found, &listed] {
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")), "{result}");
    }
    for result in [found, listed.clone(), called] {
        assert_eq!(result["resultType"], "complete", "{result}");
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "wrs-emulator", "{result}");
    }
    // The same tools as after a handshake, whose results have no such fields.
    let plain = session.ask("tools/list", &json!({"_meta": {"progressToken": 1}}))["result"].clone();
    assert_eq!(plain, json!({"tools": listed["tools"]}));
    assert_eq!(session.end(), Some(0));
}

#[test]
fn a_request_without_a_handshake_must_be_complete() {
    let mut session = Session::at(NOWHERE);
    let refused = session.ask("tools/list", &json!({"_meta": envelope("2025-06-18")}))["error"].clone();
    assert_eq!(refused["code"], json!(-32022), "{refused}");
    assert_eq!(refused["data"], json!({"supported": ["2026-07-28"], "requested": "2025-06-18"}));
    let mut without = envelope("2026-07-28");
    without.as_object_mut().expect("an object").remove("io.modelcontextprotocol/clientCapabilities");
    let no_text = json!({"io.modelcontextprotocol/protocolVersion": 5});
    for (method, params, code, part) in [
        ("server/discover", json!({}), -32602, "/protocolVersion`: expected a string"),
        ("server/discover", json!({"_meta": 5}), -32602, "/protocolVersion`: expected a string"),
        ("tools/list", json!({"_meta": no_text}), -32602, "/protocolVersion`: expected a string"),
        ("tools/list", json!({"_meta": without}), -32602, "/clientCapabilities`: expected an object"),
        ("server/discover", json!({"_meta": envelope("2027-01-01")}), -32022, "revision `2027-01-01`"),
        ("ping", json!({"_meta": envelope("2026-07-28")}), -32601, "unknown method `ping`"),
        ("subscriptions/listen", json!({"_meta": envelope("2026-07-28")}), -32601, "unknown method"),
        ("tools/call", json!({"_meta": envelope("2026-07-28"), "name": "x"}), -32602, "unknown tool `x`"),
    ] {
        let error = session.ask(method, &params)["error"].clone();
        assert_eq!(error["code"], json!(code), "{method} {params}: {error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(part)), "{method} {params}: {error}");
    }
    // A handshake begins a session, whatever its `_meta` has.
    let params = json!({"_meta": envelope("2026-07-28"), "protocolVersion": "2025-06-18"});
    assert_eq!(session.ask("initialize", &params)["result"]["protocolVersion"], "2025-06-18");
}

/// Hints name tools and their arguments, not commands and flags.
#[test]
fn hints_are_worded_for_an_agent() {
    let served = Served::start(&["--clock", "frozen"]);
    let mut session = Session::at(&served.url);
    let own = after(&session.done("status", &json!({})), "your key: ").to_owned();
    let event = json!({"type": "workflow.completed"});
    let message = session.refused("fire_event", &event);
    let hint = format!(
        "hint: `subscribe {{\"key\":\"{own}\",\"url\":\"https://app.sink.localhost/hooks\"}}`, or `wrs-emulator listen "
    );
    assert!(message.contains(&hint), "{message}");
    session.done("subscribe", &json!({"url": "https://app.sink.localhost/x"}));
    session.done("fire_event", &json!({"type": "workflow.completed", "count": 2}));
    let page = session.done("find_deliveries", &json!({"limit": 1}));
    let cursor = after(&page, "\n… more: cursor ");
    let next = session.done("find_deliveries", &json!({"cursor": cursor}));
    assert!(next.contains("dlv_") && !next.contains("more"), "{next}");
    let findings = session.done("review_findings", &json!({}));
    assert!(
        findings.contains(": `fire_event {\"type\":\"workflow.completed\",\"tamper\":\"signature\"}`\n"),
        "{findings}"
    );

    // The advice about a failure can be followed as it is.
    session.done("subscribe", &json!({"url": "https://nowhere.example.com/x"}));
    let fired = session.done("fire_event", &event);
    assert!(fired.contains("`wrs-emulator forwards add "), "a command for people stays: {fired}");
    let explained = session.done("explain", &json!({}));
    let advice = explained.lines().find_map(|line| line.trim().strip_prefix("advance_clock ")).expect("a call");
    let arguments: Value = serde_json::from_str(advice).expect("arguments");
    assert_eq!(arguments["key"], json!(own));
    session.done("advance_clock", &arguments);

    // What was sent over the wire is shown as it was.
    let agent = "wrs-emulator explain latest --key KEY";
    let head = format!("GET /v1/system/status HTTP/1.1\r\nAuthorization: Bearer {own}\r\nUser-Agent: {agent}");
    request(&served.url, &head, "");
    let explained = session.done("explain", &json!({}));
    assert!(explained.contains(&format!("\nuser-agent: {agent}\n")), "{explained}");
    assert_eq!(explained.matches("wrs-emulator").count(), 1, "{explained}");
}

/// Also without an emulator; and briefly, because each agent reads it.
#[test]
fn thirteen_tools_are_listed_with_schemas_and_hints() {
    let mut session = Session::at(NOWHERE);
    let tools = session.ask("tools/list", &json!({}))["result"]["tools"].clone();
    assert!(tools.to_string().len() <= 12 * 1024, "{}", tools.to_string().len());
    let tools = tools.as_array().expect("a list");
    let lines: String = tools.iter().map(|tool| format!("{tool}\n")).collect();
    assert_in_step("tests/it/tools.jsonl", &lines);
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect();
    let expected = "status find_requests find_deliveries explain check_scenario play_scenario subscribe fire_event advance_clock \
                    verification review_findings assumptions reset";
    assert_eq!(names.join(" "), expected);
    for (name, expected) in [
        ("explain", [true, false, true]),
        ("subscribe", [false, false, false]),
        ("fire_event", [false, false, false]),
        ("play_scenario", [false, false, true]),
        ("reset", [false, true, false]),
    ] {
        let tool = &tools[names.iter().position(|known| *known == name).expect("a tool")]["annotations"];
        let hints = ["readOnlyHint", "destructiveHint", "idempotentHint"].map(|hint| tool[hint] == json!(true));
        assert_eq!(hints, expected, "{name}");
    }
    for tool in tools {
        assert_eq!(tool["annotations"]["openWorldHint"], json!(false), "{tool}");
        assert!(tool["description"].as_str().is_some_and(|text| text.len() > 40), "{tool}");
        let schema = &tool["inputSchema"];
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
        for (name, argument) in schema["properties"].as_object().expect("properties") {
            assert!(argument["description"].is_string() && argument["type"].is_string(), "{name}: {argument}");
        }
    }
}

/// The word that follows a name in a text.
fn after<'t>(text: &'t str, name: &str) -> &'t str {
    let rest = text.split(name).nth(1).unwrap_or_else(|| panic!("no `{name}` in {text}"));
    rest.split_whitespace().next().expect("a word")
}

#[test]
fn each_tool_answers_its_question() {
    let served = Served::start(&["--clock", "frozen"]);
    let mut session = Session::at(&served.url);
    let status = session.done("status", &json!({}));
    let key = after(&status, "your key: ").to_owned();
    assert!(key.starts_with("sk_test_agent_"), "{status}");
    assert!(status.contains("ready (version ") && status.contains(" (frozen)\n"), "{status}");
    assert!(status.contains("rate-limit-burst"), "{status}");

    // The program under test uses the session's key.
    let ours = format!("Authorization: Bearer {key}");
    let hook = json!({"url": "https://app.sink.localhost/x", "events": ["workflow.completed"]});
    let subscribed = session.done("subscribe", &hook);
    assert!(subscribed.contains(" created: ") && subscribed.contains("\nsecret: whsec_"), "{subscribed}");
    assert!(session.done("subscribe", &hook).contains(" updated: "));
    let listed = served.json(&["subscriptions", "list", "--json"]);
    assert_eq!(listed["data"][0]["key"], json!(key), "{listed}");
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(1), "{listed}");
    let hello = format!("GET /v1/system/status HTTP/1.1\r\n{ours}");
    assert!(request(&served.url, &hello, "").starts_with("HTTP/1.1 200 "));
    assert!(request(&served.url, "GET /v1/helo HTTP/1.1", "").starts_with("HTTP/1.1 404 "));

    let found = session.done("find_requests", &json!({"operation": "system.status", "limit": 5, "key": key}));
    assert_eq!(found.matches("req_").count(), 1, "{found}");
    let id = found.split_whitespace().find(|word| word.starts_with("req_")).expect("an id");
    let explained = session.done("explain", &json!({"id": id}));
    assert!(explained.starts_with(id) && explained.contains("\nGET /v1/system/status\n"), "{explained}");
    let newest = session.done("explain", &json!({}));
    assert!(newest.contains("\nGET /v1/helo\n"), "{newest}");

    let fired = session.done("fire_event", &json!({"type": "workflow.completed", "set": {"workflow_id": "wf_1"}}));
    assert!(fired.contains(" delivered "), "{fired}");
    let found = session.done("find_deliveries", &json!({"status": "delivered"}));
    let delivery = fired.split_whitespace().find(|word| word.starts_with("dlv_")).expect("an id");
    assert!(found.contains(delivery), "{found}");
    let explained = session.done("explain", &json!({"id": delivery}));
    assert!(explained.contains("attempt 1") && explained.contains("\nsigned: "), "{explained}");

    let toml = "rule = [{ times = 1, reply = { error = \"rate_limit_exceeded\" } }]\n";
    assert_eq!(session.done("check_scenario", &json!({"toml": toml})), "0 errors, 0 warnings\n");
    let checked = session.done("check_scenario", &json!({"toml": "rule = [{ tims = 1 }]"}));
    assert!(checked.contains(":1:") && checked.contains("1 error"), "{checked}");
    let playing = session.done("play_scenario", &json!({"active": ["slow-responses"], "toml": toml}));
    assert!(playing.starts_with(&format!("active for {key}: slow-responses, agent-")), "{playing}");
    let playing = session.done("play_scenario", &json!({"toml": toml}));
    assert!(playing.starts_with(&format!("active for {key}: agent-")), "{playing}");
    assert!(request(&served.url, &hello, "").starts_with("HTTP/1.1 429 "));

    let before = after(&status, "its clock: ");
    let clock = session.done("advance_clock", &json!({"advance": "1h"}));
    assert!(clock.contains(&key) && clock.split(' ').next() > Some(before), "{clock}");
    assert!(session.done("status", &json!({})).contains(before), "the emulator's own stays");

    let problems = session.done("verification", &json!({}));
    assert!(problems.contains("✗ unmatched: 1\n"), "{problems}");
    let findings = session.done("review_findings", &json!({"key": "*"}));
    assert!(findings.contains("wrong-path") && findings.contains("\nnot exercised, so unproven:\n"), "{findings}");
    let assumed = session.done("assumptions", &json!({"about": "rate_limit.requests"}));
    assert_eq!(assumed.matches("contract:").count(), 1, "{assumed}");

    assert_eq!(session.done("reset", &json!({})), format!("{key} reset\n"));
    let left = served.json(&["scenarios", "--json"]);
    assert!(left["data"].as_array().is_some_and(|rows| rows.iter().all(|row| row["origin"] != "inline")), "{left}");
    assert_eq!(session.end(), Some(0));
}

/// An agent cannot affect anyone else's key.
#[test]
fn only_keys_of_the_session_are_reset_and_never_all() {
    let served = Served::start(&["--clock", "frozen"]);
    served.subscribe("https://app.sink.localhost/x");
    let mut session = Session::at(&served.url);
    let own = after(&session.done("status", &json!({})), "your key: ").to_owned();
    let other = format!("{own}x");
    for key in ["sk_test_local", "sk_test_agent_", &other, "ws_1", ""] {
        let message = session.refused("reset", &json!({"key": key}));
        assert!(message.contains("was not made by this session") && message.contains(&own), "{key}: {message}");
    }
    for (tool, mut arguments) in [
        ("reset", json!({})),
        ("play_scenario", json!({"active": []})),
        ("subscribe", json!({"url": "https://app.sink.localhost/x"})),
        ("fire_event", json!({"type": "workflow.completed"})),
        ("advance_clock", json!({"advance": "1h"})),
    ] {
        arguments["key"] = json!("*");
        let message = session.refused(tool, &arguments);
        assert!(message.contains("never all of them"), "{tool}: {message}");
    }
    // A named key is changed, and its other state stays.
    let fired = session.done("fire_event", &json!({"type": "workflow.completed", "key": "sk_test_local"}));
    assert!(fired.contains(" delivered "), "{fired}");
    assert_eq!(session.done("reset", &json!({"key": format!("{own}_second")})), format!("{own}_second reset\n"));
}

#[test]
fn a_tool_says_what_is_wrong_and_what_to_do() {
    let mut session = Session::at(NOWHERE);
    for tool in ["status", "find_requests", "explain", "fire_event", "reset"] {
        let message = session.refused(tool, &json!({}));
        assert!(message.contains("cannot reach the emulator at http://127.0.0.1:1"), "{message}");
        assert!(message.contains("start it with `wrs-emulator --listen 127.0.0.1:1`"), "{message}");
    }
    assert_eq!(
        session.done("check_scenario", &json!({"toml": "rule = [{ reply = { status = 503 } }]"})),
        "0 errors, 0 warnings\n",
        "it needs none"
    );
    let served = Served::start(&["--clock", "frozen", "--control-token", "let-me-in"]);
    let message = Session::at(&served.url).refused("status", &json!({}));
    assert!(message.contains("token"), "{message}");
    let served = Served::start(&["--clock", "frozen"]);
    let mut session = Session::at(&served.url);
    for (tool, arguments, part) in [
        (
            "find_requests",
            json!({"limt": 5}),
            "find_requests has no argument `limt`\nhint: it has `operation`, `status`, ",
        ),
        ("find_requests", json!({"limit": "many"}), "limit: expected a value of type integer, found \"many\""),
        ("find_requests", json!({"status": [404]}), "status: expected a value of type integer"),
        ("find_requests", json!({"status": 99}), "status"),
        ("find_requests", json!({"key": 5}), "key: expected a value of type string, found 5"),
        ("explain", json!({"id": {}}), "id: expected a value of type string"),
        ("explain", json!({"id": "req_unknown"}), "req_unknown"),
        ("status", json!({"key": "sk_test_a"}), "call it without arguments"),
        ("check_scenario", json!({}), "check_scenario needs the argument `toml`"),
        ("play_scenario", json!({}), "expected `active`"),
        ("play_scenario", json!({"active": ["slow-response"]}), "slow-responses"),
        ("play_scenario", json!({"toml": "rule = 5"}), "check_scenario lists every problem"),
        ("play_scenario", json!({"active": 5}), "active: expected a value of type array"),
        ("fire_event", json!({"type": "workflow.completed", "wait": "2m"}), "wait: expected at most 50 s"),
        ("subscribe", json!({}), "subscribe needs the argument `url`"),
        ("subscribe", json!({"url": "ftp://x"}), "url: must be an absolute https URL"),
        (
            "subscribe",
            json!({"url": "https://a.sink.localhost", "events": "x"}),
            "events: expected a value of type array",
        ),
        ("fire_event", json!({"type": 7}), "type: expected a value of type string"),
        ("fire_event", json!({"type": "workflow.completed"}), "no subscription"),
        ("advance_clock", json!({}), "expected `mode`"),
        ("advance_clock", json!({"advance": "soon"}), "advance"),
    ] {
        let message = session.refused(tool, &arguments);
        assert!(message.contains(part), "{tool} {arguments}: {message}");
    }
    let assumed = session.call("assumptions", &json!({"about": "sk_live_abcdefgh1234"})).to_string();
    assert!(assumed.contains("no setting's name contains `sk_live_…1234`"), "{assumed}");
    // Arguments may be left out, or null.
    let answer = session.ask("tools/call", &json!({"name": "status"}));
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    assert_eq!(
        session.ask("tools/call", &json!({"name": "reset", "arguments": null}))["result"]["isError"],
        json!(false)
    );
}

#[test]
fn malformed_messages_are_refused_and_the_session_continues() {
    for (line, code) in [
        ("{", -32700),
        ("\u{0}", -32700),
        ("5", -32600),
        ("[]", -32600),
        // The newest revision of the protocol has no batches.
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stats"}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"status","arguments":[]}}"#, -32602),
    ] {
        let found = answers(
            NOWHERE,
            format!("{line}\n{{\"jsonrpc\":\"2.0\",\"id\":\"last\",\"method\":\"tools/list\"}}").as_bytes(),
        );
        let shown: String = line.chars().take(80).collect();
        assert_eq!(found.len(), 2, "{shown}: {found:?}");
        assert_eq!(found[0]["error"]["code"], json!(code), "{shown}: {}", found[0]);
        assert!(found[1]["result"]["tools"].is_array(), "{shown}: the next is answered, without an end of its line");
    }
    let method = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}", "x".repeat(5000));
    let refused = answers(NOWHERE, method.as_bytes());
    assert!(refused[0].to_string().len() < 200, "a long name is not repeated: {}", refused[0]);
    assert_eq!(answers(NOWHERE, b"\xff\n")[0]["error"]["code"], json!(-32700));
    let quiet = "\n  \n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/other\"}\n{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n";
    assert!(answers(NOWHERE, quiet.as_bytes()).is_empty(), "these are not answered");
    assert!(answers(NOWHERE, b"").is_empty());
    let near =
        answers(NOWHERE, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"stats\"}}");
    assert_eq!(near[0]["error"]["message"], "unknown tool `stats`; did you mean `status`?");
}

/// A line is read up to a bound, however long it is, and the next one is read from its beginning.
#[test]
fn a_line_of_any_length_is_one_refusal() {
    let ping = r#"{"jsonrpc":"2.0","id":"last","method":"ping"}"#;
    for length in [1024 * 1024, 5_000_000] {
        let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}\n{ping}\n", "x".repeat(length));
        let found = answers(NOWHERE, long.as_bytes());
        assert_eq!(found.len(), 2, "{length}: {found:?}");
        let refused = json!({ "code": -32600, "message": "a message has less than 1 MiB" });
        assert_eq!((&found[0]["error"], &found[0]["id"]), (&refused, &Value::Null));
        assert_eq!((&found[1]["id"], &found[1]["result"]), (&json!("last"), &json!({})));
    }
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}\n", "x".repeat(1_000_000));
    assert_eq!(answers(NOWHERE, long.as_bytes())[0]["error"]["code"], json!(-32601), "a shorter one is read");
}

/// What an agent names is masked by the prefixes of the emulator, also where no emulator sees it.
#[test]
fn what_an_agent_named_is_masked_as_the_emulator_masks() {
    const OTHER: &str = "pk-abcdefghijklmnop";
    let served = Served::start(&[
        "--quiet",
        "--set",
        "keys.live_prefix=pk-",
        "--set",
        "keys.test_prefix=tk-",
        "--set",
        "keys.mode=any",
    ]);
    for (tool, arguments) in [
        ("reset", json!({ "key": OTHER })),
        ("check_scenario", json!({ "toml": format!("title = '{OTHER}'\nx = 1 # {OTHER}\n{OTHER}") })),
        ("assumptions", json!({ "about": OTHER })),
        ("explain", json!({ "id": OTHER })),
    ] {
        let mut session = Session::at(&served.url);
        let said = session.call(tool, &arguments).to_string();
        assert!(said.contains("pk-…mnop") && !said.contains(OTHER), "{tool}: {said}");
    }
}

/// A tool that waits holds up neither a ping nor a cancellation, and loses nothing.
#[test]
fn a_slow_call_loses_no_other() {
    // Nothing ever answers here.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let mut session = Session::at(&url);
    let call = |id: u64| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"status"}}}}"#);
    session.write(&call(1));
    let (connection, _) = silent.accept().expect("the tool calls");
    session.write(&call(2));
    session.write(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#);
    for id in [1, 2, 99] {
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        session.write(&cancelled.to_string());
    }
    session.write(r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#);
    assert_eq!(session.read()["id"], json!(4), "a ping is answered while a tool waits");
    drop(connection);
    assert_eq!(session.read()["id"], json!(3), "a cancelled call is not answered, running or waiting");
    assert_eq!(session.end(), Some(0));
}

/// Answers are bounded, and say so.
#[test]
fn a_long_answer_is_shortened_and_says_so() {
    let served = Served::start(&["--clock", "frozen"]);
    let long = format!("GET /v1/{} HTTP/1.1", "x".repeat(500));
    for _ in 0..200 {
        request(&served.url, &long, "");
    }
    let mut session = Session::at(&served.url);
    let result = session.call("find_requests", &json!({"limit": 1000}));
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert!(
        text.len() < 33_000 && text.ends_with(" bytes more; ask for less: one key, one id, a limit"),
        "{}",
        text.len()
    );
}

/// Nothing but the protocol goes to stdout; where it runs is logged.
#[test]
fn messages_for_people_go_to_stderr() {
    let output = piped(&mut wrs_emulator(&["mcp", "--url", NOWHERE]), b"");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), ""));
    assert!(text(&output.stderr).contains("tools for the emulator at http://127.0.0.1:1"), "{output:?}");
}

/// The page has a row for each tool, and the registration that it shows starts a session.
#[test]
fn the_page_is_in_step_with_the_tools() {
    let path = "docs/agents.md";
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("the page");
    let mut session = Session::at(NOWHERE);
    let tools = session.ask("tools/list", &json!({}))["result"]["tools"].clone();
    let mut table = "| tool | question or step | changes |\n| --- | --- | --- |\n".to_owned();
    for tool in tools.as_array().expect("a list") {
        let hints = &tool["annotations"];
        let changes = match (hints["readOnlyHint"].as_bool(), hints["destructiveHint"].as_bool()) {
            (Some(true), _) => "nothing",
            (_, Some(true)) => "one key, for good",
            _ => "one key",
        };
        let (name, title) = (tool["name"].as_str().expect("a name"), tool["title"].as_str().expect("a title"));
        table += &format!("| `{name}` | {title} | {changes} |\n");
    }
    let (begin, end) = ("<!-- tests/it/mcp.rs writes from here … -->\n", "<!-- … to here -->\n");
    let (before, rest) = page.split_once(begin).expect("where the table begins");
    let (_, after) = rest.split_once(end).expect("where it ends");
    let made = format!("{before}{begin}\n{table}\n{end}{after}");
    assert_in_step(path, &made);
    let snippet = made.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a registration");
    let snippet: Value = serde_json::from_str(snippet).expect("JSON");
    let server = &snippet["mcpServers"]["wrs-emulator"];
    assert_eq!(server["command"], "wrs-emulator");
    let arguments: Vec<&str> = server["args"].as_array().expect("arguments").iter().filter_map(Value::as_str).collect();
    finish(&mut wrs_emulator(&arguments)).exits(0);
}
