//! The clients: keep-alive connections that each send the next request when the last answer is in. Made to cost little
//! beside any server: raw sockets, prepared bytes, and of each answer only its length and its first and last head bytes
//! are looked at.

use std::io;
use std::net::SocketAddr;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::answer::{Layout, REQUEST, ROOM};
use crate::process::{Server, moment, processor_time_of_this_thread};

/// Connections in all.
pub(crate) const CONNECTIONS: usize = 64;

/// When to end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// After this time.
    Elapsed(Duration),
    /// After this many requests, rounded up to a multiple of the connections.
    Requests(u64),
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Run {
    /// Requests answered.
    pub(crate) requests: u64,
    /// From the first request to the last answer.
    pub(crate) elapsed: Duration,
    /// The processor time that the server used meanwhile.
    processor_time: Duration,
    /// The processor time that the clients used.
    client_time: Duration,
    latencies: Vec<u32>,
}

impl Run {
    /// Requests in a second.
    pub(crate) fn throughput(&self) -> f64 {
        count(self.requests) / self.elapsed.as_secs_f64()
    }

    /// Microseconds of the server's processor time for one request.
    pub(crate) fn processor_microseconds(&self) -> f64 {
        self.processor_time.as_secs_f64() * 1e6 / count(self.requests)
    }

    /// Microseconds of the clients' processor time for one request.
    pub(crate) fn client_microseconds(&self) -> f64 {
        self.client_time.as_secs_f64() * 1e6 / count(self.requests)
    }

    /// Microseconds that all but one in a hundred requests took at most.
    pub(crate) fn p99_microseconds(&mut self) -> f64 {
        let rank = self.latencies.len() * 99 / 100;
        let (_, nanoseconds, _) = self.latencies.select_nth_unstable(rank);
        f64::from(*nanoseconds) / 1e3
    }
}

/// A count as a number to divide by; exact up to 2⁵³.
#[allow(clippy::cast_precision_loss, reason = "no run makes 2⁵³ requests")]
pub(crate) fn count(number: u64) -> f64 {
    number as f64
}

/// Puts load on a server. Connecting and the first request of each connection are not part of what is measured.
pub(crate) fn run(server: &Server, until: Until) -> io::Result<Run> {
    // Half of the processors make the load; on more threads each would have too few connections to be kept busy.
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = (processors / 2).clamp(1, 8);
    // Met twice: when all are connected, and when the measuring begins.
    let (connected, release) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..threads)
            .map(|number| {
                let connections = (number..CONNECTIONS).step_by(threads).len();
                let (connected, release) = (&connected, &release);
                scope.spawn(move || drive(server.address, connections, until, connected, release))
            })
            .collect();
        connected.wait();
        let used = server.processor_time();
        let begun = moment();
        // Whatever came of the reading, the clients wait to be released.
        release.wait();
        let (mut latencies, mut client_time) = (Vec::new(), Duration::ZERO);
        for client in clients {
            let (more, used) = client.join().map_err(|_| io::Error::other("a client panicked"))??;
            latencies.extend(more);
            client_time += used;
        }
        let elapsed = moment() - begun;
        let processor_time = server.processor_time()?.saturating_sub(used?);
        Ok(Run { requests: latencies.len() as u64, elapsed, processor_time, client_time, latencies })
    })
}

/// One thread's connections, from connecting to the end. Gives the nanoseconds that each request took, and the processor
/// time that all of them took here.
fn drive(
    address: SocketAddr,
    connections: usize,
    until: Until,
    connected: &Barrier,
    release: &Barrier,
) -> io::Result<(Vec<u32>, Duration)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ready = runtime.and_then(|runtime| {
        let clients = runtime.block_on(try_join_all((0..connections).map(|_| Client::open(address))))?;
        Ok((runtime, clients))
    });
    // Whatever came of it, the others wait at both barriers.
    connected.wait();
    release.wait();
    let (runtime, clients) = ready?;
    let used = processor_time_of_this_thread()?;
    let latencies = runtime.block_on(async {
        let begun = moment();
        let tasks: Vec<_> = clients.into_iter().map(|client| tokio::spawn(client.repeat(until, begun))).collect();
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await.map_err(io::Error::other)??);
        }
        Ok::<_, io::Error>(latencies)
    })?;
    Ok((latencies, processor_time_of_this_thread()?.saturating_sub(used)))
}

/// One connection.
struct Client {
    stream: TcpStream,
    /// Known from the first answer; all further ones have it too.
    layout: Layout,
    bytes: Box<[u8; ROOM]>,
}

impl Client {
    async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (layout, bytes) = (Layout { head: 0, whole: 0 }, Box::new([0; ROOM]));
        let mut client = Self { stream, layout, bytes };
        client.send().await?;
        let mut filled = 0;
        client.layout = loop {
            filled = client.read(filled).await?;
            match Layout::find(&client.bytes[..filled])? {
                Some(layout) if filled >= layout.whole => break layout,
                _ => {}
            }
        };
        client.check(filled)?;
        Ok(client)
    }

    async fn repeat(mut self, until: Until, begun: Instant) -> io::Result<Vec<u32>> {
        let most = match until {
            Until::Elapsed(_) => usize::MAX,
            Until::Requests(requests) => usize::try_from(requests).map_err(io::Error::other)?.div_ceil(CONNECTIONS),
        };
        let mut latencies = Vec::with_capacity(most.min(1 << 16));
        let mut sent = begun;
        while latencies.len() < most {
            self.exchange().await?;
            let received = moment();
            latencies.push(u32::try_from((received - sent).as_nanos()).unwrap_or(u32::MAX));
            sent = received;
            if matches!(until, Until::Elapsed(length) if received - begun >= length) {
                break;
            }
        }
        Ok(latencies)
    }

    async fn exchange(&mut self) -> io::Result<()> {
        self.send().await?;
        let mut filled = 0;
        while filled < self.layout.whole {
            filled = self.read(filled).await?;
        }
        self.check(filled)
    }

    async fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(REQUEST).await
    }

    async fn read(&mut self, filled: usize) -> io::Result<usize> {
        match self.stream.read(&mut self.bytes[filled..]).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            more => Ok(filled + more),
        }
    }

    fn check(&self, filled: usize) -> io::Result<()> {
        let bytes = &self.bytes[..filled];
        if self.layout.matches(bytes) {
            return Ok(());
        }
        Err(io::Error::other(format!("not the answer expected:\n{}", String::from_utf8_lossy(bytes))))
    }
}
