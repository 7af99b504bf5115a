//! The built-in receiver, `https://NAME.sink.localhost/…`: verifies what it gets, keeps it, and answers as it is told.
//! It needs no other program, no certificate and no port.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::body::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;

/// Most deliveries kept for one name.
const KEPT: usize = 1000;
/// Most names.
const MOST_NAMES: usize = 1000;

/// One delivery as the sink got it.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// When.
    pub at: Timestamp,
    /// The path and query.
    pub target: String,
    /// Headers in sending order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// `Ok`, or why the signature does not hold.
    pub verified: Result<(), String>,
    /// The status it answered with.
    pub status: u16,
}

/// All sinks of one emulator, by name.
#[derive(Debug, Default)]
pub struct Sinks {
    by_name: Mutex<BTreeMap<String, Sink>>,
    /// Deliveries that had to leave.
    forgotten: AtomicU64,
}

#[derive(Debug, Default)]
struct Sink {
    received: VecDeque<Receipt>,
    script: VecDeque<u16>,
}

impl Sinks {
    /// Takes a delivery and gives the status of the answer: the next of the script, or 200.
    pub fn receive(&self, name: &str, receipt: Receipt) -> u16 {
        let mut sinks = self.by_name.lock();
        let sink = self.sink(&mut sinks, name);
        let status = sink.script.pop_front().unwrap_or(200);
        if sink.received.len() >= KEPT {
            sink.received.pop_front();
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
        sink.received.push_back(Receipt { status, ..receipt });
        status
    }

    /// What each sink answers next, where something is scripted.
    pub fn scripts(&self) -> BTreeMap<String, Vec<u16>> {
        let sinks = self.by_name.lock();
        let scripted = sinks.iter().filter(|(_, sink)| !sink.script.is_empty());
        scripted.map(|(name, sink)| (name.clone(), sink.script.iter().copied().collect())).collect()
    }

    /// Forgets what every sink got and was told.
    pub fn clear(&self) {
        self.by_name.lock().clear();
    }

    /// What a sink has got, oldest first.
    pub fn received(&self, name: &str) -> Vec<Receipt> {
        self.by_name.lock().get(name).map(|sink| sink.received.iter().cloned().collect()).unwrap_or_default()
    }

    /// Sets the statuses of the next answers; after them comes 200 again.
    pub fn script(&self, name: &str, statuses: Vec<u16>) {
        self.sink(&mut self.by_name.lock(), name).script = statuses.into();
    }

    /// Deliveries that sinks got and had to forget so far. Those that were forgotten on request are not among them.
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    /// The sink of this name; if there are too many, another one leaves for it with what it got.
    fn sink<'s>(&self, sinks: &'s mut BTreeMap<String, Sink>, name: &str) -> &'s mut Sink {
        if sinks.len() >= MOST_NAMES
            && !sinks.contains_key(name)
            && let Some((_, left)) = sinks.pop_first()
        {
            self.forgotten.fetch_add(left.received.len() as u64, Ordering::Relaxed);
        }
        sinks.entry(name.to_owned()).or_default()
    }
}
