//! Wrong control tokens: logged in the journal, at most one line a second, and slowed to ten a second for each peer address.
//!
//! Only answers to wrong tokens are delayed, and only for their address. Time is the machine's, as this protects the process.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Clock, Instant};
use crate::journal::Journal;
use crate::tasks::spawn;
use crate::wording::counted;

/// Most wrong tokens of one address that are answered within a second.
pub(crate) const MOST_A_SECOND: usize = 10;
/// Most addresses with a pace of their own; further ones share one.
pub(crate) const MOST_ADDRESSES: usize = 1024;
/// The interval of log lines and of the pace.
const SECOND: Duration = Duration::from_secs(1);

/// When the last wrong tokens of an address were answered. A delayed answer keeps the lock, so that further ones queue in order, and a
/// caller that hangs up leaves the queue.
type Pace = Arc<tokio::sync::Mutex<VecDeque<Instant>>>;

/// Logs wrong tokens and slows them down.
#[derive(Debug)]
pub struct Guesses {
    journal: Arc<Journal>,
    /// The emulator's clock, for the times of log lines.
    label: Clock,
    machine: Clock,
    line: Mutex<Line>,
    paces: Mutex<HashMap<IpAddr, Pace>>,
    shared: Pace,
}

#[derive(Debug, Default)]
struct Line {
    /// Whether a line was written less than a second ago.
    recent: bool,
    /// The number of wrong tokens since, and the last address.
    more: Option<(u64, IpAddr)>,
}

impl Guesses {
    /// Logs wrong tokens in this journal; `label` is the emulator's clock.
    pub fn new(journal: Arc<Journal>, label: Clock) -> Arc<Self> {
        Arc::new(Self {
            journal,
            label,
            machine: Clock::real(),
            line: Mutex::default(),
            paces: Mutex::default(),
            shared: Pace::default(),
        })
    }

    /// Logs a wrong token of this address, and returns when it may be answered.
    pub(super) async fn wrong(self: &Arc<Self>, peer: IpAddr) {
        self.log(peer);
        let pace = self.pace(group(peer));
        let mut answered = pace.lock().await;
        if answered.len() >= MOST_A_SECOND {
            let opens = answered[0].plus(SECOND);
            tokio::time::sleep(opens.since(self.machine.instant())).await;
            answered.pop_front();
        }
        answered.push_back(self.machine.instant());
    }

    fn log(self: &Arc<Self>, peer: IpAddr) {
        let mut line = self.line.lock();
        if line.recent {
            line.more = Some((line.more.map_or(1, |(count, _)| count + 1), peer));
            return;
        }
        line.recent = true;
        drop(line);
        let now = self.label.now().wall;
        self.journal.note(now, None, format!("a wrong control token came from {peer}"), true);
        let guesses = Arc::clone(self);
        spawn(async move {
            loop {
                tokio::time::sleep(SECOND).await;
                let mut line = guesses.line.lock();
                let Some((count, peer)) = line.more.take() else {
                    line.recent = false;
                    return;
                };
                drop(line);
                let more = counted(count, "more wrong control token");
                let message = format!("{more} came within a second, the last from {peer}");
                guesses.journal.note(guesses.label.now().wall, None, message, true);
            }
        });
    }

    fn pace(&self, peer: IpAddr) -> Pace {
        let mut paces = self.paces.lock();
        if paces.len() >= MOST_ADDRESSES && !paces.contains_key(&peer) {
            let now = self.machine.instant();
            // A pace without a waiting caller and with its last answer a second ago equals a new one.
            paces.retain(|_, pace| match pace.try_lock() {
                Ok(answered) => {
                    answered.back().is_some_and(|last| now.since(*last) < SECOND) || Arc::strong_count(pace) > 1
                }
                Err(_) => true,
            });
            if paces.len() >= MOST_ADDRESSES {
                return Arc::clone(&self.shared);
            }
        }
        Arc::clone(paces.entry(peer).or_default())
    }
}

/// The address that is slowed: an IPv4 address in any notation, or the /64 network of an IPv6 address, which one host can use whole.
fn group(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::from((u128::from(address) >> 64 << 64).to_be_bytes()),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_is_what_one_host_has() {
        for (one, other, same) in [
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("2001:db8::1", "2001:db8::ffff:2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            assert_eq!(group(address(one)) == group(address(other)), same, "{one} {other}");
        }
    }

    #[tokio::test]
    async fn addresses_are_bounded_and_further_ones_share_a_pace() {
        let guesses = Guesses::new(Arc::new(Journal::new(10, 10_000)), Clock::real());
        let paces: Vec<Pace> = (0..MOST_ADDRESSES)
            .map(|at| guesses.pace(IpAddr::from(u32::try_from(at).expect("small").to_be_bytes())))
            .collect();
        let late = address("10.0.0.1");
        assert!(Arc::ptr_eq(&guesses.pace(late), &guesses.shared), "all of them are in use");
        assert!(!Arc::ptr_eq(&guesses.pace(address("0.0.0.1")), &guesses.shared));
        drop(paces);
        assert!(!Arc::ptr_eq(&guesses.pace(late), &guesses.shared), "there is room again");
        assert_eq!(guesses.paces.lock().len(), 1);
    }
}
