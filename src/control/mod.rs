//! Layer 6, the control API under `/_emulator/`: everything that the command line can do. Overview.
//!
//! One file per resource, with the types of its calls, their handlers and their texts. `routes` lists the calls and has the path of one
//! call through them, `guard` checks who may call. The engine carries out what a call changes.

#![allow(clippy::struct_field_names, reason = "fields are as on the wire")]

mod absence;
mod activation;
mod call;
mod cause;
mod causes;
mod clock;
mod command;
mod conclusion;
mod context;
mod deliveries;
mod delivery_wait;
mod diagnosis;
mod document;
mod due;
mod events;
mod exec_facts;
mod explain;
mod facts;
mod fields;
mod findings;
mod grid;
mod guard;
mod judged;
mod openapi;
mod page;
mod problems;
mod profile;
mod progress;
mod refusal;
pub(crate) mod render;
mod reply;
mod report;
mod request_filter;
mod request_wait;
mod requests;
mod routes;
mod run;
mod scenarios;
mod sign;
mod snapshot;
pub(crate) mod story;
mod stream;
mod subscriptions;
mod system;
mod test_outcome;
mod test_runs;
mod unfinished;
mod verdict;

/// The calls that the command line makes, and their answers.
pub(crate) mod api {
    pub(crate) use crate::control::call::{Body, Call, CallAnswer, ControlCall, Query};
    pub(crate) use crate::control::command::{CallCommand, CommandGroup, Sent};
    pub(crate) use crate::control::{
        activation::*, cause::*, clock::*, deliveries::*, events::*, exec_facts::*, explain::*, fields::*, findings::*,
        grid::*, judged::*, problems::*, profile::*, report::*, requests::*, run::*, scenarios::*, sign::*,
        snapshot::*, stream::*, subscriptions::*, system::*, verdict::*,
    };
    pub(crate) use crate::state::journal::record::*;
}

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

pub(crate) use context::check_wait;
pub(crate) use diagnosis::{ExplainedStep, StepVerdict};
pub use findings::LastFindings;
pub use guard::{Access, WrongTokens};
pub use page::Viewer;
pub use reply::ControlError;
use reply::ControlReply;
pub(crate) use request_filter::operation_named;
pub(crate) use routes::commands;
pub use routes::{openapi_document, run_schema};
pub use stream::{MAX_VIEWERS, Texts};

use crate::http::body::BodyReader;
use crate::settings::Profile;
use crate::state::engine::Engine;
use crate::state::workspace::RefusedCall;
use crate::util::flag::Flag;

/// The prefix of every control path.
pub const PREFIX: &str = "/_emulator/";

/// The control API of an engine.
#[derive(Debug)]
pub struct Control {
    pub engine: Arc<Engine>,
    /// Reads bodies within the limits.
    pub bodies: Arc<BodyReader>,
    /// The certificate authority made for `--tls self-signed`, as PEM.
    pub ca_pem: Option<String>,
    /// A permit for each further viewer of the event stream.
    pub viewers: Arc<Semaphore>,
    /// The last texts sent to viewers.
    pub texts: Arc<Texts>,
    pub access: Access,
    /// Becomes true when the emulator stops.
    pub stopping: Flag,
    pub wrong_tokens: WrongTokens,
    /// The control call that was refused last, since the start or a reset: why a command sent no request, if it sent none.
    pub last_refused: Mutex<Option<RefusedCall>>,
    /// The findings that were made last.
    pub last_findings: LastFindings,
    /// The number that the seed was given as.
    pub seed: Option<u64>,
    /// By the emulator's clock.
    pub started_at: Timestamp,
    /// Where the emulated API is served.
    pub base_url: String,
    /// Where the control API is served.
    pub control_url: String,
}

impl Control {
    /// The profile that decides about masking: the one of keys without their own settings.
    pub fn profile(&self) -> Arc<Profile> {
        self.engine.profile_for(None)
    }
}
