//! Looks up names: at most [`CONCURRENT_LOOK_UPS`] at a time, and one for all attempts that need the same name.
//!
//! `getaddrinfo` blocks its thread until the machine's resolver answers, whatever the caller's timeout. So each look-up has its
//! own thread, which no attempt, stop or ending runtime waits for. A look-up that has started keeps its permits until it ends.
//! `egress` decides which of the addresses may be dialled.

use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use url::Host;

use crate::state::workspace::FailureReason;
use crate::util::file;
use crate::webhook::egress::{DialProblem, DialTarget};

pub const CONCURRENT_LOOK_UPS: usize = 16;
/// Most of them for one workspace: only four workspaces with names that hang can delay the look-ups of others.
pub const LOOK_UPS_PER_WORKSPACE: usize = 4;

static PERMITS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(CONCURRENT_LOOK_UPS)));

type Function = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// A function that finds the addresses of a name. It may block, because it runs on its own thread.
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

type LookUpOutcome = Result<Vec<IpAddr>, NotFound>;
type LookUps = HashMap<Arc<str>, watch::Receiver<Option<LookUpOutcome>>>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct NotFound {
    text: Arc<str>,
    lacks_descriptors: bool,
}

impl From<&str> for NotFound {
    fn from(text: &str) -> Self {
        Self { text: text.into(), lacks_descriptors: false }
    }
}

impl From<io::Error> for NotFound {
    fn from(error: io::Error) -> Self {
        // `getaddrinfo` reports a lack of descriptors as other errors.
        let probed = || file::spare_descriptor().is_err_and(|error| lacks_descriptors(&error));
        Self { text: error.to_string().into(), lacks_descriptors: lacks_descriptors(&error) || probed() }
    }
}

/// True if the process, or the machine, is at its limit of file descriptors.
pub(super) fn lacks_descriptors(error: &io::Error) -> bool {
    let errors = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| errors.contains(&number))
}

pub(super) fn no_descriptors(cause: impl Display) -> DialProblem {
    let detail = format!(
        "no file descriptor is left for a connection ({cause}); raise the limit with `ulimit -n`, or lower --max-connections"
    );
    DialProblem::new(FailureReason::NoDescriptors, detail)
}

#[derive(Debug)]
pub struct Resolver {
    look_up: LookUp,
    /// The look-ups under way. A thread drops its sender when it ends.
    names: Mutex<LookUps>,
}

impl Resolver {
    pub fn new(look_up: LookUp) -> Self {
        Self { look_up, names: Mutex::default() }
    }

    /// The addresses of a server. Addresses and names of this machine need no look-up; `share` bounds the look-ups of the workspace.
    /// Has no time limit; the caller needs one.
    pub async fn addresses(&self, target: &DialTarget, share: &Arc<Semaphore>) -> Result<Vec<SocketAddr>, DialProblem> {
        let found = match target.url.host() {
            Some(Host::Ipv4(address)) => Ok(vec![address.into()]),
            Some(Host::Ipv6(address)) => Ok(vec![address.into()]),
            // RFC 6761: localhost and names below it are this machine, whatever a resolver answers.
            Some(Host::Domain(name)) if name == "localhost" || name.ends_with(".localhost") => {
                Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
            }
            _ => self.resolve(target.host_text(), share).await,
        };
        let port = target.url.port_or_known_default().unwrap_or(443);
        match found {
            Ok(addresses) => Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect()),
            Err(NotFound { text, lacks_descriptors: true }) => Err(no_descriptors(text)),
            Err(NotFound { text, .. }) => {
                let detail = format!("the name `{}` has no address ({text})", target.host_text());
                let problem = DialProblem::new(FailureReason::NameNotFound, detail);
                Err(problem.with_hint(target.elsewhere()))
            }
        }
    }

    async fn resolve(&self, name: &str, share: &Arc<Semaphore>) -> LookUpOutcome {
        let joined = under_way(&self.names.lock(), name);
        let mut outcome = if let Some(outcome) = joined {
            outcome
        } else {
            let permits = (permit(share).await, permit(&self.look_up.permits).await);
            self.begin(name, permits)?
        };
        let found = outcome.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        found.unwrap_or_else(|| Err("the look-up broke off".into()))
    }

    /// Starts a look-up, unless another attempt at the name has started one while this one waited for its permits.
    fn begin(&self, name: &str, permits: impl Send + 'static) -> io::Result<watch::Receiver<Option<LookUpOutcome>>> {
        let mut names = self.names.lock();
        if let Some(outcome) = under_way(&names, name) {
            return Ok(outcome);
        }
        let name: Arc<str> = name.into();
        let (sender, outcome) = watch::channel(None);
        let (function, asked) = (Arc::clone(&self.look_up.function), Arc::clone(&name));
        std::thread::Builder::new().name("look-up".to_owned()).spawn(move || {
            let found = match function(&asked) {
                Ok(addresses) if addresses.is_empty() => Err("the resolver gave none".into()),
                found => found.map_err(NotFound::from),
            };
            drop(permits);
            sender.send_replace(Some(found));
        })?;
        names.retain(|_, outcome| outcome.has_changed().is_ok());
        names.insert(name, outcome.clone());
        Ok(outcome)
    }
}

fn under_way(names: &LookUps, name: &str) -> Option<watch::Receiver<Option<LookUpOutcome>>> {
    names.get(name).filter(|outcome| outcome.has_changed().is_ok()).cloned()
}

async fn permit(of: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    Arc::clone(of).acquire_owned().await.expect("the semaphore is never closed")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::time::timeout;
    use url::Url;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn share() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(LOOK_UPS_PER_WORKSPACE))
    }

    #[tokio::test]
    async fn addresses_and_local_names_are_not_looked_up() {
        let resolver = Resolver::new(LookUp::new(|name| panic!("{name} is looked up")));
        for (url, expected) in [
            ("https://10.0.0.1/", vec!["10.0.0.1:443"]),
            ("http://[fd12::1]:8080/", vec!["[fd12::1]:8080"]),
            ("http://localhost:3000/", vec!["127.0.0.1:3000", "[::1]:3000"]),
            ("https://any.name.localhost/", vec!["127.0.0.1:443", "[::1]:443"]),
        ] {
            let target = DialTarget::new(Url::parse(url).expect("a URL"), None).expect("a server");
            let found = resolver.addresses(&target, &share()).await.expect("addresses");
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn look_ups_are_shared_and_bounded_over_all_and_by_workspace() {
        let (starting, mut began) = tokio::sync::mpsc::unbounded_channel();
        let (may_end, waiting) = std::sync::mpsc::channel();
        let waiting = Mutex::new(waiting);
        let resolver = Arc::new(Resolver::new(LookUp::new(move |name| {
            starting.send(name.to_owned()).expect("the test waits");
            // When the test ends, the sender is dropped and every look-up ends.
            let _ = waiting.lock().recv();
            Ok(vec![Ipv4Addr::LOCALHOST.into()])
        })));
        let resolve = |name: String, share: &Arc<Semaphore>| {
            let (resolver, share) = (Arc::clone(&resolver), Arc::clone(share));
            tokio::spawn(async move { resolver.resolve(&name, &share).await })
        };
        let mut next = async || timeout(TIMEOUT, began.recv()).await.expect("a look-up begins in time");
        let greedy = share();
        let mut attempts: Vec<_> = (0..50).map(|n| resolve(format!("{n}.greedy.example"), &greedy)).collect();
        for _ in 0..LOOK_UPS_PER_WORKSPACE {
            assert!(next().await.expect("a name").ends_with("greedy.example"));
        }
        attempts.extend((0..10).map(|_| resolve("0.greedy.example".to_owned(), &greedy)));
        // The names of a workspace that hang leave room for the others.
        attempts.extend((0..50).map(|n| resolve(format!("{n}.other.example"), &share())));
        for _ in LOOK_UPS_PER_WORKSPACE..CONCURRENT_LOOK_UPS {
            assert!(next().await.expect("a name").ends_with("other.example"));
        }
        // All other attempts have had their turn as well, and wait.
        for _ in &attempts {
            tokio::task::yield_now().await;
        }
        assert_eq!(resolver.names.lock().len(), CONCURRENT_LOOK_UPS);
        for _ in 0..100 {
            may_end.send(()).expect("a look-up waits");
        }
        assert!(join_all(attempts).await.into_iter().all(|found| found.expect("no panic").is_ok()));
        for _ in CONCURRENT_LOOK_UPS..100 {
            next().await;
        }
        assert!(began.try_recv().is_err(), "one look-up for each name");
    }

    #[tokio::test]
    async fn a_name_that_is_not_found_has_its_cause() {
        let resolver = Resolver::new(LookUp::new(|name| match name {
            "empty.example" => Ok(Vec::new()),
            "crowded.example" => Err(Errno::MFILE.into()),
            "panics.example" => panic!("as asked"),
            _ => Err(io::Error::other("failure")),
        }));
        for (name, cause) in [
            ("empty.example", "the resolver gave none"),
            ("panics.example", "the look-up broke off"),
            ("panics.example", "the look-up broke off"),
            ("a.example", "failure"),
        ] {
            assert_eq!(resolver.resolve(name, &share()).await, Err(cause.into()));
        }
        let crowded = resolver.resolve("crowded.example", &share()).await;
        assert!(crowded.is_err_and(|problem| problem.lacks_descriptors));
    }
}
