//! `GET health`, `GET ca.pem`: whether the emulator is ready, and the certificate authority to trust.

use hyper::StatusCode;
use hyper::header::HeaderValue;

use super::{Control, ControlError, Reply, api};
use crate::http::answer::answer;

pub(super) fn health(control: &Control) -> api::Ready {
    // A broken or deleted file leaves the last valid version active; only this field shows it.
    let scenarios = if control.library.is_as_saved() { "as saved" } else { "last good" };
    api::Ready {
        status: "ready".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        generation: control.library.load().number,
        scenarios: scenarios.to_owned(),
    }
}

/// The certificate authority made for `--tls self-signed`.
pub(super) fn ca_pem(control: &Control) -> Result<Reply, ControlError> {
    match &control.ca_pem {
        None => Err(ControlError::not_found("no authority was made; start with --tls self-signed")),
        Some(pem) => {
            let pem_type = HeaderValue::from_static("application/x-pem-file");
            Ok(Reply::of(answer(StatusCode::OK, pem_type, pem.clone())))
        }
    }
}
