//! Opens connections to receivers: at the addresses that the egress guard permits, with TLS if the URL says so. Each kind of failure
//! has its own reason and names the flag that fixes it.

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, Error as TlsError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::contract::variation::HeaderLetters;
use crate::http::body::ResponseBody;
use crate::http::tls::{Trust, is_about_the_issuer, noting_requests};
use crate::http::tls_file::GOOD_CERTIFICATE;
use crate::http::tls_problem::{certificate_problem, handshake_problem, tls_error};
use crate::state::workspace::FailureReason;
use crate::util::net::TcpStream;
use crate::util::wording::any_of;
use crate::webhook::egress::{DialProblem, DialTarget, Egress};
use crate::webhook::protocol::{FirstBytes, Overheard};
use crate::webhook::resolve::{Resolver, lacks_descriptors, no_descriptors};

pub trait ByteStream: AsyncRead + AsyncWrite + Debug + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Debug + Unpin + Send> ByteStream for S {}

/// A TLS connection to a server. Many servers close the connection without `close_notify`: that is its end, as a close is over plain TCP.
/// The lengths that HTTP declares show whether something is missing before it.
#[derive(Debug)]
pub struct ClientTls<S>(TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> ClientTls<S> {
    pub async fn connect(name: ServerName<'static>, stream: S, trust: &Trust) -> io::Result<Self> {
        TlsConnector::from(trust.config().await).connect(name, stream).await.map(Self)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for ClientTls<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.0).poll_read(cx, buf)) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            read => Poll::Ready(read),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientTls<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Sends requests on a connection. One type, so that the code of a client's connection is compiled once.
pub type Sender = http1::SendRequest<ResponseBody>;

/// A connection, with a task that ends when the sender is dropped or the peer closes.
pub async fn open(stream: Box<dyn ByteStream>, letters: HeaderLetters) -> hyper::Result<Sender> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(64 * 1024).max_headers(128).writev(false).title_case_headers(letters.is_title());
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// A connection to a receiver.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) sender: Sender,
    /// True if it is without TLS.
    pub(super) is_plain: bool,
    /// True if the server asked for a client certificate. With TLS 1.3 it refuses a client without one only after the handshake.
    pub(super) asked_for_certificate: bool,
    /// The first bytes of the server, within TLS if it uses TLS.
    pub(super) first: FirstBytes,
}

pub(super) fn without_certificate(problem: DialProblem) -> DialProblem {
    let detail = format!("{}; it asked for a client certificate, and the emulator sends none", problem.detail);
    DialProblem { detail, ..problem }
}

#[derive(Clone, Debug)]
pub struct DialContext {
    pub egress: Arc<Egress>,
    pub trust: Arc<Trust>,
    pub resolver: Arc<Resolver>,
}

/// Opens a connection to a server at one of its addresses, with TLS if the URL says so.
pub(super) async fn dial(
    target: &DialTarget,
    addresses: &[SocketAddr],
    dial_context: &DialContext,
    connect_timeout: Duration,
    letters: HeaderLetters,
) -> Result<Link, DialProblem> {
    let addresses = dial_context.egress.choose(target, addresses)?;
    let stream = connect(target, &addresses, connect_timeout).await?;
    let is_plain = target.url.scheme() != "https";
    let (stream, asked_for_certificate): (Box<dyn ByteStream>, _) = if is_plain {
        (Box::new(stream), false)
    } else {
        let (stream, asked) = handshake(target, stream, &dial_context.trust, connect_timeout).await?;
        (Box::new(stream), asked)
    };
    let (stream, first) = Overheard::new(stream);
    let opened = open(Box::new(stream), letters).await;
    let sender = opened.map_err(|error| {
        DialProblem::new(FailureReason::ConnectionReset, format!("the connection was lost: {error}"))
    })?;
    Ok(Link { sender, is_plain, asked_for_certificate, first })
}

pub(super) async fn connect(
    target: &DialTarget,
    addresses: &[SocketAddr],
    limit: Duration,
) -> Result<TcpStream, DialProblem> {
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
                let detail = format!("nothing listens on {}", any_of(&refused));
                DialProblem::new(FailureReason::ConnectionRefused, detail).with_hint(Some(target.start_receiver()))
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

/// The stream, and whether the server asked for a client certificate.
async fn handshake(
    target: &DialTarget,
    stream: TcpStream,
    trust: &Trust,
    limit: Duration,
) -> Result<(ClientTls<Overheard<TcpStream>>, bool), DialProblem> {
    let (stream, first) = Overheard::new(stream);
    let host = target.host_text().trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| DialProblem::new(FailureReason::TlsFailed, format!("`{host}` cannot be a certificate's name")))?;
    match timeout(limit, noting_requests(ClientTls::connect(name, stream, trust))).await {
        Ok((Ok(stream), asked)) => Ok((stream, asked)),
        Ok((Err(error), false)) => Err(connect_problem(target, host, trust, &error, &first)),
        Ok((Err(error), true)) => Err(without_certificate(connect_problem(target, host, trust, &error, &first))),
        Err(_) => {
            let detail = format!(
                "`{host}` accepted the connection but said nothing in the TLS handshake for {} s (webhooks.connect_timeout); is it a TLS server?",
                limit.as_secs_f64()
            );
            Err(DialProblem::new(FailureReason::TlsTimeout, detail).with_hint(Some(target.over_other_scheme())))
        }
    }
}

fn connect_problem(
    target: &DialTarget,
    host: &str,
    trust: &Trust,
    error: &io::Error,
    first: &FirstBytes,
) -> DialProblem {
    let failed = || format!("the TLS handshake with `{host}` failed: {}", handshake_problem(error));
    match tls_error(error) {
        Some(TlsError::InvalidCertificate(problem)) => refused_certificate(target, host, trust, problem),
        Some(TlsError::InvalidMessage(_)) => first.other_protocol(target).unwrap_or_else(|| {
            let problem = DialProblem::new(FailureReason::NotTls, format!("`{host}` does not speak TLS there"));
            problem.with_hint(Some(target.over_other_scheme()))
        }),
        None if first.is_empty() => {
            let detail = format!("{}; does it speak TLS there?", failed());
            DialProblem::new(FailureReason::TlsFailed, detail).with_hint(Some(target.over_other_scheme()))
        }
        _ => DialProblem::new(FailureReason::TlsFailed, failed()),
    }
}

fn refused_certificate(target: &DialTarget, host: &str, trust: &Trust, problem: &CertificateError) -> DialProblem {
    const SKIP: &str = "--webhook-insecure to skip the check";
    let what = certificate_problem(problem);
    match problem {
        _ if is_about_the_issuer(problem) => {
            let detail = if trust.has_authorities() {
                format!(
                    "none of the authorities of --webhook-ca signed the certificate of `{host}`; add its own, or {SKIP}"
                )
            } else {
                format!(
                    "the certificate of `{host}` is not signed by an authority known here; pass its CA with --webhook-ca FILE, or {SKIP}"
                )
            };
            DialProblem::new(FailureReason::UnknownCertificateAuthority, detail)
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            let detail =
                format!("the certificate is not for `{host}`: it {what}; use a name that it is for, or {SKIP}");
            let problem = DialProblem::new(FailureReason::CertificateNameMismatch, detail);
            problem.with_hint(target.elsewhere())
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            let detail = format!("the certificate of `{host}` {what}; renew it, or {SKIP}");
            DialProblem::new(FailureReason::CertificateExpired, detail)
        }
        _ => {
            let detail = format!(
                "the certificate of `{host}` {what}; --webhook-insecure skips the check, and a good one is made by {GOOD_CERTIFICATE}"
            );
            DialProblem::new(FailureReason::TlsFailed, detail)
        }
    }
}
