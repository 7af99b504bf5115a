//! The built-in receiver, `https://NAME.sink.localhost/…`: keeps each delivery with the deliverer's verdict on its signature, and
//! answers by its script. It needs no other program, certificate or port.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hyper::body::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::state::budget::{Budget, History, NoRoom};

pub const KEPT: usize = 1000;

#[derive(Clone, Debug)]
pub struct Receipt {
    pub at: Timestamp,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// `Ok`, or why the signature is invalid.
    pub verified: Result<(), String>,
    pub status: u16,
}

#[derive(Debug)]
pub struct Sinks {
    budget: Budget,
    kept: Mutex<SinkStore>,
}

#[derive(Debug, Default)]
struct SinkStore {
    by_name: BTreeMap<String, Sink>,
    serial: u64,
}

#[derive(Debug, Default)]
struct Sink {
    received: VecDeque<(u64, Arc<Receipt>)>,
    script: VecDeque<u16>,
}

impl Sinks {
    pub fn new(budget: &Budget) -> Self {
        Self { budget: budget.clone(), kept: Mutex::default() }
    }

    /// Receives a delivery and returns the status of the answer: the next of the script, or else the one that the receipt has.
    pub fn receive(&self, name: &str, mut receipt: Receipt) -> u16 {
        let has_room = self.budget.room().is_ok();
        let mut kept = self.kept.lock();
        let SinkStore { by_name, serial } = &mut *kept;
        if let Some(scripted) = by_name.get_mut(name).and_then(|sink| sink.script.pop_front()) {
            receipt.status = scripted;
        }
        let status = receipt.status;
        if !has_room {
            return status;
        }
        *serial += 1;
        let received = &mut by_name.entry(name.to_owned()).or_default().received;
        received.push_back((*serial, Arc::new(receipt)));
        if received.len() > KEPT {
            received.pop_front();
        }
        status
    }

    pub fn scripts(&self) -> BTreeMap<String, Vec<u16>> {
        let kept = self.kept.lock();
        let scripted = kept.by_name.iter().filter(|(_, sink)| !sink.script.is_empty());
        scripted.map(|(name, sink)| (name.clone(), sink.script.iter().copied().collect())).collect()
    }

    pub fn clear(&self) {
        self.kept.lock().by_name.clear();
    }

    /// The deliveries of a receiver, oldest first, each with its number.
    pub fn received(&self, name: &str) -> Vec<(u64, Arc<Receipt>)> {
        let kept = self.kept.lock();
        kept.by_name.get(name).iter().flat_map(|sink| &sink.received).cloned().collect()
    }

    /// Sets the statuses of the next answers; those after them are the usual ones.
    pub fn script(&self, name: &str, statuses: Vec<u16>) -> Result<(), NoRoom> {
        self.budget.room()?;
        let by_name = &mut self.kept.lock().by_name;
        by_name.entry(name.to_owned()).or_default().script = statuses.into();
        by_name.retain(|_, sink| !(sink.received.is_empty() && sink.script.is_empty()));
        Ok(())
    }
}

impl History for Sinks {
    fn evict_until(&self, is_enough: &dyn Fn() -> bool) {
        let by_name = &mut self.kept.lock().by_name;
        while !is_enough() {
            let oldest =
                by_name.values_mut().min_by_key(|sink| sink.received.front().map_or(u64::MAX, |first| first.0));
            if oldest.and_then(|sink| sink.received.pop_front()).is_none() {
                return;
            }
        }
        by_name.retain(|_, sink| !(sink.received.is_empty() && sink.script.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_oldest_of_all_is_evicted_whatever_receiver_got_it() {
        let sinks = Sinks::new(&Budget::default());
        for name in ["small", "large", "small", "large", "large"] {
            let (at, target, headers, body) = (Timestamp::UNIX_EPOCH, "/".to_owned(), Vec::new(), Bytes::new());
            sinks.receive(name, Receipt { at, target, headers, body, verified: Ok(()), status: 200 });
        }
        let asked = AtomicUsize::new(0);
        sinks.evict_until(&|| asked.fetch_add(1, Ordering::Relaxed) == 2);
        assert_eq!(["small", "large"].map(|name| sinks.received(name).len()), [1, 2]);
        sinks.script("small", vec![500]).expect("there is room");
        sinks.evict_until(&|| false);
        assert_eq!(["small", "large"].map(|name| sinks.received(name).len()), [0, 0]);
        assert_eq!(sinks.scripts().len(), 1, "a script is no history");
        sinks.script("small", Vec::new()).expect("there is room");
        assert!(sinks.kept.lock().by_name.is_empty());
    }
}
