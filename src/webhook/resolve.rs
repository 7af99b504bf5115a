//! Looks up names: at most [`CONCURRENT_LOOK_UPS`] at a time, and one for all attempts that need the same name.
//!
//! `getaddrinfo` blocks its thread until the machine's resolver answers, whatever the caller's timeout. So each look-up has its
//! own thread, which no attempt, stop or ending runtime waits for. A look-up that has started keeps its permit until it ends; one
//! that has not is dropped with the last attempt that waits for it. `egress` decides which of the addresses may be dialled.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::util::tasks::spawn;

pub const CONCURRENT_LOOK_UPS: usize = 16;
/// Most of them for one workspace: it takes four workspaces with names that hang to delay the look-ups of others.
pub const LOOK_UPS_PER_WORKSPACE: usize = 4;
pub const NEGATIVE_TTL: Duration = Duration::from_secs(1);

static PERMITS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(CONCURRENT_LOOK_UPS)));

type Function = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// A function that finds the addresses of a name. It may block, as it runs on its own thread.
#[derive(Clone)]
pub struct LookUp {
    function: Arc<Function>,
    permits: Arc<Semaphore>,
}

impl LookUp {
    pub fn new(function: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self { function: Arc::new(function), permits: Arc::new(Semaphore::new(CONCURRENT_LOOK_UPS)) }
    }
}

impl Default for LookUp {
    fn default() -> Self {
        let function = |name: &str| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect());
        Self { function: Arc::new(function), permits: Arc::clone(&PERMITS) }
    }
}

impl std::fmt::Debug for LookUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LookUp(…)")
    }
}

type Found = Result<Arc<[IpAddr]>, NotFound>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFound {
    pub text: Arc<str>,
    pub lacks_descriptors: bool,
}

impl From<&str> for NotFound {
    fn from(text: &str) -> Self {
        Self { text: text.into(), lacks_descriptors: false }
    }
}

impl From<io::Error> for NotFound {
    fn from(error: io::Error) -> Self {
        // `getaddrinfo` reports a lack of descriptors as other errors.
        let probed = || std::fs::File::open("/dev/null").is_err_and(|error| lacks_descriptors(&error));
        Self { text: error.to_string().into(), lacks_descriptors: lacks_descriptors(&error) || probed() }
    }
}

/// Whether the process, or the machine, is at its limit of file descriptors.
pub(super) fn lacks_descriptors(error: &io::Error) -> bool {
    let errors = [
        Errno::MFILE,
        #[cfg(unix)]
        Errno::NFILE,
    ]
    .map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| errors.contains(&number))
}

#[derive(Debug)]
pub struct Resolver {
    look_up: LookUp,
    names: Mutex<HashMap<Arc<str>, watch::Sender<Option<Found>>>>,
    negative_ttl: Duration,
}

impl Resolver {
    pub fn new(look_up: LookUp) -> Self {
        Self { look_up, names: Mutex::default(), negative_ttl: NEGATIVE_TTL }
    }

    /// The addresses of a name; `share` bounds the look-ups of the workspace. Has no time limit; the caller needs one.
    pub async fn resolve(self: &Arc<Self>, name: &str, share: &Arc<Semaphore>) -> Found {
        let mut outcome = self.join(name, share);
        let found = outcome.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        found.unwrap_or_else(|| Err("the look-up broke off".into()))
    }

    fn join(self: &Arc<Self>, name: &str, share: &Arc<Semaphore>) -> watch::Receiver<Option<Found>> {
        let mut names = self.names.lock();
        if let Some(outcome) = names.get(name) {
            return outcome.subscribe();
        }
        let name: Arc<str> = name.into();
        let (outcome, receiver) = watch::channel(None);
        names.insert(Arc::clone(&name), outcome.clone());
        spawn(Arc::clone(self).look_up(name, outcome, Arc::clone(share)));
        receiver
    }

    async fn look_up(self: Arc<Self>, name: Arc<str>, outcome: watch::Sender<Option<Found>>, share: Arc<Semaphore>) {
        let permits = async {
            let of_workspace = share.acquire_owned().await;
            (of_workspace, Arc::clone(&self.look_up.permits).acquire_owned().await)
        };
        let permits = tokio::select! {
            biased;
            () = self.abandoned(&name, &outcome) => return,
            permits = permits => permits,
        };
        let (sender, found) = oneshot::channel();
        let (function, asked) = (Arc::clone(&self.look_up.function), Arc::clone(&name));
        let thread = std::thread::Builder::new().name("look-up".to_owned()).spawn(move || {
            let found = function(&asked).map_err(NotFound::from);
            drop(permits);
            // The runtime may have ended.
            let _ = sender.send(found);
        });
        let found: Found = match (thread, found.await) {
            (Ok(_), Ok(Ok(addresses))) if addresses.is_empty() => Err("the resolver gave none".into()),
            (Ok(_), Ok(Ok(addresses))) => Ok(addresses.into()),
            (Ok(_), Ok(Err(problem))) => Err(problem),
            (Err(error), _) => Err(error.into()),
            (Ok(_), Err(_)) => Err("the look-up broke off".into()),
        };
        let failed = found.is_err();
        outcome.send_replace(Some(found));
        if failed {
            tokio::time::sleep(self.negative_ttl).await;
        }
        self.names.lock().remove(&name);
    }

    async fn abandoned(&self, name: &str, outcome: &watch::Sender<Option<Found>>) {
        loop {
            outcome.closed().await;
            let mut names = self.names.lock();
            if outcome.receiver_count() == 0 {
                names.remove(name);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Look-ups that hang until they are allowed to end, one for each permit.
    struct Hanging {
        resolver: Arc<Resolver>,
        began: mpsc::UnboundedReceiver<String>,
        may_end: std::sync::mpsc::Sender<()>,
        most: Arc<AtomicUsize>,
    }

    impl Hanging {
        fn new() -> Self {
            let (starting, began) = mpsc::unbounded_channel();
            let (may_end, waiting) = std::sync::mpsc::channel();
            let waiting = std::sync::Mutex::new(waiting);
            let (under_way, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
            let peak = Arc::clone(&most);
            let look_up = LookUp::new(move |name| {
                peak.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let _ = starting.send(name.to_owned());
                // When the test ends, the sender is dropped and every look-up ends.
                let _ = waiting.lock().expect("no test panics with the lock").recv();
                under_way.fetch_sub(1, Ordering::SeqCst);
                Ok(vec![Ipv4Addr::LOCALHOST.into()])
            });
            Self { resolver: Arc::new(Resolver::new(look_up)), began, may_end, most }
        }

        async fn next(&mut self) -> String {
            timeout(PATIENCE, self.began.recv()).await.expect("a look-up begins in time").expect("the channel is open")
        }

        fn resolve(&self, name: &str, share: &Arc<Semaphore>) -> tokio::task::JoinHandle<Found> {
            let (resolver, name, share) = (Arc::clone(&self.resolver), name.to_owned(), Arc::clone(share));
            tokio::spawn(async move { resolver.resolve(&name, &share).await })
        }
    }

    async fn until(holds: impl Fn() -> bool) {
        let waiting = async {
            while !holds() {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("in time");
    }

    fn share() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(LOOK_UPS_PER_WORKSPACE))
    }

    #[tokio::test]
    async fn attempts_at_one_name_share_one_look_up() {
        let mut hanging = Hanging::new();
        let share = share();
        let attempts: Vec<_> = (0..100).map(|_| hanging.resolve("a.example", &share)).collect();
        assert_eq!(hanging.next().await, "a.example");
        until(|| hanging.resolver.names.lock()["a.example"].receiver_count() == 100).await;
        // An attempt that gives up takes nothing from the others, and one that comes later joins them.
        attempts[0].abort();
        let late = hanging.resolve("a.example", &share);
        tokio::task::yield_now().await;
        hanging.may_end.send(()).expect("a look-up waits");
        for found in join_all(attempts.into_iter().skip(1).chain([late])).await {
            assert_eq!(found.expect("no panic").expect("addresses")[..], [IpAddr::from(Ipv4Addr::LOCALHOST)]);
        }
        assert!(hanging.began.try_recv().is_err(), "one look-up for all of them");
    }

    #[tokio::test]
    async fn look_ups_are_bounded_over_all_and_by_workspace() {
        let mut hanging = Hanging::new();
        let greedy = share();
        let mut attempts: Vec<_> = (0..50).map(|n| hanging.resolve(&format!("{n}.greedy.example"), &greedy)).collect();
        for _ in 0..LOOK_UPS_PER_WORKSPACE {
            assert!(hanging.next().await.ends_with("greedy.example"));
        }
        // The names of a workspace that hang leave room for the others.
        for number in 0..50 {
            attempts.push(hanging.resolve(&format!("{number}.other.example"), &share()));
        }
        for _ in LOOK_UPS_PER_WORKSPACE..CONCURRENT_LOOK_UPS {
            assert!(hanging.next().await.ends_with("other.example"));
        }
        assert!(timeout(Duration::from_millis(100), hanging.began.recv()).await.is_err(), "all permits are taken");
        for _ in 0..100 {
            hanging.may_end.send(()).expect("a look-up waits");
        }
        assert!(join_all(attempts).await.into_iter().all(|found| found.expect("no panic").is_ok()));
        assert_eq!(hanging.most.load(Ordering::SeqCst), CONCURRENT_LOOK_UPS);
        assert!(hanging.resolver.names.lock().is_empty(), "nothing is kept of names that were found");
    }

    #[tokio::test]
    async fn a_look_up_that_nobody_waits_for_does_not_begin() {
        let mut hanging = Hanging::new();
        let share = share();
        for number in 0..LOOK_UPS_PER_WORKSPACE {
            hanging.resolve(&format!("{number}.example"), &share);
            hanging.next().await;
        }
        let given_up = hanging.resolve("given-up.example", &share);
        until(|| hanging.resolver.names.lock().len() > LOOK_UPS_PER_WORKSPACE).await;
        given_up.abort();
        until(|| hanging.resolver.names.lock().len() == LOOK_UPS_PER_WORKSPACE).await;
        hanging.resolve("next.example", &share);
        hanging.may_end.send(()).expect("a look-up waits");
        assert_eq!(hanging.next().await, "next.example");
    }

    #[tokio::test]
    async fn a_failure_answers_for_a_while() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let look_up = LookUp::new(move |name| match name {
            "empty.example" => Ok(Vec::new()),
            "crowded.example" => Err(Errno::MFILE.into()),
            "panics.example" => panic!("as asked"),
            _ => Err(io::Error::other(format!("failure {}", count.fetch_add(1, Ordering::SeqCst)))),
        });
        let kept = Arc::new(Resolver { negative_ttl: Duration::from_hours(1), ..Resolver::new(look_up.clone()) });
        for _ in 0..3 {
            assert_eq!(kept.resolve("a.example", &share()).await, Err("failure 0".into()));
        }
        let crowded = kept.resolve("crowded.example", &share()).await.expect_err("no descriptor");
        assert!(crowded.lacks_descriptors, "{crowded:?}");
        assert_eq!(kept.resolve("empty.example", &share()).await, Err("the resolver gave none".into()));
        assert_eq!(kept.resolve("panics.example", &share()).await, Err("the look-up broke off".into()));
        let forgotten = Arc::new(Resolver { negative_ttl: Duration::ZERO, ..Resolver::new(look_up) });
        let asks_again = async { while forgotten.resolve("a.example", &share()).await != Err("failure 5".into()) {} };
        timeout(PATIENCE, asks_again).await.expect("a failure is forgotten");
    }
}
