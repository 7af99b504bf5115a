//! Layer 6, the control API under `/_emulator/`: everything that the command line can do. Overview.
//!
//! One file a resource; `guard` says who may call and `guesses` slows who may not, `route` which call is meant, `view` how things are shown. What a
//! call does is the engine's business.

#[allow(clippy::struct_field_names, reason = "fields are as on the wire")]
pub(crate) mod api;
mod call;
mod clock;
mod deliveries;
mod diagnosis;
mod dispatch;
mod events;
mod explain;
mod filter;
mod guard;
mod guesses;
mod health;
mod metrics;
mod openapi;
mod profile;
mod reply;
mod requests;
mod reset;
mod route;
mod routes;
mod scenarios;
mod schemas;
mod scope;
mod snapshot;
mod stream;
mod subscriptions;
mod verification;

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

pub use guard::Access;
pub use guesses::Guesses;
pub use reply::{ControlError, Reply};
pub use routes::openapi_document;
pub use stream::{MOST_VIEWERS, Texts};

use crate::engine::Engine;
use crate::http::body::BodyReader;
use crate::profile::Profile;

/// How much there may be, for the page that lists it.
pub(crate) mod limits {
    pub(crate) use super::MOST_VIEWERS as VIEWERS;
    pub(crate) use super::call::LONGEST_WAIT;
    pub(crate) use super::events::{
        MOST_EVENTS as EVENTS, MOST_SHOWN as EVENTS_SHOWN, MOST_SHOWN_BYTES as EVENTS_SHOWN_BYTES,
    };
    pub(crate) use super::guesses::{MOST_A_SECOND as GUESSES_A_SECOND, MOST_ADDRESSES as GUESSING_ADDRESSES};
    pub(crate) use super::snapshot::{MOST_BYTES as SNAPSHOT_BYTES, MOST_MEMORY as SNAPSHOT_MEMORY};
    pub(crate) use super::stream::{
        PIECE as PIECE_ENTRIES, PIECE_BYTES, TEXT_BYTES as SHARED_TEXT_BYTES, TEXTS as SHARED_TEXTS,
    };
    pub(crate) use super::verification::MOST_SHOWN as VERDICT_ENTRIES;
}

/// Every control path begins so.
pub const PREFIX: &str = "/_emulator/";

/// The control API over an engine, whose parts and methods it has.
#[derive(Debug)]
pub struct Control {
    /// What it controls.
    pub engine: Arc<Engine>,
    /// Reads bodies within the limits.
    pub bodies: Arc<BodyReader>,
    /// The authority made for `--tls self-signed`.
    pub ca_pem: Option<String>,
    /// Viewers of the event stream, at most so many at a time.
    pub viewers: Arc<Semaphore>,
    /// What they were sent a moment ago.
    pub texts: Arc<Texts>,
    /// Who may call.
    pub access: Access,
    /// Becomes true when the emulator stops.
    pub stopping: watch::Receiver<bool>,
    /// Who tried to, with a wrong token.
    pub guesses: Arc<Guesses>,
}

impl Deref for Control {
    type Target = Arc<Engine>;

    fn deref(&self) -> &Arc<Engine> {
        &self.engine
    }
}

impl Control {
    /// The profile by which things are shown: the one in force for every key without one of its own.
    pub fn profile(&self) -> Arc<Profile> {
        self.profile_for(None)
    }
}
