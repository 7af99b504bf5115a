//! Templates of any length: checked and rendered without a panic, within their bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use wrs_emulator::clock::Seed;
use wrs_emulator::scenario::template::{MAX_SOURCE, MAX_TEXT, Template, is_template, render_map};

fuzz_target!(|text: &str| {
    let checked = Template::parse(text);
    assert!(text.len() <= MAX_SOURCE || checked.is_err(), "a long source is refused");
    if let Ok(template) = &checked {
        let _ = template.try_out();
        let _ = template.request_paths();
    }
    let (map, facts) = (json!({ "x": [text, text] }), json!({ "request": { "body": { "a": [1, "b", null] }, "path": "/" } }));
    let (map, facts) = (map.as_object().expect("an object"), facts.as_object().expect("an object"));
    let now = "2026-01-31T09:30:00Z".parse().expect("a time");
    let rendered = render_map(map, facts, now, || Seed::from_number(1).source("fuzz"));
    if let Ok((made, _)) = rendered
        && is_template(text)
    {
        assert!(checked.is_ok(), "what is rendered was checked");
        assert!(made["x"][0].as_str().is_some_and(|made| made.len() <= MAX_TEXT), "the text made is bounded");
    }
});
