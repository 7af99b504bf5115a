//! `POST reset`: one key, or everything, as it was before the first request.
//!
//! A workspace is not emptied but left behind: whoever still works for it sees that, and its key's next request finds a fresh
//! one. So nothing of before can come through later.

use std::sync::Arc;

use super::call::Input;
use super::notice::{note, whose};
use super::scenarios::refused;
use super::scope::{Scope, scope};
use super::{Control, ControlError, api};
use crate::contract::keys::workspace_of;
use crate::diagnostic::Diagnostic;
use crate::workspace::Workspace;

pub(super) fn reset(control: &Control, input: &Input<api::Reset>) -> Result<api::WasReset, ControlError> {
    let (forgotten, whose) = match scope(control, input)? {
        Scope::One(workspace) => {
            forget(control, &workspace);
            let whose = whose(input, Some(workspace.name()));
            (vec![workspace], whose)
        }
        Scope::All => {
            let forgotten = forget_all(control).map_err(|found| refused(&found))?;
            (forgotten, "all keys, with scenarios, settings and clock as at the start".to_owned())
        }
    };
    // Not in a workspace: those that were reset have done nothing yet.
    note(control, None, format!("reset: {whose}"), false);
    let keys = forgotten.iter().map(|workspace| input.redactor().key(workspace.name()).into_owned()).collect();
    let reset = forgotten.iter().map(|workspace| workspace.id().into()).collect();
    Ok(api::WasReset { reset, keys, generation: control.library.load().number })
}

/// Forgets one workspace: its state, quota, clock and random source, the scenarios and knobs of its own, its part of the journal
/// and its deliveries.
pub fn forget(control: &Control, workspace: &Workspace) {
    let name = workspace.name();
    control.library.forget_key(name, control.registry.clock().moment());
    control.registry.forget(name);
    let generation = control.library.load();
    let profile = &generation.setup_for(Some(name)).profile;
    control.registry.tokens().forget(|key| workspace_of(key, &profile.keys) == name.as_ref());
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
