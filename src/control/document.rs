//! Long documents, written while they are sent: only a few pieces of one exist at a time, however slowly it is read.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{iter, unfold};
use hyper::body::Bytes;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use super::ControlError;
use super::stream::PIECE_BYTES;
use crate::http::body::ResponseBody;
use crate::util::tasks::Pool;

/// Most bytes of a document that is made as a whole before it is sent.
pub(super) const SHORT: usize = 1024 * 1024;
/// How long a document waits for others that are being sent.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// How many bytes of JSON a record has.
pub(super) fn bytes_of(record: &impl Serialize) -> usize {
    let mut written = Written(0);
    serde_json::to_writer(&mut written, record).expect("texts and numbers always serialise");
    written.0
}

/// Counts the bytes that are written.
struct Written(usize);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The document, if it is short enough to be made before it is sent.
pub(super) fn short(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Option<Vec<u8>> {
    struct Short(Vec<u8>);
    impl Write for Short {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = self.0.len() + bytes.len() <= SHORT;
            if fits { self.0.write(bytes) } else { Err(io::ErrorKind::FileTooLarge.into()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut document = Short(Vec::new());
    write(&mut document).is_ok().then_some(document.0)
}

/// Sends a long document. Only a few are sent at a time, because each holds the records that are not yet written.
pub(super) async fn made_while_sent(
    pool: &Pool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> Result<ResponseBody, ControlError> {
    let ((pieces, mut made), (begun, has_begun)) = (mpsc::channel(2), oneshot::channel());
    let pool = pool.clone();
    let make = move || {
        let _ = begun.send(());
        if !pieces.is_closed() {
            // An error means that the client has left.
            let mut out = BufWriter::with_capacity(PIECE_BYTES, Pieces(pieces));
            let _ = write(&mut out).and_then(|()| out.flush());
        }
    };
    let making = tokio::spawn(async move { pool.run(make).await });
    let begun = tokio::time::timeout(MAX_WAIT, has_begun).await;
    begun.map_err(|_| ControlError::busy("other long documents are still being sent"))?.unwrap_or_default();
    let first = made.recv().await;
    let rest = unfold((made, Some(making)), |(mut made, making)| async move {
        if let Some(piece) = made.recv().await {
            return Some((Ok(piece), (made, making)));
        }
        let has_failed = making?.await.is_err();
        has_failed.then(|| (Err(io::Error::other("the document could not be made")), (made, None)))
    });
    Ok(ResponseBody::stream(iter(first.map(Ok)).chain(rest)))
}

/// Sends the written bytes as pieces of a body.
struct Pieces(mpsc::Sender<Bytes>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = bytes.len().min(PIECE_BYTES);
        let sent = self.0.blocking_send(Bytes::copy_from_slice(&bytes[..size]));
        sent.map(|()| size).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
