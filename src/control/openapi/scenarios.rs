//! Scenarios: what there is, what is active, adding and removing.

use serde_json::json;

use super::shapes::{Described, call, count, list, named, object, or_null, text};
use crate::control::route::Action;

pub(super) fn describe(action: Action) -> Option<Described> {
    let described = match action {
        Action::ListScenarios => {
            let own = object(&json!({ "key": text(), "active": list(text()) }));
            let answer = object(&json!({
                "generation": count(),
                "active": list(text()),
                "active_by_key": list(own),
                "data": list(named("Scenario")),
                "diagnostics": list(named("Diagnostic")),
            }));
            call("All scenarios, with what is active and what is broken", answer)
        }
        Action::ShowScenario => call("One scenario with its text", named("ScenarioWhole")).segment("name"),
        Action::PutScenario => {
            let answer =
                object(&json!({ "name": text(), "generation": count(), "diagnostics": list(named("Diagnostic")) }));
            // The language has a schema of its own: `wrs-emulator scenarios schema`.
            call("Add a scenario, or replace it", answer).segment("name").body(json!({ "type": "object" }))
        }
        Action::RemoveScenario => {
            let answer = object(&json!({ "removed": text(), "generation": count() }));
            call("Remove a scenario that was added here", answer).segment("name").empty_body()
        }
        Action::ReloadScenarios => {
            let answer = object(&json!({
                "generation": count(),
                "files": count(),
                "changes": list(text()),
                "diagnostics": list(named("Diagnostic")),
            }));
            call("Read the folders again now", answer).empty_body()
        }
        Action::ActivateScenarios => {
            let answer = object(&json!({
                "generation": count(),
                "active": or_null(list(text())),
                "key": { "type": ["string", "null"] },
                "diagnostics": list(named("Diagnostic")),
            }));
            call("Choose the active scenarios, for all keys or one", answer)
                .body(object(&json!({ "active?": or_null(list(text())) })))
        }
        _ => return None,
    };
    Some(described)
}
