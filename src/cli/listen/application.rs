//! `listen --forward-to`: forwards each delivery unchanged to an application and returns its answer. Must not know whether the
//! delivery verified.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use serde::Serialize;
use tokio::sync::Semaphore;
use url::Url;

use crate::cli::failure::{Failure, warn};
use crate::http::tls::Trust;
use crate::state::workspace::{AttemptOutcome, FailureReason};
use crate::webhook::client::DialContext;
use crate::webhook::client::{Client, Post};
use crate::webhook::egress::{Egress, Target};
use crate::webhook::resolve::{LookUp, Resolver};

const OF_THE_CONNECTION: [HeaderName; 8] =
    [CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
const TIMEOUT: Duration = Duration::from_secs(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const MOST_KEPT: usize = 8;

pub(super) struct Application {
    client: Arc<Client>,
    url: Url,
    /// The URL of this receiver.
    from: String,
    look_ups: Arc<Semaphore>,
}

/// What became of a delivery that was forwarded. As JSON, where it went and the problem.
#[derive(Serialize)]
pub(super) struct Forwarded {
    /// The status to answer: the application's, or 502.
    #[serde(skip)]
    pub(super) status: u16,
    /// The body of the answer, possibly cut off.
    #[serde(skip)]
    pub(super) body: Bytes,
    #[serde(skip)]
    pub(super) retry_after: Option<Duration>,
    pub(super) to: String,
    pub(super) problem: Option<String>,
}

/// Parses the application's address: a port, `localhost:3000/hooks`, or a whole URL.
pub(super) fn application_url(text: &str) -> Result<Url, Failure> {
    let is_port = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let spelled = match (is_port, text.contains("://")) {
        (true, _) => format!("http://localhost:{text}"),
        (false, true) => text.to_owned(),
        (false, false) => format!("http://{text}"),
    };
    let url = Url::parse(&spelled).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| {
        Failure::usage(format!("--forward-to: expected an address, found `{}`", text.escape_debug()))
            .with_hint("for example `--forward-to localhost:3000/hooks`")
    })
}

impl Application {
    /// The application at `url`. Public hosts must be allowed, as for the emulator's own deliveries.
    pub(super) fn new(url: Url, from: String, allow_egress: &[String]) -> Self {
        let egress = Arc::new(Egress::new(allow_egress));
        // Deliveries are test data, so an impostor of the application would learn nothing.
        let trust = Arc::new(Trust::new(&[], true).expect("no file is read"));
        let resolver = Arc::new(Resolver::new(LookUp::default()));
        let client = Client::new(DialContext { egress, trust, resolver }, MOST_KEPT);
        Self { client, url, from, look_ups: Arc::new(Semaphore::new(MOST_KEPT)) }
    }

    /// Refuses an application that may not be called. One that does not answer yet may start later.
    pub(super) async fn check(&self) -> Result<(), Failure> {
        let Some(target) = Target::new(self.url.clone(), Some(&self.from)) else { return Ok(()) };
        match self.client.check(&target, &self.look_ups, CONNECT_TIMEOUT).await {
            Err(problem) if problem.reason == FailureReason::EgressRefused => {
                Err(Failure::usage(format!("--forward-to: {}", problem.detail)))
            }
            Err(problem) if problem.reason == FailureReason::NameNotFound => {
                warn(&format!("--forward-to: {}", problem.detail));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Forwards a delivery: to the application's URL, or, if that has no path, with the delivery's own path.
    pub(super) async fn forward(&self, target: &str, headers: &HeaderMap, body: Bytes) -> Forwarded {
        let mut url = self.url.clone();
        if url.path() == "/"
            && let Ok(joined) = url.join(&format!(".{target}"))
        {
            url = joined;
        }
        let to = url.to_string();
        let outcome = match Target::new(url, Some(&self.from)) {
            None => Err("no request can be made for this URL".to_owned()),
            Some(target) => self.post(Arc::new(target), headers, body).await,
        };
        match outcome {
            Ok((status, body, retry_after)) => Forwarded { status, body, retry_after, to, problem: None },
            Err(problem) => {
                Forwarded { status: 502, body: Bytes::new(), retry_after: None, to, problem: Some(problem) }
            }
        }
    }

    async fn post(
        &self,
        target: Arc<Target>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<(u16, Bytes, Option<Duration>), String> {
        let mut headers = headers.clone();
        for name in OF_THE_CONNECTION {
            headers.remove(name);
        }
        let post = Post {
            target,
            headers,
            body,
            timeout: TIMEOUT,
            looked_up: Duration::ZERO,
            connect_timeout: CONNECT_TIMEOUT,
            addresses: None,
            look_ups: Arc::clone(&self.look_ups),
        };
        match self.client.post(post).await {
            AttemptOutcome::Answered { status: status @ 200..=599, body, retry_after } => {
                Ok((status, body, retry_after))
            }
            AttemptOutcome::Answered { status, .. } => Err(format!("it answered {status}")),
            AttemptOutcome::Failed { detail, .. } => Err(detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_named_as_people_type_it() {
        for (text, expected) in [
            ("3000", Some("http://localhost:3000/")),
            ("localhost:3000/hooks", Some("http://localhost:3000/hooks")),
            ("127.0.0.1:80/a?b=1", Some("http://127.0.0.1/a?b=1")),
            ("https://localhost:3000", Some("https://localhost:3000/")),
            ("", None),
            ("ftp://localhost", None),
            ("http://", None),
        ] {
            assert_eq!(application_url(text).ok().map(|url| url.to_string()).as_deref(), expected, "{text}");
        }
    }
}
