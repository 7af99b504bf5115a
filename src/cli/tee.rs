//! The end of what a command writes, kept for the report, while all of it is passed on.

use std::io::{self, IsTerminal as _, PipeReader, Read as _, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use regex::Regex;
use tokio::process::Command;

use crate::redact::{Redactor, visible_lines};

/// Most bytes that are kept.
const MOST_KEPT: usize = 64 * 1024;
/// How long the rest is waited for after the command has ended: what it left running may keep its streams open for ever.
const GRACE: Duration = Duration::from_secs(1);

/// Colours, movements of the cursor and titles of windows.
static ESCAPES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\^_])").expect("a pattern")
});

/// Passes on what a command writes and keeps the end of it.
pub(super) struct Tee {
    kept: Arc<Mutex<Tail>>,
    /// Closed when both streams have ended; nothing is ever sent.
    ended: Receiver<()>,
}

#[derive(Default)]
struct Tail {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Tee {
    /// Stands between a command that is about to start and our own streams. One that is a terminal is left to the command, for its
    /// colours, its width and its questions.
    pub(super) fn attach(command: &mut Command) -> io::Result<Self> {
        let (open, ended) = channel();
        let tee = Self { kept: Arc::default(), ended };
        if !io::stdout().is_terminal() {
            let (from, to) = io::pipe()?;
            command.stdout(to);
            tee.copy(from, io::stdout(), open.clone());
        }
        if !io::stderr().is_terminal() {
            let (from, to) = io::pipe()?;
            command.stderr(to);
            tee.copy(from, io::stderr(), open);
        }
        Ok(tee)
    }

    fn copy(&self, mut from: PipeReader, mut to: impl Write + Send + 'static, open: Sender<()>) {
        let kept = Arc::clone(&self.kept);
        thread::spawn(move || {
            let mut piece = [0; 8 * 1024];
            while let Ok(count @ 1..) = from.read(&mut piece) {
                kept.lock().add(&piece[..count]);
                // If nobody reads it any more, the command learns that from its next write.
                if to.write_all(&piece[..count]).and_then(|()| to.flush()).is_err() {
                    break;
                }
            }
            drop(open);
        });
    }

    /// After the command has ended: the end of what it wrote, with credentials and this secret masked. Blocks until all of it has
    /// been passed on, but not for what still runs in the background.
    pub(super) fn finish(self, secret: Option<&str>) -> String {
        let _ = self.ended.recv_timeout(GRACE);
        let kept = std::mem::take(&mut *self.kept.lock());
        kept.shown(secret)
    }
}

impl Tail {
    fn add(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        // Cut seldom, as the rest has to be moved.
        if self.bytes.len() > 2 * MOST_KEPT {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let beyond = self.bytes.len().saturating_sub(MOST_KEPT);
        self.bytes.drain(..beyond);
        self.is_cut |= beyond > 0;
    }

    fn shown(mut self, secret: Option<&str>) -> String {
        self.cut();
        let text = String::from_utf8_lossy(&self.bytes);
        // A credential that the cut has shortened could not be recognised, so the first line goes.
        let text = if self.is_cut { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        let plain = ESCAPES.replace_all(text, "");
        let masked = Redactor::default().text(&plain).into_owned();
        let masked = secret.map_or_else(|| masked.clone(), |secret| masked.replace(secret, "…"));
        visible_lines(&masked).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(written: &[u8]) -> String {
        let mut tail = Tail::default();
        written.chunks(1000).for_each(|piece| tail.add(piece));
        tail.shown(Some("s3cret-token"))
    }

    #[test]
    fn credentials_are_masked_and_a_terminal_is_not_controlled() {
        let written = b"\x1b[31mred\x1b[0m \x1b]0;title\x07sk_live_abcdefgh1234 s3cret-token\r\nnext\x07\n";
        assert_eq!(shown(written), "red sk_live_\u{2026}1234 \u{2026}\nnext\\u{7}\n");
    }

    #[test]
    fn of_long_output_the_last_whole_lines_are_kept() {
        let lines: Vec<String> = (0..40_000).map(|number| format!("line {number}\n")).collect();
        let end = shown(lines.concat().as_bytes());
        assert!(end.starts_with("line ") && end.ends_with("line 39999\n") && end.len() <= MOST_KEPT, "{}", &end[..40]);
        assert!(end.len() > MOST_KEPT - 20);
        assert_eq!(shown("x".repeat(3 * MOST_KEPT).as_bytes()), "", "a part of one line might be part of a credential");
    }
}
