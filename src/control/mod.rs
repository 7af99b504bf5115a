//! Layer 6, the control API under `/_emulator/`: everything that the command line can do. Overview.
//!
//! One file per resource; `routes` lists the calls, `dispatch` the path of one call through it, `guard` checks who may call.
//! The engine carries out what a call changes.

#[allow(clippy::struct_field_names, reason = "fields are as on the wire")]
pub(crate) mod api;
mod call;
mod clock;
mod deliveries;
mod diagnosis;
mod dispatch;
mod due;
mod events;
mod explain;
mod filter;
mod findings;
mod guard;
mod metrics;
mod page;
mod profile;
mod progress;
pub(crate) mod render;
mod reply;
mod requests;
mod route;
mod routes;
mod run;
mod scenarios;
mod scope;
mod snapshot;
mod stream;
mod subscriptions;
mod system;
mod verification;
mod viewer;

use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};

pub(crate) use filter::operation_named;
pub use findings::LastFindings;
pub use guard::{Access, WrongTokens};
pub use reply::{ControlError, Reply};
pub use stream::{MOST_VIEWERS, Texts};
pub use system::{openapi_document, run_schema};
pub use viewer::Viewer;

use crate::http::body::BodyReader;
use crate::settings::Profile;
use crate::state::engine::Engine;

/// The prefix of every control path.
pub const PREFIX: &str = "/_emulator/";

/// The control API of an engine; dereferences to that engine.
#[derive(Debug)]
pub struct Control {
    /// The engine that it controls.
    pub engine: Arc<Engine>,
    /// Reads bodies within the limits.
    pub bodies: Arc<BodyReader>,
    /// The certificate authority made for `--tls self-signed`, as PEM.
    pub ca_pem: Option<String>,
    /// A permit for each further viewer of the event stream.
    pub viewers: Arc<Semaphore>,
    /// The last texts sent to viewers.
    pub texts: Arc<Texts>,
    /// Who may call.
    pub access: Access,
    /// Becomes true when the emulator stops.
    pub stopping: watch::Receiver<bool>,
    pub wrong_tokens: WrongTokens,
    /// The findings that were made last.
    pub last_findings: LastFindings,
    /// How the emulator was started.
    pub start: Start,
}

/// How an emulator was started, for documents about it.
#[derive(Clone, Debug)]
pub struct Start {
    /// The number that its seed was given as.
    pub seed: Option<u64>,
    /// When, by its clock.
    pub at: Timestamp,
    /// Where the emulated API is served.
    pub base_url: String,
    /// Where the control API is served.
    pub control_url: String,
}

impl Deref for Control {
    type Target = Arc<Engine>;

    fn deref(&self) -> &Arc<Engine> {
        &self.engine
    }
}

impl Control {
    /// The profile that decides what is masked: the one of keys without settings of their own.
    pub fn profile(&self) -> Arc<Profile> {
        self.profile_for(None)
    }
}

#[cfg(test)]
mod openapi;
#[cfg(test)]
mod schemas;
