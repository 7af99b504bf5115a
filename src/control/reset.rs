//! `POST reset`: one key, or everything, as it was before the first request.
//!
//! A workspace is not emptied but left behind: whoever still works for it sees that, and its key's next request finds a fresh
//! one. So nothing of before can come through later.

use std::sync::Arc;

use serde_json::json;

use super::notice::{note, whose};
use super::scenarios::refused;
use super::scope::{Scope, scope};
use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::keys::workspace_of;
use crate::diagnostic::Diagnostic;
use crate::workspace::Workspace;

pub(super) fn reset(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    call.no_body()?;
    let (reset, whose) = match scope(control, call)? {
        Scope::One(workspace) => {
            forget(control, &workspace);
            let whose = whose(call, Some(workspace.name()));
            (vec![workspace], whose)
        }
        Scope::All => {
            let reset = forget_all(control).map_err(|found| refused(&found))?;
            (reset, "all keys, with scenarios, settings and clock as at the start".to_owned())
        }
    };
    // Not in a workspace: those that were reset have done nothing yet.
    note(control, None, format!("reset: {whose}"), false);
    let keys: Vec<_> = reset.iter().map(|workspace| call.redactor().key(workspace.name())).collect();
    let ids: Vec<&str> = reset.iter().map(|workspace| workspace.id()).collect();
    Ok(ok(json!({ "reset": ids, "keys": keys, "generation": control.library.load().number })))
}

/// Forgets one workspace: its state, quota, clock and random source, the scenarios and knobs of its own, its part of the journal
/// and its deliveries.
pub fn forget(control: &Control, workspace: &Workspace) {
    let name = workspace.name();
    control.library.forget_key(name, control.registry.clock().moment());
    control.registry.forget(name);
    let generation = control.library.load();
    let profile = &generation.setup_for(Some(name)).profile;
    control.registry.tokens().forget(|key| workspace_of(key, profile) == name.as_ref());
    control.book.clear(Some(name));
    control.journal.clear(Some(name));
}

/// Forgets everything: all workspaces, what was said over the control API, what the built-in receivers got. The clock shows what
/// it showed at the start, or the machine's time.
pub fn forget_all(control: &Control) -> Result<Vec<Arc<Workspace>>, Vec<Diagnostic>> {
    control.library.restart(control.registry.clock().moment())?;
    // In this order: whoever moves the clock that was restarted finds no workspace of before.
    let forgotten = control.registry.forget_all();
    control.registry.clock().restart();
    control.registry.tokens().forget(|_| true);
    control.book.clear(None);
    control.journal.clear(None);
    control.sinks.clear();
    Ok(forgotten)
}

#[cfg(test)]
mod tests {
    use crate::Emulator;

    #[tokio::test]
    async fn a_clock_that_was_restarted_moves_no_workspace_of_before() {
        let emulator = Emulator::builder().frozen_at(jiff::Timestamp::UNIX_EPOCH).start().await.expect("it starts");
        let registry = emulator.control().registry();
        for _ in 0..10 {
            for number in 0..1_000 {
                registry.open(&format!("sk_test_{number}"), registry.clock().now());
            }
            let (clock, before) = (registry.clock().clone(), registry.anonymous());
            let life = clock.life();
            let seen = std::thread::spawn(move || {
                while clock.life() == life {
                    std::hint::spin_loop();
                }
                before.has_left()
            });
            emulator.control().reset_all().expect("it is reset");
            assert!(seen.join().expect("the clock was restarted"), "the clock was restarted too early");
        }
    }
}
