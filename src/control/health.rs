//! `GET health`, `GET ca.pem`: whether the emulator is ready, what it serves, and whom to trust.

use serde_json::json;

use hyper::StatusCode;
use hyper::header::HeaderValue;

use super::{Control, ControlError, Reply, ok};
use crate::diagnostic::Diagnostic;
use crate::http::answer::answer;

pub(super) fn health(control: &Control) -> Reply {
    let generation = control.library.load();
    // A broken edit changes nothing; this says that there is one.
    let broken = control.library.diagnostics().iter().any(Diagnostic::is_error);
    ok(json!({
        "status": "ready",
        "version": env!("CARGO_PKG_VERSION"),
        "generation": generation.number,
        "scenarios": if broken { "last good" } else { "as saved" },
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
