//! Settings changed while running: order of layers, taking back, refusals, saving and restoring.

use serde_json::json;

use super::*;
use crate::clock::Instant;
use crate::scenario::{Generation, Library};

const NOW: Instant = Instant::after_start(std::time::Duration::from_secs(1));

fn library() -> Library {
    Library::new(Layered::default().with_assignment("rate_limit.requests=50", "--set").expect("valid"))
}

fn patch(library: &Library, key: Option<&str>, requested: Value) -> Result<u64, Vec<Diagnostic>> {
    let Value::Object(requested) = requested else { panic!("a patch is an object") };
    library.patch_profile(key, &requested, NOW)
}

fn requests(generation: &Generation, key: Option<&str>) -> (u32, String) {
    let config = generation.config_for(key);
    (config.profile.rate_limit.requests, config.layered.source("rate_limit.requests").to_owned())
}

#[test]
fn the_layers_lie_in_their_order() {
    let library = library();
    let number = patch(&library, None, json!({ "rate_limit": { "requests": 40 } })).expect("valid");
    assert_eq!(number, 2, "one swap");
    assert_eq!(requests(&library.load(), None), (40, PATCH_SOURCE.to_owned()));
    patch(&library, Some("k"), json!({ "rate_limit.requests": 30 })).expect("valid");
    assert_eq!(requests(&library.load(), Some("k")).0, 30);
    assert_eq!(requests(&library.load(), Some("other")).0, 40);
    library.put_inline("few", "[profile]\nrate_limit.requests = 3\n", NOW).expect("valid");
    library.activate(None, &["few"], NOW).expect("known");
    let generation = library.load();
    assert_eq!((requests(&generation, Some("k")).0, requests(&generation, None).0), (3, 3));
    for (key, expected) in [(None, 40), (Some("k"), 30), (Some("other"), 40), (Some("k"), 30)] {
        let named = generation.config_named(key, &[]).expect("no scenario");
        assert_eq!(named.profile.rate_limit.requests, expected, "{key:?}: the patch for all, then that of the key");
    }
    let over = generation.config_named(Some("k"), &["few"]).expect("it is there");
    assert_eq!(over.profile.rate_limit.requests, 3, "a scenario's settings lie over the key's own settings");
    library.activate(None, &[], NOW).expect("known");
    patch(&library, Some("k"), json!({ "rate_limit": null })).expect("a group is taken back");
    assert_eq!(requests(&library.load(), Some("k")).0, 40);
    patch(&library, None, json!({ "rate_limit": { "requests": null } })).expect("valid");
    assert_eq!(requests(&library.load(), None), (50, "--set".to_owned()));
    assert_eq!(library.load().patches().clone(), SettingPatches::default());
}

#[test]
fn a_key_with_a_patch_follows_the_global_list_and_keeps_its_activation() {
    let library = library();
    library.put_inline("few", "[profile]\nrate_limit.window = '7s'\n", NOW).expect("valid");
    library.activate(None, &["few"], NOW).expect("known");
    patch(&library, Some("k"), json!({ "rate_limit.requests": 2 })).expect("valid");
    let generation = library.load();
    let (own, all) = (generation.config_for(Some("k")), generation.config_for(None));
    assert_eq!((own.activation, own.active.len(), own.activated_at), (all.activation, 1, all.activated_at));
    assert_eq!((own.profile.rate_limit.requests, own.profile.rate_limit.window.get().as_secs()), (2, 7));
}

#[test]
fn wrong_patches_change_nothing_and_say_why() {
    let library = library();
    for (requested, code, expected) in [
        (json!({ "rate_limit": { "request": 5 } }), "profile/unknown-knob", "rate_limit.requests"),
        (json!({ "rate_limit.request": null }), "profile/unknown-knob", "rate_limit.requests"),
        (json!({ "rate_limit": 5 }), "profile/unknown-knob", "rate_limit"),
        (json!({ "rate_limit": { "requests": "many" } }), "profile/bad-value", "rate_limit.requests"),
        (json!({ "rate_limit": { "requests": -1, "window": "1s" } }), "profile/bad-value", "rate_limit.requests"),
        (json!({ "hello.body": { "a": null } }), "profile/bad-value", "null"),
        (json!({ "a b": 1 }), "profile/syntax", "a b"),
    ] {
        let problems = patch(&library, None, requested.clone()).expect_err("it is wrong");
        let text = format!("{} {}", problems[0].message, problems[0].hint);
        assert!(problems[0].code == code && text.contains(expected), "{requested}: {problems:?}");
    }
    let many: Map<String, Value> = (0..300).map(|n| (format!("type{n}"), json!({ "a": 1 }))).collect();
    assert!(patch(&library, None, json!({ "events": { "data": many } })).is_err(), "a patch is bounded");
    library.put_inline("a", "[profile]\nrate_limit.header_names.limit = 'X-A'\n", NOW).expect("valid");
    library.activate(None, &["a"], NOW).expect("known");
    let before = library.load().number;
    let clash = patch(&library, None, json!({ "rate_limit.header_names.remaining": "X-A" }));
    assert!(clash.is_err(), "a value that is valid alone may clash with an active scenario");
    assert_eq!((library.load().number, library.load().patches().clone()), (before, SettingPatches::default()));
}

#[test]
fn entries_are_set_and_taken_back_one_by_one() {
    let library = library();
    patch(&library, None, json!({ "errors": { "codes": { "not_found": "gone", "unauthorized": "who" } } }))
        .expect("valid");
    patch(&library, None, json!({ "errors.codes.not_found": null })).expect("valid");
    patch(&library, None, json!({ "events.data": { "workflow.completed": { "a": 1 } } })).expect("valid");
    let patches = library.load().patches().clone();
    let paths: Vec<&str> = patches.global.entries().keys().map(String::as_str).collect();
    assert_eq!(paths, ["errors.codes.unauthorized", "events.data.\"workflow.completed\""]);
    let profile = Arc::clone(&library.load().config_for(None).profile);
    assert_eq!(profile.errors.codes.values().filter(|code| *code == "who" || *code == "gone").count(), 1);
    patch(&library, None, json!({ "hello.body": { "a": 1 } })).expect("valid");
    patch(&library, None, json!({ "hello.body.b": 2 })).expect("valid");
    let hello = Value::from(library.load().config_for(None).profile.hello.body.clone());
    assert_eq!(hello, json!({ "a": 1, "b": 2 }), "an entry below a setting lies over the setting");
}

#[test]
fn all_patches_together_are_bounded_by_bytes() {
    let library = library();
    let large = json!({ "hello": { "body": { "message": "x".repeat(60_000) } } });
    let refused = (0..100).find_map(|number| patch(&library, Some(&format!("k{number}")), large.clone()).err());
    let problem = refused.expect("a hundred such patches are more than 4 MiB");
    assert!(problem[0].message.contains("more than 4 MiB"), "{problem:?}");
    // What is taken back makes room.
    patch(&library, Some("k0"), json!({ "hello": null })).expect("valid");
    patch(&library, Some("another"), large).expect("there is room again");
}
