//! Settings changed while running: what is refused, single entries, bounds. `tests/it/patches.rs` has the layers.

use serde_json::json;

use super::*;
use crate::clock::Instant;
use crate::scenario::Library;

const NOW: Instant = Instant::after_start(std::time::Duration::from_secs(1));

fn library() -> Library {
    Library::new(Layered::default().with_assignment("rate_limit.requests=50", "--set").expect("valid"))
}

fn patch(library: &Library, key: Option<&str>, requested: Value) -> Result<u64, Vec<Diagnostic>> {
    let Value::Object(requested) = requested else { panic!("a patch is an object") };
    library.patch_profile(key, &requested, NOW)
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
    assert_eq!(library.load().number, 1);
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
