//! `listen` and the emulator: what leads to it, whose URL is whose, and what is refused at the start.

use std::process::Command;

use crate::process::{NOWHERE, Served, request};
use crate::support::{finish, run, text, wrs_emulator};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// Starts `listen` with a secret.
fn listen(arguments: &[&str]) -> Served {
    let mut command = wrs_emulator(&[&["listen", "--listen", "127.0.0.1:0"][..], arguments].concat());
    Served::spawn(command.env("WRS_WEBHOOK_SECRET", SECRET))
}

/// What it wrote to stderr by the time that it answers a request.
fn noted(listening: Served) -> String {
    // The note is written after the ready line, so one answered request is proof that it is there.
    assert!(request(&listening.url, "POST / HTTP/1.1", "{}").starts_with("HTTP/1.1 200 "));
    listening.stop().1
}

/// What `listen` says that is to refuse to start; bounded, for one that starts listens for ever.
fn refused(arguments: &[&str]) -> String {
    let mut command = Command::new("timeout");
    command.args(["20", env!("CARGO_BIN_EXE_wrs-emulator"), "listen", "--listen", "127.0.0.1:0"]).args(arguments);
    let output = finish(command.env_remove("WRS_WEBHOOK_SECRET"));
    assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{arguments:?}: {output:?}");
    text(&output.stderr)
}

/// The command below the note.
fn command(said: &str) -> &str {
    said.lines().map(str::trim_start).find(|line| line.starts_with("wrs-emulator ")).unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn a_receiver_that_nothing_leads_to_says_so_with_a_command_to_paste() {
    let alone = listen(&["--url", NOWHERE]);
    let here = alone.url.clone();
    let said = noted(alone);
    assert!(said.contains(&format!("note: nothing is delivered here yet: no emulator answers at {NOWHERE}")), "{said}");
    assert_eq!(command(&said), format!("wrs-emulator --forward https://app.example.com={here}"));

    let served = Served::start(&["--quiet"]);
    let url = format!(" --url {}", served.url);
    let listening = listen(&["--url", &served.url]);
    let here = listening.url.clone();
    let said = noted(listening);
    assert!(
        said.contains(
            "note: nothing is delivered here yet: neither a forward nor a subscription of sk_test_local leads to "
        ),
        "{said}"
    );
    assert_eq!(
        command(&said),
        format!(
            "wrs-emulator forwards add https://app.example.com={here}{url} && \
             wrs-emulator subscriptions create https://app.example.com/hooks{url}"
        )
    );

    // With a subscription its own URL is named, and with a forward there is nothing to say.
    served.said(&["subscriptions", "create", "https://mine.example/in?a=1"]);
    let listening = listen(&["--emulator", &served.url]);
    let here = listening.url.clone();
    let said = noted(listening);
    assert_eq!(command(&said), format!("wrs-emulator forwards add https://mine.example={here}{url}"));
    let port = here.rsplit(':').next().expect("a port");
    served.said(&["forwards", "add", &format!("https://mine.example=http://localhost:{port}")]);
    let address = format!("127.0.0.1:{port}");
    let mut again = wrs_emulator(&["listen", "--listen", &address, "--url", &served.url, "--count", "1"]);
    let again = Served::spawn(again.env("WRS_WEBHOOK_SECRET", SECRET));
    let _ = request(&here, "POST / HTTP/1.1", "{}");
    assert_eq!(again.end().2, "error: 1 of 1 deliveries did not verify\n");
}

/// `--url` is the emulator's everywhere; the URL that a scheme signs is `--webhook-url`.
#[test]
fn the_url_of_a_webhook_is_not_taken_for_the_emulators() {
    let hook = "https://app.example.invalid/hooks";
    for more in [&[][..], &["--forward-to", "1"]] {
        let said = refused(&[&["--url", hook][..], more].concat());
        assert!(said.contains(&format!("--url: no emulator answers at `{hook}`")), "{said}");
        let hint = "hint: --url is the emulator's address; the URL of the subscription is --webhook-url";
        assert!(said.contains(hint), "{said}");
    }
    run(&["health", "--url", hook]).exits(3).says(&["not the URL of a webhook"]);
    let listening = listen(&["--webhook-url", hook, "--url", NOWHERE]);
    noted(listening);
    let custom = ["--scheme", "custom", "--set", "webhooks.custom.content={url}.{body}", "--json"];
    for name in ["--webhook-url", "--url"] {
        let arguments = [&["sign", "/dev/null"][..], &custom, &[name, hook]].concat();
        finish(wrs_emulator(&arguments).env("WRS_WEBHOOK_SECRET", SECRET)).prints(&[hook]);
    }
    let missing = [&["sign", "/dev/null"][..], &custom].concat();
    finish(wrs_emulator(&missing).env("WRS_WEBHOOK_SECRET", SECRET)).says(&["expected --webhook-url URL"]);
    assert!(refused(&["--webhook-url", "nothing"]).contains("--webhook-url: `nothing` is not a URL"));
}

#[test]
fn an_application_that_may_not_be_dialled_is_refused_at_the_start() {
    for (target, problem) in [
        ("8.8.8.8/hooks", "8.8.8.8 is on the internet; webhooks stay local unless you pass --allow-egress 8.8.8.8"),
        ("169.254.169.254", "it is never dialled"),
    ] {
        let said = refused(&["--url", NOWHERE, "--forward-to", target]);
        assert!(said.contains("--forward-to: ") && said.contains(problem) && !said.contains("leads there"), "{said}");
    }
    let arguments = ["--url", NOWHERE, "--forward-to", "http://8.8.8.8:9", "--allow-egress", "8.8.8.8"];
    listen(&arguments).stop();
}

#[test]
fn an_application_on_a_host_that_does_not_exist_is_a_warning() {
    let alone = listen(&["--url", NOWHERE, "--forward-to", "http://nosuch.invalid:3000"]);
    let (_, said) = alone.stop();
    assert!(said.contains("--forward-to: ") && said.contains("nosuch.invalid"), "{said}");
}
