//! Reading and writing at the pace of the other end. Independent of the data.
//!
//! Whether a pipe blocks is a property of the pipe, not of one process: another program on it, such as Node, may have made it
//! non-blocking. What would fail with EAGAIN then waits here, as it does on any other pipe.

use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Writes all of it, and waits where the reader does not keep up.
pub fn write_all(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&to, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(&to, PollFlags::OUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits until there is something to read, or nothing more will come.
pub fn wait_readable(from: impl AsFd) -> io::Result<()> {
    wait(&from, PollFlags::IN)
}

fn wait(stream: &impl AsFd, event: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::new(stream, event)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A stream that is read at the pace of its other end.
#[derive(Debug)]
pub struct Patient<F>(pub F);

impl<F: AsFd> Read for Patient<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::io::read(&self.0, &mut *buffer) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait_readable(&self.0)?,
                read => return Ok(read?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    #[test]
    fn a_pipe_that_does_not_block_loses_nothing() {
        let (from, to) = io::pipe().expect("a pipe");
        for end in [from.as_fd(), to.as_fd()] {
            fcntl_setfl(end, OFlags::NONBLOCK).expect("it is made non-blocking");
        }
        let sent: Vec<u8> = (0..1_000_000_u32).map(|at| u8::try_from(at % 251).expect("it is small")).collect();
        let expected = sent.clone();
        let writer = thread::spawn(move || write_all(to, &sent));
        let mut received = Vec::new();
        Patient(from).read_to_end(&mut received).expect("all of it");
        writer.join().expect("the writer ends").expect("all was written");
        assert!(received == expected);
    }

    #[test]
    fn a_reader_that_has_ended_is_an_error() {
        let (from, to) = io::pipe().expect("a pipe");
        fcntl_setfl(&to, OFlags::NONBLOCK).expect("it is made non-blocking");
        drop(from);
        assert_eq!(write_all(to, b"a").expect_err("nobody reads").kind(), io::ErrorKind::BrokenPipe);
    }
}
