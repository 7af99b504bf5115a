//! Evidence of what deliveries did: a command that prints a count or any other text that changes with each effect.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// How long the command may run.
const LIMIT: Duration = Duration::from_secs(2);
/// Most bytes of what it prints that are kept.
const MOST_BYTES: usize = 4096;

/// A command line for `sh` that prints the effect of all deliveries so far.
#[derive(Clone, Debug)]
pub struct EffectCommand(pub String);

/// Why an effect cannot be known.
#[derive(Debug, thiserror::Error)]
pub enum EffectProblem {
    /// The command cannot be run.
    #[error("cannot run `sh`: {0}")]
    NotRun(std::io::Error),
    /// The command ended with another status than 0.
    #[error("it ended with {status}: {stderr}")]
    Failed {
        /// How it ended.
        status: std::process::ExitStatus,
        /// The last line that it wrote to stderr.
        stderr: String,
    },
    /// The command did not end in time.
    #[error("it did not end within {} s", LIMIT.as_secs())]
    TookTooLong,
}

impl EffectCommand {
    /// Runs the command; what it prints, without white space around it.
    pub async fn read(&self) -> Result<String, EffectProblem> {
        let mut command = Command::new("sh");
        command.args(["-c", &self.0]).stdin(Stdio::null()).kill_on_drop(true);
        let output = timeout(LIMIT, command.output()).await.map_err(|_| EffectProblem::TookTooLong)?;
        let output = output.map_err(EffectProblem::NotRun)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_BYTES)]).trim().to_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let stderr = text(&output.stderr).lines().last().unwrap_or_default().to_owned();
        Err(EffectProblem::Failed { status: output.status, stderr })
    }
}
