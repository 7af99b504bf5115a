//! A connection to a receiver without its own task: the attempt that sends a request drives it, so that no other task, and maybe
//! thread, has to be woken for a request and again for its answer. Which connections are kept is in `client`.

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;

use crate::http::body::ResponseBody;

pub trait ByteStream: AsyncRead + AsyncWrite + Debug + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Debug + Unpin + Send> ByteStream for S {}

/// Sends requests on a connection. One type, so that the code of a client's connection is compiled once.
pub type Sender = http1::SendRequest<ResponseBody>;

type Connection = http1::Connection<TokioIo<Box<dyn ByteStream>>, ResponseBody>;

/// How often connection and work are polled for one wake-up, at most. Usually twice; a runtime that wants a task to yield wakes it
/// again and again.
const MAX_ROUNDS: usize = 8;

/// A connection with its own task, which ends when the sender is dropped or the peer closes.
pub async fn open_in_a_task(stream: Box<dyn ByteStream>) -> hyper::Result<Sender> {
    let (sender, connection) = handshake(stream).await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn handshake(stream: Box<dyn ByteStream>) -> hyper::Result<(Sender, Connection)> {
    http1::Builder::new().max_buf_size(64 * 1024).max_headers(128).writev(false).handshake(TokioIo::new(stream)).await
}

#[derive(Debug)]
pub(super) struct Link {
    sender: Sender,
    /// `None` once it is closed.
    connection: Option<Connection>,
    signal: Arc<Signal>,
    waker: Waker,
    /// True if the server asked for a client certificate. With TLS 1.3 it refuses a client without one only after the handshake.
    pub(super) asked_for_certificate: bool,
}

impl Link {
    pub(super) async fn open(stream: Box<dyn ByteStream>, asked_for_certificate: bool) -> hyper::Result<Self> {
        let (sender, connection) = handshake(stream).await?;
        let signal = Arc::new(Signal::default());
        let waker = Waker::from(Arc::clone(&signal));
        Ok(Self { sender, connection: Some(connection), signal, waker, asked_for_certificate })
    }

    pub(super) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Does work with the sender, and drives the connection meanwhile. The plain `select!` of both takes a tenth more instructions for
    /// each webhook: whenever one wakes the other, the whole task is scheduled again.
    pub(super) async fn run<T>(&mut self, work: impl AsyncFnOnce(&mut Sender) -> T) -> T {
        let Self { sender, connection, signal, waker, .. } = self;
        let mut work = pin!(work(sender));
        poll_fn(|context| {
            // What wakes the work or the connection while they are polled is only recorded.
            drop(signal.task.take());
            let mut inner = Context::from_waker(waker);
            for _ in 0..MAX_ROUNDS {
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
            runtime.spawn(connection);
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
