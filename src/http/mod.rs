//! Layer 4, HTTP: the accept loop, connection settings and the graceful drain. Overview of the layer.
//!
//! Any [`Handler`] can be served. Reading order: `connection` (deadlines on the wire) and `connection_state` (what it shares with its
//! requests), `service` (one request of the emulated API end to end), `request`, `answer`, `operations` (one function per operation),
//! `scripted` (scenario rules).

pub mod answer;
pub mod body;
pub mod connection;
pub mod connection_state;
pub mod handler;
pub mod host;
pub mod listener;
mod operations;
pub(crate) mod request;
mod scripted;
pub mod service;
pub mod tls;
pub(crate) mod tls_file;
pub mod tls_problem;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::clock::machine::libraries_may_date;
use crate::http::body::RequestBody;
use crate::http::connection::{LINGER, Socket, TimedStream};
use crate::http::connection_state::ConnectionState;
use crate::http::handler::{Handler, HandlerResponse, Limits, Unreadable};
use crate::http::listener::Listener;
use crate::http::tls::ServerTls;
use crate::http::tls_problem::handshake_problem;
use crate::util::flag::Flag;
use crate::util::net::TcpStream;

/// How long after the grace period a stop waits for what should have ended within it.
const AFTER_GRACE: Duration = Duration::from_millis(500);

/// Serves until `stop` is raised, then finishes requests under way, at most for `grace`.
pub async fn serve(
    listener: Listener,
    handler: Arc<dyn Handler>,
    tls: Option<ServerTls>,
    limits: Limits,
    stop: Flag,
    grace: Duration,
) {
    let permits = Arc::new(Semaphore::new(limits.connections));
    // Each connection holds a sender; the drain is over when the last one is gone.
    let (alive, mut all_gone) = mpsc::channel::<Infallible>(1);
    let mut idle_connections = IdleConnections::default();
    let mut accepted_so_far = 0;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.raised() => break,
            accepted = accept(&listener, &permits, &mut idle_connections) => accepted,
        };
        let Some((stream, peer, permit)) = accepted else { continue };
        accepted_so_far += 1;
        let state = idle_connections.join(peer, accepted_so_far);
        let connection = AcceptedConnection { handler: Arc::clone(&handler), state, limits, stop: stop.clone(), grace };
        let (alive, tls) = (alive.clone(), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => connection.run(Socket::Plain(stream)).await,
                Some(tls) => connection.run_tls(stream, &tls).await,
            }
            drop((permit, alive));
        });
    }
    drop((listener, alive));
    // Connections end by themselves within the grace period; this bounds the wait all the same.
    let _ = tokio::time::timeout(grace + AFTER_GRACE, all_gone.recv()).await;
}

/// Connections that have sent no request yet, oldest first.
#[derive(Default)]
struct IdleConnections {
    connections: VecDeque<Weak<ConnectionState>>,
    /// The length at which those that have ended or sent a request are taken out.
    full: usize,
}

impl IdleConnections {
    fn join(&mut self, peer: IpAddr, number: u64) -> Arc<ConnectionState> {
        if self.connections.len() >= self.full {
            self.connections.retain(is_silent);
            self.full = 2 * self.connections.len() + 16;
        }
        let state = Arc::new(ConnectionState::new(peer, number));
        self.connections.push_back(Arc::downgrade(&state));
        state
    }

    fn give_up_oldest(&mut self) {
        while let Some(oldest) = self.connections.pop_front() {
            if let Some(state) = oldest.upgrade().filter(|state| state.request_count() == 0) {
                state.give_up();
                return;
            }
        }
    }
}

fn is_silent(connection: &Weak<ConnectionState>) -> bool {
    connection.upgrade().is_some_and(|state| state.request_count() == 0)
}

/// Takes the next connection once there is room for it; the oldest that has sent no request makes room. `None` after an error,
/// with a pause where trying again at once would only spin.
async fn accept(
    listener: &Listener,
    permits: &Arc<Semaphore>,
    idle_connections: &mut IdleConnections,
) -> Option<(TcpStream, IpAddr, OwnedSemaphorePermit)> {
    match listener.accept().await {
        Ok((stream, peer)) => {
            let permit = loop {
                if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
                    break permit;
                }
                // A connection that has begun a request meanwhile stays; then the next oldest ends.
                idle_connections.give_up_oldest();
                let freed = tokio::time::timeout(Duration::from_millis(20), Arc::clone(permits).acquire_owned());
                if let Ok(permit) = freed.await {
                    break permit.expect("the semaphore is never closed");
                }
            };
            // Answers are written whole; waiting for more bytes would only delay them.
            let _ = stream.set_nodelay(true);
            Some((stream, peer.ip(), permit))
        }
        Err(error) => {
            let of_one_peer = matches!(
                error.kind(),
                io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
            );
            if !of_one_peer {
                // With no descriptor left, the oldest idle connection is closed to free one.
                if listener.is_connecting() {
                    idle_connections.give_up_oldest();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            None
        }
    }
}

struct AcceptedConnection {
    handler: Arc<dyn Handler>,
    state: Arc<ConnectionState>,
    limits: Limits,
    stop: Flag,
    grace: Duration,
}

impl AcceptedConnection {
    async fn run_tls(self, stream: TcpStream, tls: &ServerTls) {
        let (handler, peer) = (Arc::clone(&self.handler), self.state.peer());
        let handshake = async {
            let mut first = [0];
            // A method begins with a capital letter, and no TLS record does.
            if matches!(stream.peek(&mut first).await, Ok(1)) && first[0].is_ascii_uppercase() {
                refuse_plain(&*handler, stream).await;
                return None;
            }
            match tls.acceptor().accept(stream).await {
                Ok(stream) => Some(Box::new(stream)),
                Err(problem) => {
                    // A peer that connects and closes again only looks whether the port is open.
                    if problem.kind() != io::ErrorKind::UnexpectedEof {
                        handler.warn(&format!("a TLS handshake with {peer} failed: {}", handshake_problem(&problem)));
                    }
                    None
                }
            }
        };
        let handshake = tokio::time::timeout(self.limits.header_timeout, handshake);
        let handshake = tokio::select! {
            biased;
            handshake = handshake => handshake,
            () = self.state.wait_given_up() => return,
            () = self.stop.raised() => return,
        };
        if let Ok(Some(stream)) = handshake {
            self.run(Socket::Tls(stream)).await;
        }
    }

    async fn run(self, stream: Socket) {
        let (state, half_closes) = (Arc::clone(&self.state), stream.half_closes());
        let stop = self.stop.clone();
        let stream = TimedStream::new(stream, Arc::clone(&state), Arc::clone(&self.handler), self.limits);
        let service = service_fn(|request: Request<Incoming>| {
            let (state, stop) = (&state, &stop);
            let (head, body) = request.into_parts();
            let body = RequestBody::new(body, head.version, &head.headers);
            let request = Request::from_parts(head, body.clone());
            state.record_request(!body.is_empty());
            let answering = self.handler.handle(request, state);
            async move {
                let mut answer = match answering {
                    HandlerResponse::Ready(answer) => answer,
                    HandlerResponse::Later(answer) => answer.await,
                };
                let is_usable = body.drop_rest(self.limits.body_bytes, self.limits.body_timeout).await;
                // An answer made after the stop says that it is the last, even if hyper does not know of the stop yet.
                if !is_usable || stop.is_raised() {
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                state.record_answer(answer.body().is_stream());
                Ok::<_, Infallible>(answer)
            }
        });
        let connection = http1::Builder::new()
            .auto_date_header(libraries_may_date())
            // The stream has its own deadlines, which cost less.
            .header_read_timeout(None)
            .max_buf_size(self.limits.header_bytes)
            .max_headers(self.limits.header_fields)
            .title_case_headers(self.handler.header_names().is_title())
            .half_close(half_closes)
            // Head and body in one buffer: queueing them for one write costs more instructions than copying a piece.
            .writev(false)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        // Errors of one connection concern its peer alone: a reset, a deadline, bytes that are not HTTP. In this order, so that a
        // request that has arrived is seen before the stop.
        let ended = async {
            tokio::select! {
                biased;
                () = state.wait_given_up() => {}
                () = self.stop.raised() => state.record_stop(),
            }
        };
        tokio::select! {
            biased;
            _ = connection.as_mut() => {}
            // hyper would wait for a first request on a fresh connection.
            () = ended => if state.request_count() > 0 {
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(self.grace, connection).await;
            }
        }
    }
}

/// Answers plain HTTP, and reads on for a moment: closing on unread bytes would reset the connection, and the answer could be
/// lost.
async fn refuse_plain(handler: &dyn Handler, mut stream: TcpStream) {
    let answer = handler.refuse(StatusCode::BAD_REQUEST, Unreadable::PlainHttp);
    let exchange = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await?;
        let mut dropped = [0; 4096];
        while stream.read(&mut dropped).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(LINGER, exchange).await;
}
