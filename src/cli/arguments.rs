//! Arguments that several commands share: how to reach the emulator, whether to print JSON, and the id of one thing.

use clap::Args;

use super::client::Call;
use super::help::LAST;
use super::target::Target;
use crate::control::api::Endpoint;

/// Arguments of every command that prints an answer of the control API.
#[derive(Debug, Args)]
pub(super) struct CallArgs {
    #[command(flatten)]
    pub(super) target: Target,
    /// Print JSON.
    #[arg(long, display_order = LAST)]
    pub(super) json: bool,
}

impl CallArgs {
    /// A call whose answer is printed as text or JSON.
    pub(super) fn call<E: Endpoint>(&self) -> Call<'_, E> {
        Call::to(&self.target).json(self.json)
    }
}

/// Arguments of commands about one thing, named by its id.
#[derive(Debug, Args)]
pub(super) struct OneArgs {
    /// Its id, as listings and answers show it.
    pub(super) id: String,
    #[command(flatten)]
    pub(super) common: CallArgs,
}

impl OneArgs {
    /// A call about this thing.
    pub(super) fn call<E: Endpoint>(&self) -> Call<'_, E> {
        self.common.call().id(&self.id)
    }
}

/// Whether a flag was typed, and does not come from the environment.
pub(super) fn is_typed(flag: &str) -> bool {
    std::env::args().any(|word| word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
}
