//! `run save|view|schema` on the real binary: what is written, what is refused, and the page over a saved file.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::process::{SUBSCRIBE, Served, eventually, exchange, request};
use crate::support::{KEY, Outcome, finish, run, sized, text, with_default_signals, wrs_emulator};

/// An emulator in which something happened.
fn served() -> Served {
    let served = Served::start(&[]);
    request(&served.url, SUBSCRIBE, r#"{"url":"https://app.sink.localhost/hooks","events":["workflow.completed"]}"#);
    request(&served.url, "GET /v1/nowhere HTTP/1.1\r\nAuthorization: Bearer sk_test_b", "");
    served
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

fn said(output: &Outcome) -> String {
    text(&output.stderr)
}

/// The data of a report.
pub(crate) fn data_of(page: &str) -> Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"run\">").expect("the data");
    let (json, _) = rest.split_once("</script>").expect("its end");
    serde_json::from_str(json).expect("JSON")
}

fn ids(document: &Value) -> Vec<&Value> {
    document["requests"].as_array().expect("requests").iter().map(|row| &row["id"]).collect()
}

#[test]
fn a_run_is_saved_as_json_as_a_page_and_on_stdout_and_fits_its_schema() {
    let served = served();
    let folder = tempfile::tempdir().expect("a folder");
    let (file, page) = (path(&folder, "run.json"), path(&folder, "report.HTML"));
    let output = served.call(&["run", "save", &file]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "2 requests and 0 deliveries saved\n"));
    let whole: Value = serde_json::from_slice(&fs::read(&file).expect("the file")).expect("JSON");
    assert_eq!((ids(&whole).len(), &whole["key"]), (2, &Value::Null));
    assert_eq!(whole["findings"]["data"][0]["code"], "wrong-path");

    let schema: Value = serde_json::from_slice(&run(&["run", "schema"]).stdout).expect("a schema");
    let validator =
        jsonschema::draft202012::options().should_validate_formats(true).build(&schema).expect("a valid schema");
    let errors: Vec<String> = validator.iter_errors(&whole).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let mut other = whole.clone();
    other["requests"][0]["status"] = json!("200");
    assert!(!validator.is_valid(&other), "the schema describes the records");

    assert_eq!(served.call(&["run", "save", &page]).status.code(), Some(0));
    let text_of_page = fs::read_to_string(&page).expect("the file");
    assert!(text_of_page.starts_with("<!doctype html>"), "{text_of_page}");
    assert_eq!(ids(&data_of(&text_of_page)), ids(&whole));
    let piped = served.call(&["run", "save", "-", "--key", "sk_test_b"]);
    let of_key: Value = serde_json::from_slice(&piped.stdout).expect("JSON");
    assert_eq!((of_key["requests"].as_array().map(Vec::len), &of_key["key"]), (Some(1), &json!("sk_test_b")));
    // The key in the environment is that of the client under test.
    let all = finish(
        wrs_emulator(&["run", "save", "-"])
            .envs([("WRS_EMULATOR_URL", served.url.as_str()), ("WRS_API_KEY", "sk_test_b")]),
    );
    assert_eq!(ids(&serde_json::from_slice(&all.stdout).expect("JSON")).len(), 2);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "nothing is left next to the files");
}

#[test]
fn a_file_that_cannot_be_written_is_reported_and_an_older_one_stays() {
    let served = served();
    let folder = tempfile::tempdir().expect("a folder");
    let missing = path(&folder, "none/run.json");
    let output = served.call(&["run", "save", &missing]).exits(2);
    assert!(
        said(&output).contains(&format!("cannot write `{missing}`")) && said(&output).contains("mkdir -p"),
        "{output:?}"
    );
    let output = served.call(&["run", "save", &folder.path().display().to_string()]);
    assert!(output.status.code() == Some(2) && said(&output).contains("it is not a regular file"), "{output:?}");
    let old = path(&folder, "old.json");
    fs::write(&old, "old").expect("it is written");
    let output = finish(&mut wrs_emulator(&["run", "save", &old, "--url", "http://127.0.0.1:1"]));
    assert_eq!((output.status.code(), fs::read_to_string(&old).expect("the file").as_str()), (Some(3), "old"));
    assert_eq!(served.call(&["run", "save", &old]).status.code(), Some(0));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

/// At a terminal, which `script` makes, with a browser that writes down what it is to open.
#[cfg(target_os = "linux")]
#[test]
fn a_saved_run_opens_the_browser_for_somebody_at_a_terminal() {
    let served = served();
    let folder = tempfile::tempdir().expect("a folder");
    let (file, opened) = (path(&folder, "run.json"), path(&folder, "opened"));
    assert_eq!(served.call(&["run", "save", &file]).status.code(), Some(0));
    let browser = folder.path().join("xdg-open");
    fs::write(&browser, format!("#!/bin/sh\necho \"$@\" >'{opened}.new'; mv '{opened}.new' '{opened}'\n"))
        .expect("it is written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&browser, mode).expect("it can be run");
    let search = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a path"));
    for (variable, flag, opens) in [("NONE", "", true), ("CI", "", false), ("NONE", " --no-open", false)] {
        let line = format!("exec '{}' run view '{file}'{flag}", env!("CARGO_BIN_EXE_wrs-emulator"));
        // The hang-up of its terminal ends what it runs, unless that ignores it.
        let mut command = with_default_signals("script");
        command.args(["-qec", &line, "/dev/null"]).stdin(std::process::Stdio::null());
        command.env_remove("CI").envs([("PATH", search.as_str()), ("DISPLAY", ":0"), (variable, "true")]);
        let view = Served::spawn(&mut command);
        let page = exchange(
            view.address(),
            format!("GET /_emulator/ HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", view.address()),
        );
        assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
        if opens {
            eventually("the browser is opened", || Path::new(&opened).exists());
            assert_eq!(fs::read_to_string(&opened).expect("the file").trim(), view.url);
            fs::remove_file(&opened).expect("it can be removed");
        }
        drop(view);
        assert!(!Path::new(&opened).exists(), "{variable}{flag}");
    }
}

fn view(arguments: &[&str]) -> Served {
    Served::spawn(&mut wrs_emulator(&[&["run", "view"], arguments].concat()))
}

#[test]
fn a_saved_run_is_shown_from_either_file_and_read_only() {
    let served = served();
    let folder = tempfile::tempdir().expect("a folder");
    for (name, signal) in [("run.json", "INT"), ("report.html", "TERM")] {
        let file = path(&folder, name);
        assert_eq!(served.call(&["run", "save", &file]).status.code(), Some(0));
        let view = view(&[&file]);
        let get = |head: &str| {
            exchange(view.address(), format!("{head}\r\nHost: {}\r\nConnection: close\r\n\r\n", view.address()))
        };
        assert_eq!(view.ready, format!("{file} is shown at {} until Ctrl-C\n", view.url));
        let page = get("GET /_emulator/ HTTP/1.1");
        assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<!doctype html>"), "{page}");
        assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
        let answer = get("GET /_emulator/run?limit=200 HTTP/1.1");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("content-type: application/json"), "{head}");
        let document: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!((&document["viewing"], ids(&document).len()), (&json!(name), 2));
        for (line, status) in [
            ("GET / HTTP/1.1\r\nAccept: text/html", "302"),
            ("GET /_emulator HTTP/1.1", "302"),
            ("GET /_emulator/app.js HTTP/1.1", "200"),
            ("HEAD /_emulator/run HTTP/1.1", "200"),
            ("POST /_emulator/run HTTP/1.1", "405"),
            ("POST /_emulator/reset HTTP/1.1", "404"),
            ("GET /_emulator/health HTTP/1.1", "404"),
            ("GET /v1/hello HTTP/1.1", "404"),
            ("GET /_emulator/run HTTP/1.1\r\nSec-Fetch-Site: cross-site", "400"),
            ("GET /_emulator/run HTTP/1.1\r\nOrigin: http://evil.example", "400"),
        ] {
            let answer = get(line);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {answer}");
        }
        view.signal(signal);
        assert_eq!(view.end().0, Some(0), "{signal}");
    }
    let view = view(&[&path(&folder, "run.json"), "--json"]);
    let ready: Value = serde_json::from_str(&view.ready).expect("JSON");
    assert_eq!(ready, json!({ "event": "ready", "url": view.url }));
    // A page of another name that leads to this address gets nothing.
    let foreign = "GET /_emulator/run HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    let answer = exchange(view.address(), foreign);
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
}

/// Beyond loopback a saved run is for those who have the token, as a running emulator is.
#[test]
fn beyond_loopback_a_saved_run_needs_the_token() {
    let served = served();
    let folder = tempfile::tempdir().expect("a folder");
    let file = path(&folder, "run.json");
    assert_eq!(served.call(&["run", "save", &file]).status.code(), Some(0));
    let get = |view: &Served, path: &str, token: &str| {
        let head = format!("GET /_emulator/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close");
        exchange(view.address(), format!("{head}\r\nAuthorization: Bearer {token}\r\n\r\n"))[9..12].to_owned()
    };
    let open = view(&[&file, "--listen", "0.0.0.0:0", "--control-token", "own"]);
    for (path, token, status) in [("run", "other", "401"), ("run", "own", "200"), ("", "other", "200")] {
        assert_eq!(get(&open, path, token), status, "{path} {token}");
    }
    drop(open);
    let generated = view(&[&file, "--listen", "0.0.0.0:0"]);
    assert_eq!(get(&generated, "run", "own"), "401");
    generated.signal("TERM");
    let (_, _, said) = generated.end();
    assert!(said.starts_with("control token: ctl_"), "{said}");
}

/// The places of all texts of a document, of each kind one, and what is put there in turn.
fn places(value: &Value, place: &str, found: &mut std::collections::BTreeMap<String, String>) {
    match value {
        Value::String(_) => {
            let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
            let kind: Vec<&str> = place.split('/').map(|part| if digits(part) { "" } else { part }).collect();
            found.entry(kind.join("/")).or_insert_with(|| place.to_owned());
        }
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(at, value)| places(value, &format!("{place}/{at}"), found));
        }
        Value::Object(fields) => {
            let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
            fields.iter().for_each(|(name, value)| places(value, &format!("{place}/{}", escaped(name)), found));
        }
        _ => {}
    }
}

/// GitHub executes a line that begins with `::name`, and `##[name]` anywhere. A run document may have been edited, or made by somebody
/// else: no text of it gets there, in whatever form it is printed.
#[test]
fn no_text_of_an_edited_run_is_a_command_of_a_ci_system() {
    const EVIL: &str = "x\n::error::x\n  ::error::x ##[error]x";
    let served = served();
    for (path, body) in [
        ("sink/app", json!({ "respond": [500] })),
        ("events", json!({ "key": KEY, "type": "workflow.completed" })),
        ("outcome", json!({ "key": "sk_test_b", "test": "a", "outcome": "failed", "message": "b", "output": "c" })),
    ] {
        let (status, answer) = served.control("POST", path, &body);
        assert_eq!(status, 200, "{path}: {answer}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = path(&folder, "run.json");
    let exec = ["exec", "--report", &file, "--", "sh", "-c", "curl -s $WRS_BASE_URL/v1/none; echo said; exit 1"];
    run(&exec).exits(1);
    let whole: Value = serde_json::from_str(&fs::read_to_string(&file).expect("the file")).expect("JSON");
    let mut document: Value = serde_json::from_slice(&served.call(&["run", "save", "-"]).stdout).expect("JSON");
    document["exec"] = whole["exec"].clone();
    let mut found = std::collections::BTreeMap::new();
    places(&document, "", &mut found);
    assert!(found.len() > 100, "{found:?}");
    let evil = path(&folder, "evil.json");
    let print = |document: &Value, arguments: &[&str]| {
        fs::write(&evil, document.to_string()).expect("it is written");
        let summary = path(&folder, "summary");
        let variables = [("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", &*summary)];
        let output = finish(wrs_emulator(&[arguments, &["--from", &evil]].concat()).envs(variables));
        let said = text(&output.stdout) + &text(&output.stderr);
        let is_command = |line: &str| line.trim_start().starts_with("::error::x") || line.contains("##[error]");
        assert!(!said.lines().any(is_command), "{arguments:?}: {said}");
        said
    };
    let mut all = document.clone();
    for place in found.values() {
        let mut one = document.clone();
        *one.pointer_mut(place).expect("it is there") = EVIL.into();
        if print(&one, &["verdict", "--fail-on", "unmatched"]).contains("error: cannot use") {
            continue;
        }
        *all.pointer_mut(place).expect("it is there") = EVIL.into();
        // Below, it explains all of them at once.
        if sized(false, true) {
            print(&one, &["explain"]);
        }
    }
    for arguments in [
        &["verdict"][..],
        &["verdict", "--json"],
        &["verdict", "--format", "junit"],
        &["verdict", "--fail-on", "findings"],
        &["explain"],
        &["explain", "--json"],
        &["requests", "export", "--har", "-", "--deliveries"],
    ] {
        let said = print(&all, arguments);
        assert!(!said.contains("cannot use"), "{arguments:?}: {said}");
    }
}

/// A file of bounded length takes bounded memory, whatever is in it: values of any form, records, or JSON as the text of a field, which is
/// read for what to mask in it.
#[test]
fn a_run_takes_bounded_memory() {
    const MIB: usize = 1024 * 1024;
    let (length, refused) = (sized(4, 60) * MIB, sized(16, 60) * MIB);
    let folder = tempfile::tempdir().expect("a folder");
    let saved: Value = serde_json::from_slice(&served().call(&["run", "save", "-"]).stdout).expect("JSON");
    let many = |part: &str, length: usize| format!("[{}]", vec![part; length / (part.len() + 1)].join(","));
    let with_body = |body: String| {
        let mut run = saved.clone();
        run["requests"][0]["body"] = body.into();
        run.to_string()
    };
    let record = saved["requests"][0].to_string();
    let records = saved.to_string().replacen(
        &format!("\"requests\":[{record}"),
        &format!("\"requests\":[{}", {
            let list = many(&record, length.min(12 * MIB));
            list[1..list.len() - 1].to_owned()
        }),
        1,
    );
    let beside =
        |part: &str, length: usize| saved.to_string().replacen('{', &format!("{{\"x\":{},", many(part, length)), 1);
    for (what, run, is_shown) in [
        ("a long text", with_body("x".repeat(length)), true),
        ("objects in a text", with_body(many("{}", length)), true),
        ("numbers in a text", with_body(many("0", length)), true),
        ("records", records, true),
        ("numbers that nothing reads", beside("0", length.min(8 * MIB)), true),
        ("more of them", beside("0", refused), false),
        ("objects", beside("{}", refused), false),
    ] {
        let file = path(&folder, "long.json");
        fs::write(&file, run).expect("it is written");
        if is_shown {
            let viewing = view(&[&file]);
            let (peak, most) = (viewing.peak() / MIB, 60 + 10 * length / MIB);
            #[expect(clippy::print_stdout, reason = "`--nocapture` shows the sums")]
            {
                println!("{what}: {peak} of {most} MiB");
            }
            assert!(peak < most, "{what}: {peak} MiB");
            viewing.stop();
        } else {
            run_view_refused(&file);
        }
    }
}

fn run_view_refused(file: &str) {
    run(&["run", "view", file]).exits(2).says(&["it would need more than 512 MiB of memory once it is read"]);
}

#[test]
fn what_cannot_be_shown_is_refused_with_what_to_do() {
    let served = served();
    let folder = tempfile::tempdir().expect("a folder");
    let file = path(&folder, "run.json");
    assert_eq!(served.call(&["run", "save", &file]).status.code(), Some(0));
    let whole = fs::read_to_string(&file).expect("the file");
    let large = path(&folder, "large.json");
    fs::File::create(&large).and_then(|file| file.set_len(64 * 1024 * 1024 + 1)).expect("it is made");
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("it is written");
        path(&folder, name)
    };
    for (file, cause, hint) in [
        (write("cut.json", &whole[..whole.len() / 2]), "it is cut off", "save or copy it again"),
        (write("later.json", &whole.replacen("\"version\":1", "\"version\":9", 1)), "version 9", "use wrs-emulator 0."),
        (write("other.json", "{\"name\":\"x\"}"), "it is not a run of wrs-emulator", "run save FILE"),
        (write("page.html", "<html></html>"), "no report of wrs-emulator", "run save FILE"),
        (
            write("field.json", &whole.replacen("\"requests\":[", "\"requests\":7,\"x\":[", 1)),
            "it is not as it was saved",
            "run save",
        ),
        (
            write("view.json", &whole.replacen("\"verification\":", "\"x\":", 1)),
            "missing field `verification`",
            "run save",
        ),
        (large, "it is larger than 64 MiB", "another file"),
        (path(&folder, "none.json"), "No such file", ""),
        (folder.path().display().to_string(), "Is a directory", ""),
    ] {
        let output = run(&["run", "view", &file]).exits(2);
        let said = said(&output);
        assert!(
            said.contains(&format!("cannot use `{file}`")) && said.contains(cause) && said.contains(hint),
            "{said}"
        );
    }
    let taken = served.address();
    let output = run(&["run", "view", &file, "--listen", taken]);
    assert!(Path::new(&file).exists() && output.status.code() == Some(2), "{output:?}");
}
