//! Evidence of what deliveries did: a command that prints a count or any other text that changes with each effect.

use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::process::Group;

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
    #[error("it did not end within {:.1} s", .0.as_secs_f64())]
    TookTooLong(Duration),
}

impl EffectCommand {
    /// Runs the command, for at most `left`; what it prints, without white space around it.
    pub(super) async fn read(&self, left: Duration) -> Result<String, EffectProblem> {
        let output = self.output(LIMIT.min(left)).await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_BYTES)]).trim().to_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let stderr = text(&output.stderr).lines().last().unwrap_or_default().to_owned();
        Err(EffectProblem::Failed { status: output.status, stderr })
    }

    async fn output(&self, limit: Duration) -> Result<Output, EffectProblem> {
        let mut command = Command::new("sh");
        command.args(["-c", &self.0]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // In a group of its own, so that whatever the shell started ends with it.
        let (child, group) = Group::start(command.kill_on_drop(true)).map_err(EffectProblem::NotRun)?;
        if let Ok(output) = timeout(limit, child.wait_with_output()).await {
            return output.map_err(EffectProblem::NotRun);
        }
        group.kill();
        Err(EffectProblem::TookTooLong(limit))
    }
}
