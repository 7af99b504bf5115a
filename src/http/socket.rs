//! What a connection needs from its socket beside reading and writing: a deliberate reset, and the state of the peer while
//! nothing is read from it.

use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// The state of a peer from which nothing is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It may send more; the task is woken when something changes.
    Open,
    /// It has sent more, which is not read yet; a change after that does not wake the task.
    HasSent,
    /// It has closed its sending side, and may still read or may be gone.
    HalfClosed,
    /// It has reset the connection.
    Gone,
}

/// A socket, or a TLS stream over one.
pub trait Socket: AsyncRead + AsyncWrite + Unpin {
    /// Whether a peer may close its sending side and still read.
    const HALF_CLOSES: bool;

    /// Makes the next close a reset.
    fn reset_on_close(&self);

    /// The state of the peer.
    fn poll_peer(&self, cx: &mut Context<'_>) -> Peer;
}

impl Socket for TcpStream {
    const HALF_CLOSES: bool = true;

    fn reset_on_close(&self) {
        // If this fails, the peer sees an orderly close, which cuts the answer off as well.
        let _ = self.set_zero_linger();
    }

    fn poll_peer(&self, cx: &mut Context<'_>) -> Peer {
        match self.poll_read_ready(cx) {
            Poll::Pending => return Peer::Open,
            Poll::Ready(Err(_)) => return Peer::Gone,
            Poll::Ready(Ok(())) => {}
        }
        match self.ready(Interest::READABLE | Interest::WRITABLE).now_or_never() {
            // A reset closes both directions.
            Some(Ok(ready)) if ready.is_write_closed() => Peer::Gone,
            Some(Ok(ready)) if ready.is_read_closed() => Peer::HalfClosed,
            Some(Err(_)) => Peer::Gone,
            _ => Peer::HasSent,
        }
    }
}

/// Over TLS, a peer that stops sending has closed the connection; hyper keeps reading while it answers, and notices.
impl Socket for TlsStream<TcpStream> {
    const HALF_CLOSES: bool = false;

    fn reset_on_close(&self) {
        self.get_ref().0.reset_on_close();
    }

    fn poll_peer(&self, _: &mut Context<'_>) -> Peer {
        Peer::Open
    }
}
