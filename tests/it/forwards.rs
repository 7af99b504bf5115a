//! Forwards: changed while the emulator runs, for all keys or one, kept like other settings; and what deliveries that fail
//! advise.

use serde_json::{Value, json};
use wrs_emulator::webhook::resolve::LookUp;
use wrs_emulator::{Builder, Emulator};

use crate::process::Served;
use crate::support::{
    Certificates, KEY, Receiver, ask, builder, control, fire, refused, started, subscribe_url, text, view,
};

const PUBLIC: &str = "https://app.example.com:8443";

/// An emulator for which no name has an address.
fn nameless() -> Builder {
    let look_up = LookUp::new(|_| Err(std::io::Error::other("no such host")));
    builder().set("webhooks.retry.preset=none").configure(|settings| settings.look_up = look_up)
}

async fn subscribed(emulator: &Emulator, key: &str) {
    subscribe_url(emulator, key, &format!("{PUBLIC}/hooks?a=1")).await;
}

/// The outcome of the one attempt that an event for this key comes to.
async fn outcome(emulator: &Emulator, key: &str) -> Value {
    let event = json!({ "type": "workflow.completed", "key": key });
    fire(emulator, &event).await["deliveries"][0]["attempts"][0].clone()
}

async fn patch(emulator: &Emulator, body: &Value) -> Value {
    ask(emulator, "PATCH", "profile", body).await
}

#[tokio::test]
async fn a_forward_is_added_and_removed_for_one_key_while_running() {
    let mut receiver = Receiver::plain(&[200]).await;
    let emulator = started(nameless()).await;
    for key in [KEY, "sk_test_other"] {
        subscribed(&emulator, key).await;
    }
    let there = format!("http://{}/in", receiver.address);
    patch(&emulator, &json!({ "key": KEY, "webhooks": { "forwards": { PUBLIC: there } } })).await;
    assert_eq!(outcome(&emulator, KEY).await["dialled"], format!("{there}/hooks?a=1"));
    receiver.next().await;
    assert_eq!(outcome(&emulator, "sk_test_other").await["outcome"]["failure"], "name_not_found");
    // A snapshot keeps it, a reset removes it.
    let saved = view(&emulator, "snapshot").await;
    control(&emulator, "POST", "reset", &json!({ "key": KEY })).await;
    subscribed(&emulator, KEY).await;
    assert_eq!(outcome(&emulator, KEY).await["outcome"]["failure"], "name_not_found");
    assert_eq!(control(&emulator, "PUT", "snapshot", &saved).await.status, 200);
    assert_eq!(outcome(&emulator, KEY).await["outcome"]["status"], 200);
    receiver.next().await;
    patch(&emulator, &json!({ "key": KEY, "webhooks": { "forwards": { PUBLIC: null } } })).await;
    assert_eq!(outcome(&emulator, KEY).await["outcome"]["failure"], "name_not_found");
    receiver.nothing_more();
}

#[tokio::test]
async fn a_forward_of_the_start_is_taken_back_for_one_key_and_led_elsewhere() {
    let (mut first, mut second) = (Receiver::plain(&[200]).await, Receiver::plain(&[200]).await);
    let rule = format!("{PUBLIC}=http://{}", first.address);
    let emulator = started(nameless().forward(&rule)).await;
    for key in [KEY, "sk_test_other", "sk_test_third"] {
        subscribed(&emulator, key).await;
    }
    let there = format!("http://{}", second.address);
    patch(&emulator, &json!({ "key": KEY, "webhooks": { "forwards": { PUBLIC: "" } } })).await;
    patch(&emulator, &json!({ "key": "sk_test_other", "webhooks": { "forwards": { PUBLIC: there } } })).await;
    assert_eq!(outcome(&emulator, KEY).await["outcome"]["failure"], "name_not_found");
    assert_eq!(outcome(&emulator, "sk_test_other").await["outcome"]["status"], 200);
    second.next().await;
    assert_eq!(outcome(&emulator, "sk_test_third").await["outcome"]["status"], 200);
    first.next().await;
}

#[tokio::test]
async fn the_egress_guard_and_the_limits_hold_for_forwards_made_while_running() {
    let emulator = started(nameless()).await;
    subscribed(&emulator, KEY).await;
    for (target, failure) in
        [("http://8.8.8.8", "8.8.8.8 is on the internet"), ("http://169.254.169.254", "it is never dialled")]
    {
        patch(&emulator, &json!({ "webhooks": { "forwards": { PUBLIC: target } } })).await;
        let refused = outcome(&emulator, KEY).await;
        let detail = refused["outcome"]["detail"].as_str().expect("a detail");
        assert_eq!(refused["outcome"]["failure"], "egress_refused", "{refused}");
        assert!(detail.contains(failure) && refused["outcome"]["hint"].is_null(), "{refused}");
    }
    for (forwards, said) in [
        (json!({ "https://a?x": "http://b" }), "without query and fragment"),
        (json!({ "https://a": "ftp://b" }), "must be an http or https URL"),
        (json!({ "a": "http://b" }), "expected a URL such as https://app.example.com, found `a`"),
        (json!({ "https://a": 5 }), "expected a string"),
    ] {
        refused(&emulator, "PATCH", "profile", &json!({ "webhooks": { "forwards": forwards } }), 422, said).await;
    }
    let many: serde_json::Map<String, Value> =
        (0..257).map(|number| (format!("https://a{number}.example"), json!("http://localhost"))).collect();
    let refused = control(&emulator, "PATCH", "profile", &json!({ "webhooks": { "forwards": many } })).await;
    assert_eq!(refused.status, 422);
    let many = (0..257).map(|number| format!("https://a{number}.example=http://localhost"));
    let refused = many.fold(builder(), |builder, rule| builder.forward(&rule)).start().await.expect_err("too many");
    assert!(refused.to_string().contains("at most 256 forwards"), "{refused}");
}

#[tokio::test]
async fn a_failed_delivery_advises_what_was_not_done_yet_and_keeps_the_port() {
    let emulator = started(nameless()).await;
    subscribed(&emulator, KEY).await;
    let detail = async |emulator: &Emulator| {
        let failed = outcome(emulator, KEY).await;
        failed["outcome"]["detail"].as_str().unwrap_or_else(|| panic!("it fails: {failed}")).to_owned()
    };
    let failed = outcome(&emulator, KEY).await;
    let advice = json!({ "do": "forward", "url": PUBLIC, "to": "http://localhost:PORT" });
    assert_eq!(
        failed["outcome"]["hint"],
        json!({ "text": "to deliver to your own machine:", "advice": advice }),
        "{failed}"
    );
    // The forward exists, and leads to a name without an address, or to no listener.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    for target in ["http://nothing.example:3000".to_owned(), format!("http://{closed}"), format!("https://{closed}")] {
        patch(&emulator, &json!({ "webhooks": { "forwards": { PUBLIC: target } } })).await;
        let failed = outcome(&emulator, KEY).await;
        assert!(failed["dialled"].as_str().is_some_and(|dialled| dialled.starts_with(&target)), "{failed}");
        assert!(failed["outcome"]["hint"]["advice"].is_null(), "it is forwarded already: {failed}");
    }
    let (certificates, other) = (Certificates::for_localhost(), Certificates::for_localhost());
    let receiver = Receiver::tls(&certificates, &[200]).await;
    let rule = format!("{PUBLIC}=https://{}", receiver.address);
    for (authority, advice, not) in [
        (None, "pass its CA with --webhook-ca FILE", "the authorities of --webhook-ca"),
        (Some(other.ca_file()), "none of the authorities of --webhook-ca signed", "FILE"),
    ] {
        let emulator = nameless().forward(&rule);
        let emulator = match authority {
            Some(file) => emulator.webhook_ca(file),
            None => emulator,
        };
        let emulator = started(emulator).await;
        subscribed(&emulator, KEY).await;
        let said = detail(&emulator).await;
        assert!(said.contains(advice) && said.contains("--webhook-insecure") && !said.contains(not), "{said}");
    }
}

/// Forwards that cover no subscription, where they are made and where one is missed.
#[test]
fn a_forward_that_cannot_be_used_is_said_where_it_is_met() {
    let plain = "the forward of `http://app.example.com` is never used: a subscription must use https; forward \
                 `https://app.example.com`, or set webhooks.allow_http=true";
    let served = Served::start(&["--forward", "http://app.example.com=http://localhost:3000"]);
    let added = served.call(&["forwards", "add", "https://app.example.com/hooks/*=3000", "https://b.example=3000"]);
    let said = text(&added.exits(0).stderr);
    // That of the start is not new.
    assert!(!said.contains(plain), "{said}");
    assert!(
        said.contains("there are no wildcards, and `https://app.example.com/hooks` covers every path below it"),
        "{said}"
    );
    for (rule, problem) in [
        (
            "https://*.example.com=3000",
            "its URL must name a host of letters, digits, hyphens and dots; there are no wildcards",
        ),
        (
            "https://app.example.com:0=3000",
            "no subscription can have `https://app.example.com:0/`: its URL must not use port 0",
        ),
        ("https://app.example.com=http://localhost:0", "must not use port 0, at which nothing can listen"),
    ] {
        for arguments in [&["forwards", "add"][..], &["serve", "--listen", "127.0.0.1:0", "--forward"]] {
            served.call(&[arguments, &[rule]].concat()).exits(2).says(&[problem]);
        }
    }
    let twice = ["forwards", "add", "https://c.example=3000", "https://C.example/=4000"];
    served.call(&twice).exits(2).says(&["`https://c.example` is forwarded twice, to http://localhost:3000 and to"]);
    // A delivery that none of them covers.
    served.subscribe("https://b.example:8443/in");
    served.call(&["trigger", "workflow.completed", "--wait"]).exits(1);
    served.call(&["explain"]).prints(&[
        "it was not forwarded: the forward of `https://b.example` does not cover it: its port is 443, not 8443",
    ]);
    let (_, log) = served.stop();
    assert!(log.contains(plain), "{log}");
}

#[test]
fn a_forward_of_another_key_and_a_receivers_own_address_are_named() {
    let served = Served::start(&["--quiet", "--set", "webhooks.retry.preset=none"]);
    served.said(&["forwards", "add", "https://shop.invalid=http://127.0.0.1:3939", "--key", "sk_test_local"]);
    served.said(&["subscriptions", "create", "https://shop.invalid/in", "--key", "sk_test_other"]);
    served.call(&["trigger", "workflow.completed", "--wait", "--key", "sk_test_other"]).exits(1);
    let named = "a forward of https://shop.invalid exists for sk_test_local alone; to make it one of all keys:";
    let command = "wrs-emulator forwards add https://shop.invalid=http://127.0.0.1:3939 --url ";
    for call in [&["explain"][..], &["verdict"]] {
        let said = text(&served.call(call).stdout);
        assert!(said.contains(named) && said.contains(command), "{call:?}: {said}");
    }
    // One of the same key that is nearly right comes first.
    served.said(&["forwards", "add", "https://shop.invalid:8443=http://127.0.0.1:3939", "--key", "sk_test_other"]);
    let said = text(&served.call(&["verdict"]).stdout);
    let near = "does not cover it: its port is 8443, not 443";
    assert!(said.contains(near), "{said}");
    let explained = served.said(&["explain"]);
    let places: Vec<_> = [near, named, "to deliver to your own machine:"].map(|hint| explained.find(hint)).into();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{explained}");
    // One that leads to a host that is mistyped.
    served.said(&["forwards", "add", "https://cart.invalid=http://locahost:3939"]);
    served.said(&["subscriptions", "create", "https://cart.invalid/in", "--key", "sk_test_third"]);
    served.call(&["trigger", "workflow.completed", "--wait", "--key", "sk_test_third"]).exits(1);
    served.call(&["explain"]).prints(&["it was forwarded to `locahost`; did you mean `localhost`?"]);
    let refused = served.fails(&["subscriptions", "create", "http://127.0.0.1:3939/naive"], 2);
    assert!(refused.contains("then subscribe https://app.example.com/naive"), "{refused}");
    let hint = "hint: `wrs-emulator forwards add https://app.example.com=http://127.0.0.1:3939 --url ";
    assert!(refused.contains(hint), "{refused}");
}

#[test]
fn forwards_are_listed_added_and_removed_by_commands() {
    let served = Served::start(&["--quiet", "--forward", "https://old.example.com=http://127.0.0.1:3000/in"]);
    let said = |arguments: &[&str]| {
        let output = served.call(&[&["forwards"], arguments].concat());
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{arguments:?}: {output:?}");
        text(&output.stdout)
    };
    assert_eq!(said(&[]), "https://old.example.com -> http://127.0.0.1:3000/in\n");
    let added = said(&["add", "https://app.example.com/=http://localhost:4000", "--key", "sk_test_a"]);
    assert_eq!(added, "https://app.example.com -> http://localhost:4000 for sk_test_a\n");
    assert_eq!(said(&["list"]).lines().count(), 1, "{}", said(&["list"]));
    let of_key = said(&["list", "--key", "sk_test_a"]);
    assert!(of_key.lines().count() == 2 && of_key.contains("https://app.example.com -> "), "{of_key}");
    let as_json = served.json(&["forwards", "list", "--key", "sk_test_a", "--json"]);
    assert_eq!(as_json["data"][0], json!({ "from": "https://app.example.com", "to": "http://localhost:4000" }));
    // One of the start is taken back as well, for the key alone.
    let removed = said(&["remove", "https://old.example.com", "https://app.example.com", "--key", "sk_test_a"]);
    assert_eq!(
        removed,
        "https://old.example.com is no longer forwarded for sk_test_a\nhttps://app.example.com is no longer forwarded for sk_test_a\n"
    );
    assert_eq!(said(&["--key", "sk_test_a"]), "no forwards\n");
    assert_eq!(said(&[]).lines().count(), 1);
    served
        .call(&["forwards", "remove", "https://new.example.com"])
        .exits(1)
        .says(&["unknown forward `https://new.example.com`"]);
    for (wrong, problem) in [
        ("https://new.example.com", "expected FROM=TO"),
        ("=http://b", "expected a URL"),
        ("https://a.example/?b=c=http://127.0.0.1:1", "without query and fragment"),
    ] {
        let refused = served.fails(&["forwards", "add", wrong], 2);
        assert!(refused.contains(problem), "{wrong}: {refused}");
    }
    // They are settings like others.
    assert!(text(&served.call(&["profile", "show", "webhooks.forwards"]).stdout).contains("(from --forward)"));
    served.subscribe("https://app.example.com/x");
    said(&["add", "https://app.example.com=https://inbox.sink.localhost"]);
    assert_eq!(served.call(&["trigger", "workflow.completed", "--wait"]).status.code(), Some(0));
}

/// The target is called as it was given: with its query, its user and its last slash; a password is shown nowhere.
#[tokio::test]
async fn a_target_keeps_its_query_its_user_and_its_last_slash() {
    let mut receiver = Receiver::plain(&[200]).await;
    let address = receiver.address;
    let emulator = started(nameless()).await;
    subscribe_url(&emulator, KEY, "https://app.example.com").await;
    for (target, path) in [
        (format!("http://user:pass%20word@{address}/webhooks/?token=abc"), "/webhooks/?token=abc"),
        (format!("http://{address}/webhooks/"), "/webhooks/"),
        (format!("{address}/webhooks"), "/webhooks"),
    ] {
        patch(&emulator, &json!({ "webhooks": { "forwards": { "https://app.example.com": target } } })).await;
        let attempt = outcome(&emulator, KEY).await;
        assert_eq!(attempt["outcome"]["status"], 200, "{attempt}");
        let received = receiver.next().await;
        assert_eq!(received.path, path);
        let authorization = received.headers.get("authorization").map(|value| value.to_str().expect("text"));
        assert_eq!(authorization, target.contains("user:").then_some("Basic dXNlcjpwYXNzIHdvcmQ="));
        let shown = [attempt, view(&emulator, "profile").await, view(&emulator, "deliveries").await];
        assert!(shown.iter().all(|shown| !shown.to_string().contains("pass%20word")), "{shown:?}");
    }
}

#[test]
fn a_forward_with_a_password_is_printed_without_it() {
    let served = Served::start(&["--quiet"]);
    let rule = "https://app.example.com=http://user:secret@localhost:1/in/?token=abc";
    let said = text(&served.call(&["forwards", "add", rule]).stdout) + &text(&served.call(&["forwards"]).stdout);
    assert!(!said.contains("secret") && !said.contains("abc") && said.contains("localhost:1/in/?"), "{said}");
}
