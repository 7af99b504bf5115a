//! Connections to receivers: dials the addresses that the egress guard permits, speaks TLS if the URL says so, and drives HTTP/1.1.
//! Each kind of failure has its own reason and names the flag that fixes it.
//!
//! A [`Link`] has no task of its own: the attempt that sends a request drives it, so that no other task, and maybe thread, has to
//! be woken for a request and again for its answer. Which connections are kept is in `client`.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use std::{fmt, io};

use futures_util::task::AtomicWaker;
use hyper::client::conn::http1;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, Error as TlsError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Host;

use crate::http::outgoing::Outgoing;
use crate::state::workspace::FailureReason;
use crate::util::tasks::{boxed, spawn};
use crate::util::wording::any_of;
use crate::webhook::egress::{Egress, Target};
use crate::webhook::resolve::{NotFound, Resolver, lacks_descriptors};
use crate::webhook::tls::Trust;

#[derive(Clone, Debug)]
pub struct DialProblem {
    pub reason: FailureReason,
    pub detail: String,
}

impl DialProblem {
    pub(super) fn new(reason: FailureReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

pub(super) fn permitted(
    target: &Target,
    addresses: &[SocketAddr],
    reach: &DialContext,
) -> Result<Vec<SocketAddr>, DialProblem> {
    let chosen = reach.egress.choose(target, addresses);
    chosen.map_err(|detail| DialProblem::new(FailureReason::EgressRefused, detail))
}

/// Opens a connection to a server at one of its addresses, with TLS if the URL says so.
pub async fn dial(
    target: &Target,
    addresses: &[SocketAddr],
    reach: &DialContext,
    connect_timeout: Duration,
) -> Result<Link, DialProblem> {
    let addresses = permitted(target, addresses, reach)?;
    let stream = connect(target, &addresses, connect_timeout).await?;
    let stream: Box<dyn ByteStream> = if target.url.scheme() == "https" {
        Box::new(handshake(target, stream, &reach.trust, connect_timeout).await?)
    } else {
        Box::new(stream)
    };
    Link::open(stream)
        .await
        .map_err(|error| DialProblem::new(FailureReason::ConnectionReset, format!("the connection was lost: {error}")))
}

/// The addresses of a server. Addresses and names of this machine need no look-up; `share` bounds the look-ups of the workspace.
pub async fn resolve(
    target: &Target,
    resolver: &Arc<Resolver>,
    share: &Arc<Semaphore>,
) -> Result<Vec<SocketAddr>, DialProblem> {
    let (host, port) = (target.host_text(), target.url.port_or_known_default().unwrap_or(443));
    match target.url.host() {
        Some(Host::Ipv4(address)) => return Ok(vec![SocketAddr::from((address, port))]),
        Some(Host::Ipv6(address)) => return Ok(vec![SocketAddr::from((address, port))]),
        _ => {}
    }
    // RFC 6761: localhost and names below it are this machine, whatever a resolver answers.
    if host == "localhost" || host.ends_with(".localhost") {
        return Ok(vec![
            SocketAddr::from(([127, 0, 0, 1], port)),
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port)),
        ]);
    }
    match resolver.resolve(host, share).await {
        Ok(addresses) => Ok(addresses.iter().map(|address| SocketAddr::from((*address, port))).collect()),
        Err(cause) if cause.lacks_descriptors => Err(no_descriptors(&cause.text)),
        Err(NotFound { text: cause, .. }) => {
            let detail = format!("the name `{host}` has no address ({cause}); {}", target.elsewhere());
            Err(DialProblem::new(FailureReason::NameNotFound, detail))
        }
    }
}

async fn connect(target: &Target, addresses: &[SocketAddr], limit: Duration) -> Result<TcpStream, DialProblem> {
    let mut last = DialProblem::new(FailureReason::NameNotFound, format!("`{}` has no address", target.host_text()));
    let mut refused = Vec::new();
    for address in addresses {
        last = match timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                refused.push(address.to_string());
                let (tried, elsewhere) = (any_of(&refused), target.elsewhere());
                let detail = format!("nothing listens on {tried}; start your receiver there; {elsewhere}");
                DialProblem::new(FailureReason::ConnectionRefused, detail)
            }
            Ok(Err(error)) if lacks_descriptors(&error) => return Err(no_descriptors(&error)),
            Ok(Err(error)) => {
                DialProblem::new(FailureReason::ConnectionRefused, format!("cannot connect to {address}: {error}"))
            }
            Err(_) => {
                let detail = format!(
                    "{address} did not accept a connection within {} s (webhooks.connect_timeout)",
                    limit.as_secs_f64()
                );
                DialProblem::new(FailureReason::ConnectTimeout, detail)
            }
        };
    }
    Err(last)
}

fn no_descriptors(cause: &dyn std::fmt::Display) -> DialProblem {
    let detail = format!(
        "no file descriptor is left for a connection ({cause}); raise the limit with `ulimit -n`, or lower --max-connections"
    );
    DialProblem::new(FailureReason::NoDescriptors, detail)
}

async fn handshake(
    target: &Target,
    stream: TcpStream,
    trust: &Trust,
    limit: Duration,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, DialProblem> {
    let host = target.host_text().trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| DialProblem::new(FailureReason::TlsFailed, format!("`{host}` cannot be a certificate's name")))?;
    let connected = async { TlsConnector::from(trust.config().await).connect(name, stream).await };
    match timeout(limit, connected).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(tls_problem(target, host, trust, &error)),
        Err(_) => {
            let detail = format!(
                "`{host}` accepted the connection but said nothing in the TLS handshake for {} s (webhooks.connect_timeout); is it a TLS server?",
                limit.as_secs_f64()
            );
            Err(DialProblem::new(FailureReason::TlsTimeout, detail))
        }
    }
}

fn tls_problem(target: &Target, host: &str, trust: &Trust, error: &io::Error) -> DialProblem {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    let (reason, detail) = match tls {
        Some(TlsError::InvalidCertificate(problem)) => match problem {
            // An authority that was regenerated under the same name shows up as a bad signature.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => (
                FailureReason::UnknownCertificateAuthority,
                if trust.has_authorities() {
                    format!(
                        "none of the authorities of --webhook-ca signed the certificate of `{host}`; add its own, or --webhook-insecure to skip the check"
                    )
                } else {
                    format!(
                        "the certificate of `{host}` is not signed by an authority known here; pass its CA with --webhook-ca FILE, or --webhook-insecure to skip the check"
                    )
                },
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
                FailureReason::CertificateNameMismatch,
                format!(
                    "the certificate is not for `{host}`: {problem}; use a name that it holds, or --webhook-insecure to skip the check; {}",
                    target.elsewhere()
                ),
            ),
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => (
                FailureReason::CertificateExpired,
                format!(
                    "the certificate of `{host}` is not valid at present: {problem}; renew it, or --webhook-insecure to skip the check"
                ),
            ),
            other => (
                FailureReason::TlsFailed,
                format!("the certificate of `{host}` is not acceptable: {other}; --webhook-insecure skips the check"),
            ),
        },
        Some(TlsError::InvalidMessage(_)) => {
            let plain = target.origin.replacen("https:", "http:", 1);
            let forward = target.forward_to(&plain);
            let detail = format!("`{host}` does not speak TLS there; to deliver over plain HTTP: {forward}");
            (FailureReason::NotTls, detail)
        }
        Some(other) => (FailureReason::TlsFailed, format!("the TLS handshake with `{host}` failed: {other}")),
        None => (FailureReason::TlsFailed, format!("the TLS handshake with `{host}` was broken off: {error}")),
    };
    DialProblem::new(reason, detail)
}

#[derive(Clone, Debug)]
pub struct DialContext {
    pub egress: Arc<Egress>,
    pub trust: Arc<Trust>,
    pub resolver: Arc<Resolver>,
}

pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// Sends requests on a connection. One type, so that the code of a client's connection is compiled once.
pub type Sender = SendRequest<Outgoing>;

type Connection = http1::Connection<TokioIo<Box<dyn ByteStream>>, Outgoing>;

pub async fn open(stream: Box<dyn ByteStream>) -> hyper::Result<Sender> {
    let (sender, connection) = http(stream).await?;
    // Ends when the sender is dropped or the peer closes.
    spawn(async move { drop(connection.await) });
    Ok(sender)
}

async fn http(stream: Box<dyn ByteStream>) -> hyper::Result<(Sender, Connection)> {
    http1::Builder::new().max_buf_size(64 * 1024).max_headers(128).writev(false).handshake(TokioIo::new(stream)).await
}

/// How often connection and work are polled for one wake-up, at most. Usually twice; a runtime that wants a task to yield wakes it
/// again and again.
const MOST_ROUNDS: usize = 8;

pub struct Link {
    sender: Sender,
    /// `None` once it is closed.
    connection: Option<Connection>,
    signal: Arc<Signal>,
    waker: Waker,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("is_closed", &self.connection.is_none()).finish_non_exhaustive()
    }
}

impl Link {
    pub async fn open(stream: Box<dyn ByteStream>) -> hyper::Result<Self> {
        let (sender, connection) = http(stream).await?;
        let signal = Arc::new(Signal::default());
        let waker = Waker::from(Arc::clone(&signal));
        Ok(Self { sender, connection: Some(connection), signal, waker })
    }

    pub fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    pub async fn run<T>(&mut self, work: impl AsyncFnOnce(&mut Sender) -> T) -> T {
        let Self { sender, connection, signal, waker } = self;
        let mut work = pin!(work(sender));
        poll_fn(|context| {
            // What wakes the work or the connection while they are polled is only recorded.
            drop(signal.task.take());
            let mut inner = Context::from_waker(waker);
            for _ in 0..MOST_ROUNDS {
                if let Poll::Ready(done) = work.as_mut().poll(&mut inner) {
                    return Poll::Ready(done);
                }
                signal.is_set.store(false, Ordering::SeqCst);
                let open = connection.as_mut().map(|connection| Pin::new(connection).poll(&mut inner));
                if matches!(open, Some(Poll::Ready(_))) {
                    // Whoever still waits for it gets an error.
                    *connection = None;
                    continue;
                }
                if !signal.is_set.load(Ordering::SeqCst) {
                    signal.task.register(context.waker());
                    // Set in between, when there was no task to wake.
                    if !signal.is_set.load(Ordering::SeqCst) {
                        return Poll::Pending;
                    }
                    drop(signal.task.take());
                }
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

impl Drop for Link {
    /// Ends the connection in a task, as TLS sends a closing message.
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(boxed(async move { drop(connection.await) }));
        }
    }
}

#[derive(Debug, Default)]
struct Signal {
    is_set: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Ordering::SeqCst);
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use crate::webhook::resolve::LookUp;

    use super::*;

    fn target(url: &str) -> Target {
        Target::new(Url::parse(url).expect("a URL"), None).expect("a server")
    }

    #[tokio::test]
    async fn addresses_and_local_names_are_not_looked_up() {
        let resolver = Arc::new(Resolver::new(LookUp::new(|name| panic!("{name} is looked up"))));
        for (url, expected) in [
            ("https://10.0.0.1/", vec!["10.0.0.1:443"]),
            ("http://[fd12::1]:8080/", vec!["[fd12::1]:8080"]),
            ("http://localhost:3000/", vec!["127.0.0.1:3000", "[::1]:3000"]),
            ("https://any.name.localhost/", vec!["127.0.0.1:443", "[::1]:443"]),
        ] {
            let found = resolve(&target(url), &resolver, &Arc::new(Semaphore::new(1))).await.expect("addresses");
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn a_refused_connection_says_where_nothing_listens() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let problem =
            connect(&target("https://a.example"), &[closed], Duration::from_secs(5)).await.expect_err("nobody listens");
        assert_eq!(problem.reason, FailureReason::ConnectionRefused);
        assert!(problem.detail.starts_with(&format!("nothing listens on {closed}")), "{}", problem.detail);
        // Not refused: no socket can be connected to a broadcast address.
        let unreachable = SocketAddr::from(([255, 255, 255, 255], 9));
        let problem =
            connect(&target("https://a.example"), &[unreachable], Duration::from_secs(5)).await.expect_err("no way");
        assert!(problem.detail.starts_with("cannot connect to"), "{}", problem.detail);
    }
}
