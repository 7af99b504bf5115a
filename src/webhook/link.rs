//! One HTTP/1.1 connection to a receiver. It has no task of its own: the attempt that sends a request drives it, so that no other
//! task, and maybe thread, has to be woken for a request and again for its answer.
//!
//! Which connections are kept is in `client`; how one is opened is in `dial`.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;

use crate::http::outgoing::Outgoing;
use crate::tasks::{boxed, spawn};

pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// Sends requests on a connection. One type, so that the code of a client's connection is compiled once.
pub type Sender = SendRequest<Outgoing>;

type Connection = http1::Connection<TokioIo<Box<dyn ByteStream>>, Outgoing>;

pub async fn open(stream: Box<dyn ByteStream>) -> hyper::Result<Sender> {
    let (sender, connection) = handshake(stream).await?;
    // Ends when the sender is dropped or the peer closes.
    spawn(async move { drop(connection.await) });
    Ok(sender)
}

async fn handshake(stream: Box<dyn ByteStream>) -> hyper::Result<(Sender, Connection)> {
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
        let (sender, connection) = handshake(stream).await?;
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
