//! One listener's front door: control calls to the control API, everything else to the emulated API.

use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};

use crate::contract::error::ErrorKind;
use crate::control::{Control, ControlError, PREFIX};
use crate::http::Handler;
use crate::http::answer::AnswerBody;
use crate::http::connection::{Progress, Refusals};
use crate::http::guard::caught;
use crate::http::host::check_host;
use crate::http::service::Api;

/// What one listener serves.
pub(super) struct Front {
    /// The emulated API.
    pub(super) api: Option<Arc<Api>>,
    /// The control API.
    pub(super) control: Option<Arc<Control>>,
    /// Answers bytes that are no request.
    pub(super) refusals: Arc<Api>,
}

impl Refusals for Front {
    fn refuse(&self, status: StatusCode) -> Bytes {
        self.refusals.refuse(status)
    }
}

impl Handler for Front {
    async fn handle(&self, request: Request<Incoming>, progress: &Progress) -> Response<AnswerBody> {
        let for_control = request.uri().path().starts_with(PREFIX);
        match (&self.control, &self.api) {
            (Some(control), _) if for_control => {
                let host = check_host(request.method(), request.uri(), request.version(), request.headers());
                match host.map(str::to_owned) {
                    Ok(host) => caught(control.handle(request, &host)).await.unwrap_or_else(|_| {
                        let kind = ErrorKind::InternalError;
                        ControlError::new(kind, kind.message()).into_response()
                    }),
                    Err(problem) => ControlError::new(ErrorKind::BadRequest, problem.to_string()).into_response(),
                }
            }
            (_, Some(api)) => api.handle(request, progress).await,
            _ => ControlError::new(ErrorKind::NotFound, "this port serves the control API only").into_response(),
        }
    }
}
