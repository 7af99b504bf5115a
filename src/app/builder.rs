//! A builder for the settings, to embed an emulator in a Rust test.

use std::path::PathBuf;

use jiff::Timestamp;

use super::{ClockSetting, Emulator, Settings, StartError};
use crate::http::handler::Limits;
use crate::http::listener::ListenAddress;
use crate::settings::{Draft, Forward};

/// Collects settings; [`Builder::start`] reports their problems.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    settings: Settings,
    /// The profile so far. Presets and settings are validated together at the end.
    draft: Option<Draft>,
    problem: Option<String>,
}

impl Emulator {
    /// Default settings on a free loopback port, to be changed before the emulator starts.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    fn draft(&mut self) -> &mut Draft {
        self.draft.get_or_insert_with(|| Draft::of(&self.settings.profile))
    }

    /// Validates the draft and makes it the profile of the settings.
    fn finish_draft(&mut self) {
        match self.draft.take().map(Draft::finish) {
            None => {}
            Some(Ok(profile)) => self.settings.profile = profile,
            Some(Err(problems)) => {
                let texts: Vec<String> =
                    problems.iter().map(|problem| format!("{}; {}", problem.message, problem.hint)).collect();
                self.problem.get_or_insert(texts.join("\n"));
            }
        }
    }

    /// Serves on this address instead of a free loopback port.
    #[must_use]
    pub fn listen(mut self, address: impl Into<ListenAddress>) -> Self {
        self.settings.listen = address.into();
        self
    }

    /// Fixes every id, secret and dice roll.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// Starts with a clock frozen at this time until it is advanced.
    #[must_use]
    pub fn frozen_at(mut self, at: Timestamp) -> Self {
        self.settings.clock = ClockSetting::Frozen(Some(at));
        self
    }

    /// Starts with a clock at this time that passes by itself: it jumps to the next due instant while a call waits and nothing is in flight.
    #[must_use]
    pub fn auto_from(mut self, at: Timestamp) -> Self {
        self.settings.clock = ClockSetting::Auto(Some(at));
        self
    }

    /// Puts a preset (`friendly`, `hostile`) on top of the profile, as `--profile NAME` does. Later settings win.
    #[must_use]
    pub fn preset(mut self, name: &str) -> Self {
        self.draft().preset(name);
        self
    }

    /// Changes one setting of the profile, as `--set path=value` does.
    #[must_use]
    pub fn set(mut self, assignment: &str) -> Self {
        self.draft().assignment(assignment, "builder");
        self
    }

    /// Reads scenario files from this folder and watches it.
    #[must_use]
    pub fn scenario_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.settings.scenario_folders.given.push(folder.into());
        self
    }

    /// Makes a scenario active from the start.
    #[must_use]
    pub fn scenario(mut self, name: impl Into<String>) -> Self {
        self.settings.scenarios.push(name.into());
        self
    }

    /// Makes a scenario given as TOML active from the start.
    #[must_use]
    pub fn scenario_text(mut self, text: impl Into<String>) -> Self {
        self.settings.scenario_texts.push(text.into());
        self
    }

    /// Delivers webhooks elsewhere: `https://app.example.com=http://localhost:3000`.
    #[must_use]
    pub fn forward(mut self, rule: &str) -> Self {
        match Forward::parse(rule) {
            Ok(rule) => self.draft().forward(&rule, "builder"),
            Err(problem) => drop(self.problem.get_or_insert(problem)),
        }
        self
    }

    /// Trusts the authorities in this PEM file when delivering webhooks.
    #[must_use]
    pub fn webhook_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.settings.webhook_ca.push(file.into());
        self
    }

    /// Lets webhooks go to this public host.
    #[must_use]
    pub fn allow_egress(mut self, host: impl Into<String>) -> Self {
        self.settings.allow_egress.push(host.into());
        self
    }

    /// Replaces the limits on connections and requests.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Changes any other setting.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        self.finish_draft();
        change(&mut self.settings);
        self
    }

    /// Starts the emulator.
    pub async fn start(mut self) -> Result<Emulator, StartError> {
        self.finish_draft();
        match self.problem {
            Some(problem) => Err(StartError::Setting(problem)),
            None => Emulator::start(self.settings).await,
        }
    }
}
