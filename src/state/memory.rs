//! Large buffers in memory-mapped pages, which return to the system when they are freed.
//!
//! The allocator would keep them: once glibc has freed a large allocation, it retains that much memory per thread for the next
//! one. Must not know what the bytes mean.

use std::io;

use hyper::body::Bytes;
use memmap2::MmapMut;

/// Buffers of at least this size get their own pages.
pub const LARGE: usize = 32 * 1024;
/// Size of one piece of [`Pieces`].
const PIECE: usize = 64 * 1024;
/// Size of one mapping that several pieces share.
const BLOCK: usize = 16 * PIECE;

/// Bytes that are kept for a while; large ones are moved to their own pages.
pub fn kept(bytes: Vec<u8>) -> Bytes {
    if bytes.len() < LARGE {
        return Bytes::from(bytes);
    }
    match Pages::new(bytes.len()) {
        Ok(mut pages) => {
            pages.push(&bytes);
            pages.freeze()
        }
        Err(_) => Bytes::from(bytes),
    }
}

/// A buffer in its own pages. Untouched pages take no memory.
#[derive(Debug)]
pub struct Pages {
    map: MmapMut,
    length: usize,
}

impl Pages {
    /// An empty buffer for at most `most` bytes; an error if the system has no more mappings.
    pub fn new(most: usize) -> io::Result<Self> {
        Ok(Self { map: MmapMut::map_anon(most)?, length: 0 })
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends bytes; those beyond the buffer's size are cut off.
    pub fn push(&mut self, bytes: &[u8]) {
        let size = bytes.len().min(self.map.len() - self.length);
        self.map[self.length..][..size].copy_from_slice(&bytes[..size]);
        self.length += size;
    }

    /// The bytes written.
    pub fn freeze(self) -> Bytes {
        let length = self.length;
        Bytes::from_owner(self.map).slice(..length)
    }
}

/// A text of any length in small pieces instead of one large buffer. All but the first piece are in memory-mapped pages.
#[derive(Debug, Default)]
pub struct Pieces {
    full: Vec<Bytes>,
    last: Last,
}

/// The piece or mapping being written to.
#[derive(Debug)]
enum Last {
    Heap(Vec<u8>),
    Pages(Pages),
}

impl Default for Last {
    fn default() -> Self {
        Self::Heap(Vec::new())
    }
}

impl Last {
    fn room(&self) -> usize {
        match self {
            Self::Heap(bytes) => PIECE - bytes.len(),
            Self::Pages(pages) => BLOCK - pages.len(),
        }
    }
}

impl Pieces {
    /// All pieces, in order; at least one.
    pub fn finish(mut self) -> Vec<Bytes> {
        self.close(Last::default());
        self.full
    }

    /// Closes what is being written and continues with `next`.
    fn close(&mut self, next: Last) {
        match std::mem::replace(&mut self.last, next) {
            Last::Heap(bytes) => self.full.push(Bytes::from(bytes)),
            Last::Pages(pages) => {
                let mut rest = pages.freeze();
                while !rest.is_empty() {
                    self.full.push(rest.split_to(PIECE.min(rest.len())));
                }
            }
        }
    }
}

impl io::Write for Pieces {
    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // Nearly always: a writer of JSON writes a few bytes at a time.
            match &mut self.last {
                Last::Heap(heap) if bytes.len() <= PIECE - heap.len() => {
                    heap.extend_from_slice(bytes);
                    return Ok(());
                }
                _ => bytes = &bytes[self.write(bytes)?..],
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.last.room() == 0 {
            let next = Pages::new(BLOCK).map_or_else(|_| Last::default(), Last::Pages);
            self.close(next);
        }
        let size = bytes.len().min(self.last.room());
        match &mut self.last {
            Last::Heap(heap) => heap.extend_from_slice(&bytes[..size]),
            Last::Pages(pages) => pages.push(&bytes[..size]),
        }
        Ok(size)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn bytes_are_kept_whole_whatever_their_size() {
        for size in [0, 1, LARGE - 1, LARGE, PIECE, 5 * LARGE + 7, PIECE + BLOCK, PIECE + 3 * BLOCK + 7] {
            let bytes: Vec<u8> = (0..size).map(|at| at.to_le_bytes()[0]).collect();
            assert_eq!(kept(bytes.clone()), bytes, "{size}");
            let mut pieces = Pieces::default();
            bytes.chunks(1_000).for_each(|chunk| pieces.write_all(chunk).expect("it is taken"));
            let pieces = pieces.finish();
            assert_eq!(pieces.concat(), bytes, "{size}");
            assert!(pieces.iter().all(|piece| piece.len() <= PIECE));
        }
        let mut pages = Pages::new(10).expect("pages");
        assert!(pages.is_empty());
        pages.push(b"123456");
        pages.push(b"7890ab");
        assert_eq!((pages.len(), pages.freeze()), (10, Bytes::from_static(b"1234567890")));
    }
}
