//! Arguments that several commands share: how to reach the emulator, whether to print JSON, the id of one thing, and a file for
//! results.

use std::fs::File;
use std::path::Path;

use clap::Args;

use super::client::Call;
use super::failure::Failure;
use super::help::LAST;
use super::target::Target;
use crate::control::api::Endpoint;
use crate::file;

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

/// Creates the results file that a flag names, or empties it. Done before any work, so that an unwritable path fails at once
/// and no older results remain.
pub(super) fn created(flag: &str, path: &Path) -> Result<File, Failure> {
    file::create(path).map_err(|problem| Failure::io(format!("{flag}: cannot write `{}`: {problem}", path.display())))
}
