//! `exec` and `verdict` in CI systems, by the variables that these set, and the scripts of the shipped CI files.

use std::process::{Command, Output};

use crate::process::Served;
use crate::support::{text, wrs_emulator};

const CALLS: &str = "for path in helo helo 100%25; do curl -s -o /dev/null $WRS_BASE_URL/v1/$path; done";

/// `exec FLAGS -- sh -c SCRIPT` with these variables.
fn exec(variables: &[(&str, &str)], flags: &[&str], script: &str) -> Output {
    let arguments = [&["exec"], flags, &["--", "sh", "-c", script]].concat();
    wrs_emulator(&arguments).envs(variables.iter().copied()).output().expect("it runs")
}

#[test]
fn github_shows_each_cause_and_a_summary() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (summary, report) = (path("summary"), path("report.html"));
    std::fs::write(&summary, "before\n").expect("it is written");
    let github = [("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", summary.as_str())];
    let output = exec(&github, &["--fail-on", "unmatched,undelivered", "--report", &report], CALLS);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("::error ")).collect();
    assert_eq!(errors.len(), 2, "one for each cause\n{said}");
    let first = "::error title=wrs-emulator%3A unmatched::GET /v1/helo: no endpoint `/v1/helo`; did you mean GET /v1/hello? (404), 2 times, first by req_";
    assert!(errors[0].starts_with(first), "{said}");
    assert!(errors[1].starts_with("::error title=wrs-emulator%3A unmatched::GET /v1/100%2525: "), "{said}");
    assert_eq!(said.lines().last(), Some(format!("note: the report is in `{report}`").as_str()));
    let written = std::fs::read_to_string(&summary).expect("a summary");
    for part in [
        "before\n### ❌ Verdict: failed\n",
        "- ❌ **unmatched**: 3 requests",
        "2 times, first by req",
        "- ✅ **undelivered**: ",
        &report,
    ] {
        assert!(written.contains(part), "{part}: {written}");
    }

    // Nothing was asked for: warnings, and the exit code of the command.
    let unasked = exec(&github, &[], &format!("{CALLS}; exit 3"));
    let said = text(&unasked.stderr);
    assert!(
        unasked.status.code() == Some(3) && said.starts_with("::error title=wrs-emulator%3A unmatched::"),
        "{said}"
    );
    let written = std::fs::read_to_string(&summary).expect("a summary");
    assert!(written.contains("### ❌ Failed: the command exited with 3, and problems were found\n"), "{written}");
    let idle = exec(&github, &[], "true");
    let nothing = "::warning title=wrs-emulator%3A unused::0 requests arrived; does your code read WRS_BASE_URL?\n";
    assert_eq!((idle.status.code(), text(&idle.stderr).as_str()), (Some(0), nothing));
    // A summary that cannot be written does not change the outcome.
    let gone = exec(&[github[0], ("GITHUB_STEP_SUMMARY", "/no/such/file")], &[], "curl -s $WRS_BASE_URL/v1/hello");
    let said = text(&gone.stderr);
    assert!(gone.status.code() == Some(0) && said.starts_with("warning: the summary of the job cannot be"), "{said}");
}

/// A run whose tests failed is red, whatever --fail-on names, with the refusal that explains each test.
#[test]
fn failed_tests_are_causes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (summary, report) = (path("summary"), path("run.json"));
    let github = [("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", summary.as_str())];
    let script = r#"
post() { curl -s -o /dev/null -H 'Content-Type: application/json' -d "$1" "$WRS_EMULATOR_URL$2" -H "Authorization: Bearer $3"; }
for key in sk_test_a sk_test_b; do
  post '{"url":"https://a.example","event":["workflow.completed"]}' /v1/events/subscribe $key
  curl -s -o /dev/null "$WRS_EMULATOR_URL/v1/system/status?include_checks=x" -H "Authorization: Bearer $key"
  post '{"key":"'$key'","test":"subscribes '$key'","outcome":"failed","message":"assert 422 == 200"}' /_emulator/outcome
done
post '{"key":"sk_test_c","test":"adds","outcome":"failed","message":"1 != 2"}' /_emulator/outcome
post '{"key":"sk_test_d","test":"fine","outcome":"passed"}' /_emulator/outcome
exit 1"#;
    let output = exec(&github, &["--fail-on", "unmatched", "--report", &report], script);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("::error ")).collect();
    let [refused, other] = errors[..] else { panic!("one for each cause\n{said}") };
    assert!(
        refused.contains("POST /v1/events/subscribe was refused with 422 Unprocessable Entity: `events` "),
        "{said}"
    );
    assert!(refused.contains("2 times, first by req_") && refused.contains("test subscribes sk_test_a"), "{said}");
    assert!(other.contains("tests::1 != 2") && other.contains("test adds"), "{said}");
    assert!(said.contains("✗ tests: 3 tests failed\n"), "{said}");
    let title = "❌ Failed: the command exited with 1, 3 tests failed";
    let written = std::fs::read_to_string(&summary).expect("a summary");
    assert!(written.contains(&format!("### {title}\n")), "{written}");
    let saved = wrs_emulator(&["verdict", "--from", &report, "--fail-on", "unmatched", "--format", "markdown"]);
    let saved = { saved }.output().expect("it runs");
    assert!(saved.status.success() && text(&saved.stdout).contains(title), "{}", text(&saved.stdout));
}

#[test]
fn a_verdict_of_its_own_is_shown_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = folder.path().join("summary");
    let served = Served::start(&[]);
    exec_script(&served, CALLS);
    let mut github = wrs_emulator(&["verdict", "--url", &served.url, "--fail-on", "unmatched", "--format", "json"]);
    let output = github.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", &summary).output().expect("it runs");
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok(), "data stays data: {output:?}");
    assert_eq!(text(&output.stderr).matches("::error title=").count(), 2, "{output:?}");
    assert!(std::fs::read_to_string(&summary).expect("a summary").contains("❌ **unmatched**"));
    let gitlab = |flags: &[&str]| {
        let arguments = [&["verdict", "--url", &served.url], flags].concat();
        let output = wrs_emulator(&arguments).env("GITLAB_CI", "true").output().expect("it runs");
        (text(&output.stdout), text(&output.stderr))
    };
    // The marks are no part of the data.
    let (data, marks) = gitlab(&["--fail-on", "unmatched"]);
    assert!(data.starts_with("✗ unmatched: ") && !data.contains('\u{1b}'), "{data:?}");
    assert!(is_section(&marks, ":wrs_emulator\r\u{1b}[0Kwrs-emulator: verdict\n"), "{marks:?}");
    assert!(is_section(&gitlab(&[]).1, ":wrs_emulator[collapsed=true]\r"));
    assert!(gitlab(&["--json"]).0.starts_with('{'));
}

#[test]
fn gitlab_has_a_section_of_the_log() {
    for (flags, code, part) in [
        (&["--fail-on", "unmatched"][..], 1, ":wrs_emulator\r\u{1b}[0Kwrs-emulator: verdict\n✗ unmatched: 3 requests"),
        (&[], 0, ":wrs_emulator[collapsed=true]\r\u{1b}[0Kwrs-emulator: verdict\n✗ unmatched: 3 requests"),
    ] {
        let output = exec(&[("GITLAB_CI", "true")], flags, CALLS);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(is_section(&said, part), "{said:?}");
    }
}

fn is_section(text: &str, part: &str) -> bool {
    text.starts_with("\u{1b}[0Ksection_start:")
        && text.contains(part)
        && text.contains("\u{1b}[0Ksection_end:")
        && text.ends_with(":wrs_emulator\r\u{1b}[0K\n")
}

/// Runs a script with the variables that the shipped files set for their jobs.
fn exec_script(served: &Served, script: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c", script])
        .current_dir(folder.path())
        .envs([("WRS_BASE_URL", &*served.url), ("WRS_EMULATOR_URL", &served.url)])
        .envs([("WRS_API_KEY", "sk_test_ci"), ("WRS_EMULATOR_CONTROL_TOKEN", "only-for-this-job")])
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .expect("bash runs")
}

/// The block of a shipped file that asks for the verdict.
fn verdict_script(file: &str) -> String {
    let file = format!("{}/docs/examples/{file}", env!("CARGO_MANIFEST_DIR"));
    let yaml = std::fs::read_to_string(file).expect("the file is there");
    let (before, after) = yaml.split_once("/_emulator/verdict?").expect("it asks for the verdict");
    let (_, start) = before.rsplit_once("|\n").expect("a block");
    let indent = start.len() - start.trim_start().len();
    let (line, rest) = after.split_once('\n').expect("a line");
    let rest = rest.lines().take_while(|line| line.len() - line.trim_start().len() >= indent);
    let rest: String = rest.map(|line| format!("{line}\n")).collect();
    format!("{start}/_emulator/verdict?{line}\n{rest}")
}

#[test]
fn the_shipped_scripts_print_the_causes_and_name_the_report() {
    for (file, error) in
        [("github.yml", "::error title=wrs-emulator::GET /v1/100%2525: "), ("gitlab.yml", "GET /v1/100%25: ")]
    {
        let script = verdict_script(file);
        let served = Served::start(&["--control-token", "only-for-this-job"]);
        let idle = exec_script(&served, &script);
        let printed = text(&idle.stdout);
        assert!(idle.status.code() == Some(1) && printed.contains("0 requests arrived; does"), "{file}: {idle:?}");
        exec_script(&served, "curl -s $WRS_BASE_URL/v1/hello");
        let good = exec_script(&served, &script);
        assert_eq!((good.status.code(), text(&good.stdout).as_str()), (Some(0), ""), "{file}: {good:?}");
        exec_script(&served, CALLS);
        let red = exec_script(&served, &script);
        let printed = text(&red.stdout);
        assert_eq!(red.status.code(), Some(1), "{file}: {red:?}");
        assert!(printed.contains(error) && printed.contains("report.html"), "{file}: {printed}");
    }
}
