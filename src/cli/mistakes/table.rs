//! Commands and flags that people know from other programs, and what to type here instead.
//!
//! A row has the command that the names follow, the names, and the hint. Names that begin with `-` are flags.

/// The flags of `serve` are those of the program as well.
const SERVE: &str = "serve";

/// Every known mistake. `{value}` in a hint is replaced by the flag's value.
pub(super) const MISTAKES: &[(&str, &[&str], &str)] = &[
    ("", &["start", "up", "server"], "use `wrs-emulator serve`"),
    ("", &["logs", "log", "tail"], "use `wrs-emulator requests --follow`"),
    (
        "",
        &["ui", "page", "dashboard", "web", "open"],
        "open http://127.0.0.1:9770/_emulator/ in a browser; `wrs-emulator run view FILE` shows a saved run",
    ),
    ("", &["stop", "down", "kill"], "end it with Ctrl-C, or with SIGTERM"),
    ("", &["status", "ping", "ready"], "use `wrs-emulator health`"),
    ("", &["fire", "send", "emit", "publish"], "use `wrs-emulator trigger`"),
    ("", &["events", "webhooks", "hooks"], "use `wrs-emulator deliveries`"),
    ("", &["sink", "receive", "receiver", "catch"], "use `wrs-emulator listen`"),
    ("", &["replay", "resend", "retry"], "use `wrs-emulator deliveries redeliver ID`"),
    ("", &["subscribe"], "use `wrs-emulator subscriptions create`"),
    ("", &["secrets", "secret", "rotate"], "use `wrs-emulator subscriptions rotate ID` for a new signing secret"),
    ("", &["mock", "stub", "play"], "use `wrs-emulator serve --scenario NAME`; `wrs-emulator scenarios` lists them"),
    ("", &["config", "settings"], "use `wrs-emulator profile`"),
    ("", &["report"], "use `wrs-emulator run save report.html`"),
    ("", &["lint", "validate"], "use `wrs-emulator check`"),
    ("", &["time"], "use `wrs-emulator clock`"),
    ("", &["version"], "use `wrs-emulator --version`"),
    ("", &["use"], "use `wrs-emulator scenarios use NAME`"),
    ("", &["why"], "use `wrs-emulator explain ID`"),
    ("", &["webhook"], "use `wrs-emulator deliveries`"),
    ("clock", &["stop", "pause", "halt"], "use `wrs-emulator clock freeze`"),
    ("clock", &["start", "run", "continue", "unfreeze"], "use `wrs-emulator clock resume`"),
    (
        "clock",
        &["reset", "real"],
        "`wrs-emulator clock resume` lets it run again; `wrs-emulator reset --all` resets it, and everything else",
    ),
    ("clock", &["forward", "move", "add", "tick", "travel", "skip"], "use `wrs-emulator clock advance DURATION`"),
    ("clock", &["now", "get", "time", "status"], "use `wrs-emulator clock show`"),
    ("requests", &["tail", "watch", "follow"], "use `wrs-emulator requests --follow`"),
    ("deliveries", &["retry", "resend", "replay"], "use `wrs-emulator deliveries redeliver ID`"),
    ("scenarios", &["activate", "enable", "start", "set"], "use `wrs-emulator scenarios use NAME`"),
    ("scenarios", &["deactivate", "disable", "stop", "clear"], "use `wrs-emulator scenarios off`"),
    ("scenarios", &["check", "lint", "validate"], "use `wrs-emulator check`"),
    ("scenarios", &["create", "add"], "use `wrs-emulator scenarios new NAME`"),
    ("profile", &["get", "list"], "use `wrs-emulator profile show`"),
    ("profile", &["reset", "clear"], "use `wrs-emulator profile unset PATH`"),
    ("forwards", &["rm", "delete"], "use `wrs-emulator forwards remove FROM`"),
    ("subscriptions", &["add", "new", "subscribe"], "use `wrs-emulator subscriptions create URL`"),
    ("subscriptions", &["remove", "rm", "unsubscribe"], "use `wrs-emulator subscriptions delete ID`"),
    ("snapshot", &["create", "take", "export"], "use `wrs-emulator snapshot save FILE`"),
    ("snapshot", &["restore", "import"], "use `wrs-emulator snapshot load FILE`"),
    ("run", &["export", "report", "dump"], "use `wrs-emulator run save FILE`"),
    ("run", &["open", "show"], "use `wrs-emulator run view FILE`"),
    (
        SERVE,
        &["--url", "--base-url"],
        "`--listen` sets the address to serve on; `--url` is for commands such as `wrs-emulator health --url {value}`",
    ),
    (SERVE, &["--https-port"], "`--tls self-signed` serves HTTPS; `--listen 127.0.0.1:{value}` sets the port"),
    (SERVE, &["--root-dir", "--dir"], "use `--scenarios {value}`"),
    (SERVE, &["--verbose"], "the log shows every request; `wrs-emulator explain` shows how the newest was answered"),
    (
        "exec",
        &["--key", "--api-key"],
        "the command reads its key from the environment: `WRS_API_KEY={value} wrs-emulator exec -- CMD`",
    ),
    ("exec", &["--url", "--base-url"], "the command reads the address from WRS_BASE_URL; `--listen` sets it"),
    ("exec", &["--wait"], "use `--settle {value}`"),
    ("exec", &["--format"], "use `--verdict-format {value}`"),
    ("verdict", &["--settle"], "use `--wait {value}`"),
    ("verdict", &["--verdict-format"], "use `--format {value}`"),
    ("check", &["--strict", "--werror", "--deny-warnings"], "use `--deny warnings`"),
    (
        "explain",
        &["--last", "--latest"],
        "`wrs-emulator explain` without an id explains the newest request or delivery",
    ),
    ("trigger", &["--override", "--add"], "use `--data {value}`"),
    ("trigger", &["--copies", "--repeat"], "use `--duplicate {value}`"),
    ("trigger", &["--times", "-n"], "use `--count {value}`"),
];

/// The hint for a name typed after the command at `path`.
pub(super) fn hint(path: &[&str], name: &str) -> Option<&'static str> {
    let typed = path.join(" ");
    let typed = if typed.is_empty() && name.starts_with('-') { SERVE } else { &typed };
    let row = MISTAKES.iter().find(|(command, names, _)| *command == typed && names.contains(&name));
    row.map(|(_, _, hint)| *hint)
}
