//! What a connection needs from its socket besides reading and writing: a deliberate reset, and the state of the peer
//! while nothing is read from it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
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

/// A socket, or a TLS stream over one. One type, so that the code of a connection is compiled once.
#[derive(Debug)]
pub enum Socket {
    /// Bytes in the clear.
    Plain(TcpStream),
    /// Bytes over TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Whether a peer may close its sending side and still read. Over TLS, a peer that stops sending has closed the connection;
    /// hyper keeps reading while it answers, and notices.
    pub fn half_closes(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Makes the next close a reset.
    pub fn reset_on_close(&self) {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref().0,
        };
        // If this fails, the peer sees an orderly close, which cuts the answer off as well.
        let _ = socket.set_zero_linger();
    }

    /// The state of the peer.
    pub fn poll_peer(&self, cx: &mut Context<'_>) -> Peer {
        let Self::Plain(socket) = self else { return Peer::Open };
        match socket.poll_read_ready(cx) {
            Poll::Pending => return Peer::Open,
            Poll::Ready(Err(_)) => return Peer::Gone,
            Poll::Ready(Ok(())) => {}
        }
        match socket.ready(Interest::READABLE | Interest::WRITABLE).now_or_never() {
            // A reset closes both directions.
            Some(Ok(ready)) if ready.is_write_closed() => Peer::Gone,
            Some(Ok(ready)) if ready.is_read_closed() => Peer::HalfClosed,
            Some(Err(_)) => Peer::Gone,
            _ => Peer::HasSent,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
