//! Long documents, written while they are sent: only a few pieces of one exist at a time, however slowly it is read.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{iter, unfold};
use hyper::StatusCode;
use hyper::body::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use super::call::Made;
use super::context::{Context, Paging};
use super::fields::List;
use super::render::TableRow;
use super::{Control, ControlError};
use crate::http::answer::{JSON, answer};
use crate::http::body::ResponseBody;
use crate::redact::Redactor;
use crate::util::tasks::Pool;

/// Maximum bytes of a document that is made as a whole before it is sent.
pub(super) const SHORT: usize = 1024 * 1024;
/// Maximum bytes sent in one piece.
pub(super) const PIECE_BYTES: usize = 64 * 1024;
/// How long a document waits for others that are being sent.
const MAX_WAIT: Duration = Duration::from_secs(10);

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

/// Writes a list, each record masked by itself.
pub(super) fn write_list<T: Serialize>(
    records: impl IntoIterator<Item = T>,
    redactor: Redactor<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    out.write_all(b"[")?;
    let mut before: &[u8] = b"";
    for record in records {
        out.write_all(before)?;
        before = b",";
        serde_json::to_writer(&mut *out, &redactor.shown(&record))?;
    }
    out.write_all(b"]")
}

/// The records that a call has waited for, which may be thousands: written one by one, and as text as many as a page has.
pub(super) async fn waited_for<R: Send + Sync + 'static, T: TableRow + JsonSchema + 'static>(
    cx: &Arc<Context>,
    records: Vec<R>,
    shown: fn(&R, &Context) -> T,
) -> Result<Made<List<T>>, ControlError> {
    let (of, records) = (Arc::clone(cx), Arc::new(records));
    if cx.wants_text() {
        let table = move |_: &Control| {
            if records.is_empty() {
                // A wait for none. The head of a table without rows would look like an answer cut short.
                return of.reply(&"none matches, and none is to come\n".to_owned());
            }
            let page = Paging::first(usize::MAX).page((1..).zip(records.iter()), |record| shown(record, &of));
            let left_out = records.len() - page.data.len();
            let more = if left_out > 0 { format!("… and {left_out} more\n") } else { String::new() };
            of.reply(&(T::table(&page.data) + &more))
        };
        return Ok(cx.control.charged(cx.control.read(&cx.is_disconnected, table).await?)?.into());
    }
    let write = move |out: &mut dyn Write| {
        out.write_all(b"{\"data\":")?;
        write_list(records.iter().map(|record| shown(record, &of)), of.redactor(), out)?;
        out.write_all(b"}\n")
    };
    let whole = write.clone();
    let body = match cx.control.read(&cx.is_disconnected, |_| short(whole)).await? {
        Some(text) => ResponseBody::from(text),
        None => made_while_sent(&cx.engine.blocking.runs, write).await?,
    };
    Ok(cx.control.charged(answer(StatusCode::OK, JSON, body))?.into())
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
