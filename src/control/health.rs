//! `GET health`, `GET ca.pem`: whether the emulator is ready, what it serves, and whom to trust.

use serde_json::json;

use hyper::StatusCode;
use hyper::header::HeaderValue;

use super::{Control, ControlError, Reply, ok};
use crate::http::answer::answer;

pub(super) fn health(control: &Control) -> Reply {
    let generation = control.library.load();
    // A broken or deleted file changes nothing; this says that there is one.
    ok(json!({
        "status": "ready",
        "version": env!("CARGO_PKG_VERSION"),
        "generation": generation.number,
        "scenarios": if control.library.is_as_saved() { "as saved" } else { "last good" },
    }))
}

/// The authority made for `--tls self-signed`.
pub(super) fn ca_pem(control: &Control) -> Result<Reply, ControlError> {
    match &control.ca_pem {
        None => Err(ControlError::not_found("no authority was made; start with --tls self-signed")),
        Some(pem) => {
            let pem_type = HeaderValue::from_static("application/x-pem-file");
            Ok(Reply::of(answer(StatusCode::OK, pem_type, pem.clone())))
        }
    }
}
