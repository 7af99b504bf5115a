//! A network in memory that behaves as TCP does: bytes arrive late, in pieces and in order; a window bounds those under way;
//! closing on unread bytes resets the connection; a host may be cut off for a while. All of it follows from a seed.
//!
//! One network for each thread. Each write and its arrival is a line of the trace.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

/// Maximum bytes of one direction that are under way or unread.
const WINDOW: usize = 64 * 1024;
/// Maximum bytes of a piece that the trace shows.
const SHOWN: usize = 200;
const FIRST_PORT: u16 = 49_152;

thread_local! {
    static NETWORK: RefCell<Option<Network>> = const { RefCell::new(None) };
}

/// A network; a cheap handle.
#[derive(Clone)]
pub struct Network(Arc<SharedNetwork>);

struct SharedNetwork {
    state: Mutex<State>,
    restored: Notify,
}

struct State {
    listeners: BTreeMap<SocketAddr, Arc<Backlog>>,
    cut_off: BTreeSet<IpAddr>,
    random: ChaCha8Rng,
    max_latency_ms: u64,
    began: Instant,
    connections: u64,
    port: u16,
    trace: String,
}

/// Connections that wait to be accepted.
#[derive(Default)]
struct Backlog {
    streams: Mutex<VecDeque<TcpStream>>,
    came: Notify,
}

impl Network {
    /// Makes a network, and the one of this thread. Each piece of bytes needs up to `max_latency_ms` to arrive.
    pub fn begin(seed: u64, max_latency_ms: u64) -> Self {
        let state = State {
            listeners: BTreeMap::new(),
            cut_off: BTreeSet::new(),
            random: ChaCha8Rng::seed_from_u64(seed),
            max_latency_ms,
            began: Instant::now(),
            connections: 0,
            port: FIRST_PORT,
            trace: String::new(),
        };
        let network = Self(Arc::new(SharedNetwork { state: Mutex::new(state), restored: Notify::new() }));
        NETWORK.set(Some(network.clone()));
        network
    }

    fn current() -> Self {
        NETWORK.with_borrow(Option::clone).expect("a simulation has begun on this thread")
    }

    /// Holds back everything from and to a host, until it is restored.
    pub fn cut_off(&self, host: IpAddr) {
        self.0.state.lock().cut_off.insert(host);
        self.note(&format!("{host} is cut off"));
    }

    pub fn restore(&self, host: IpAddr) {
        self.0.state.lock().cut_off.remove(&host);
        self.note(&format!("{host} is back"));
        self.0.restored.notify_waiters();
    }

    /// Adds a line to the trace.
    pub fn note(&self, what: &str) {
        let mut state = self.0.state.lock();
        let at = state.began.elapsed().as_micros();
        let _ = writeln!(state.trace, "{at} {what}");
    }

    /// What happened so far.
    pub fn trace(&self) -> String {
        self.0.state.lock().trace.clone()
    }

    fn latency(&self) -> Duration {
        let mut state = self.0.state.lock();
        let most = state.max_latency_ms;
        Duration::from_millis(state.random.random_range(0..=most))
    }

    /// Into how many pieces a write is split.
    fn pieces(&self) -> usize {
        let mut state = self.0.state.lock();
        if state.random.random_ratio(1, 8) { state.random.random_range(2..=4) } else { 1 }
    }

    fn free_port(&self) -> u16 {
        let mut state = self.0.state.lock();
        state.port = state.port.checked_add(1).unwrap_or(FIRST_PORT);
        state.port
    }

    /// Waits until none of the hosts is cut off.
    async fn reached(&self, hosts: [IpAddr; 2]) {
        loop {
            let restored = self.0.restored.notified();
            if !hosts.iter().any(|host| self.0.state.lock().cut_off.contains(host)) {
                return;
            }
            restored.await;
        }
    }
}

/// The bytes in one direction of a connection.
#[derive(Debug)]
enum Segment {
    Bytes(Vec<u8>),
    Fin,
    Reset,
}

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    under_way: VecDeque<(Instant, Segment)>,
    arrives_last: Option<Instant>,
    /// Bytes that have arrived and are not read.
    unread: VecDeque<u8>,
    /// Bytes under way and unread.
    size: usize,
    /// The end, once it has arrived.
    is_finished: bool,
    is_reset: bool,
    /// The side that reads is gone.
    is_abandoned: bool,
    /// The side that writes has closed.
    is_shut: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

struct SimulatedConnection {
    network: Network,
    number: u64,
    addresses: [SocketAddr; 2],
    /// By the side that writes: 0 is the one that connected.
    pipes: Mutex<[Pipe; 2]>,
}

impl SimulatedConnection {
    /// Sends something from a side; it arrives after all that it has sent before.
    fn send(self: &Arc<Self>, pipes: &mut [Pipe; 2], side: usize, piece: Segment) {
        // Without a runtime, the simulation is over.
        let Ok(runtime) = Handle::try_current() else { return };
        let shown = match &piece {
            Segment::Bytes(bytes) => escaped(bytes),
            other => format!("{other:?}"),
        };
        self.network.note(&format!("#{} {side}> {shown}", self.number));
        let pipe = &mut pipes[side];
        let at = (Instant::now() + self.network.latency()).max(pipe.arrives_last.unwrap_or_else(Instant::now));
        pipe.arrives_last = Some(at);
        pipe.under_way.push_back((at, piece));
        let link = Arc::clone(self);
        runtime.spawn(async move {
            sleep_until(at).await;
            link.network.reached(link.addresses.map(|address| address.ip())).await;
            link.deliver(side);
        });
    }

    /// Delivers the bytes that a side has sent and that are due.
    fn deliver(self: &Arc<Self>, side: usize) {
        let mut pipes = self.pipes.lock();
        let now = Instant::now();
        while pipes[side].under_way.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, piece)) = pipes[side].under_way.pop_front() else { break };
            let pipe = &mut pipes[side];
            match piece {
                // A reset answers what arrives at a closed socket.
                Segment::Bytes(_) if pipe.is_abandoned => self.send(&mut pipes, 1 - side, Segment::Reset),
                Segment::Bytes(bytes) => pipe.unread.extend(bytes),
                Segment::Fin => pipe.is_finished = true,
                Segment::Reset => {
                    pipe.is_reset = true;
                    wake(&mut pipes[1 - side].writer);
                }
            }
            self.network.note(&format!("#{} {side}.", self.number));
        }
        wake(&mut pipes[side].reader);
    }
}

/// Bytes as the trace has them: the beginning, and a hash of all.
fn escaped(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    format!("{begin:?} {} bytes {:016x}", bytes.len(), hasher.finish())
}

fn wake(waker: &mut Option<Waker>) {
    waker.take().into_iter().for_each(Waker::wake);
}

/// A connection, as one side has it.
pub struct TcpStream {
    link: Arc<SimulatedConnection>,
    side: usize,
    resets: AtomicBool,
}

impl std::fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TcpStream(#{} {})", self.link.number, self.side)
    }
}

impl TcpStream {
    pub async fn connect(to: impl Borrow<SocketAddr>) -> io::Result<Self> {
        Self::connect_from(Ipv4Addr::LOCALHOST.into(), *to.borrow()).await
    }

    /// Connects from another host than the emulator's.
    pub async fn connect_from(from: IpAddr, to: SocketAddr) -> io::Result<Self> {
        let network = Network::current();
        let local = SocketAddr::new(from, network.free_port());
        network.note(&format!("{local} connects to {to}"));
        sleep(network.latency()).await;
        network.reached([from, to.ip()]).await;
        let listener = network.0.state.lock().listeners.get(&to).cloned();
        let Some(listener) = listener else {
            sleep(network.latency()).await;
            return Err(ErrorKind::ConnectionRefused.into());
        };
        let number = {
            let mut state = network.0.state.lock();
            state.connections += 1;
            state.connections
        };
        network.note(&format!("{local} is connected to {to} by #{number}"));
        let (addresses, pipes) = ([local, to], Mutex::default());
        let link = Arc::new(SimulatedConnection { network: network.clone(), number, addresses, pipes });
        let [client, server] =
            [0, 1].map(|side| Self { link: Arc::clone(&link), side, resets: AtomicBool::new(false) });
        listener.streams.lock().push_back(server);
        listener.came.notify_one();
        sleep(network.latency()).await;
        network.reached([from, to.ip()]).await;
        Ok(client)
    }

    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as tokio's")]
    pub fn set_nodelay(&self, _: bool) -> io::Result<()> {
        Ok(())
    }

    /// Resets the connection when it is dropped.
    #[allow(clippy::unnecessary_wraps, reason = "as tokio's")]
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.resets.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let pipe = &mut self.link.pipes.lock()[1 - self.side];
        if !pipe.unread.is_empty() || pipe.is_finished || pipe.is_reset {
            return Poll::Ready(Ok(()));
        }
        pipe.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    #[allow(clippy::unused_async, reason = "as tokio's")]
    pub async fn ready(&self, _: Interest) -> io::Result<Ready> {
        let pipes = self.link.pipes.lock();
        let (incoming, outgoing) = (&pipes[1 - self.side], &pipes[self.side]);
        let mut ready = Ready::WRITABLE;
        if !incoming.unread.is_empty() {
            ready |= Ready::READABLE;
        }
        if incoming.is_finished {
            ready |= Ready::READABLE | Ready::READ_CLOSED;
        }
        if incoming.is_reset || incoming.is_finished && outgoing.is_shut {
            ready |= Ready::READ_CLOSED | Ready::WRITE_CLOSED;
        }
        Ok(ready)
    }

    pub async fn peek(&self, to: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read_ready(cx)).await?;
        let pipe = &self.link.pipes.lock()[1 - self.side];
        let size = to.len().min(pipe.unread.len());
        to.iter_mut().zip(&pipe.unread).for_each(|(to, byte)| *to = *byte);
        Ok(size)
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_read_ready(cx))?;
        let pipe = &mut self.link.pipes.lock()[1 - self.side];
        if pipe.unread.is_empty() && pipe.is_reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let size = buf.remaining().min(pipe.unread.len());
        let bytes: Vec<u8> = pipe.unread.drain(..size).collect();
        buf.put_slice(&bytes);
        pipe.size -= size;
        if size > 0 {
            wake(&mut pipe.writer);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let pipes = &mut *self.link.pipes.lock();
        if pipes[1 - self.side].is_reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let pipe = &mut pipes[self.side];
        if pipe.is_shut {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let size = bytes.len().min(WINDOW - pipe.size);
        if size == 0 && !bytes.is_empty() {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        pipe.size += size;
        let most = size.div_ceil(self.link.network.pieces()).max(1);
        for piece in bytes[..size].chunks(most) {
            self.link.send(pipes, self.side, Segment::Bytes(piece.to_vec()));
        }
        Poll::Ready(Ok(size))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let pipes = &mut *self.link.pipes.lock();
        if !std::mem::replace(&mut pipes[self.side].is_shut, true) {
            self.link.send(pipes, self.side, Segment::Fin);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        let pipes = &mut *self.link.pipes.lock();
        let incoming = &mut pipes[1 - self.side];
        incoming.is_abandoned = true;
        if incoming.is_reset {
            return;
        }
        if self.resets.load(Ordering::Relaxed) || !incoming.unread.is_empty() {
            self.link.send(pipes, self.side, Segment::Reset);
        } else if !std::mem::replace(&mut pipes[self.side].is_shut, true) {
            self.link.send(pipes, self.side, Segment::Fin);
        }
    }
}

/// A socket before it listens.
pub struct TcpSocket {
    address: Cell<Option<SocketAddr>>,
}

impl TcpSocket {
    #[allow(clippy::unnecessary_wraps, reason = "as tokio's")]
    pub fn new_v4() -> io::Result<Self> {
        Ok(Self { address: Cell::new(None) })
    }

    pub fn new_v6() -> io::Result<Self> {
        Self::new_v4()
    }

    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as tokio's")]
    pub fn set_reuseaddr(&self, _: bool) -> io::Result<()> {
        Ok(())
    }

    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let network = Network::current();
        let port = if address.port() == 0 { network.free_port() } else { address.port() };
        let address = SocketAddr::new(address.ip(), port);
        if network.0.state.lock().listeners.contains_key(&address) {
            return Err(ErrorKind::AddrInUse.into());
        }
        self.address.set(Some(address));
        Ok(())
    }

    pub fn listen(self, _: u32) -> io::Result<TcpListener> {
        let address = self.address.get().ok_or(ErrorKind::InvalidInput)?;
        let (network, waiting) = (Network::current(), Arc::<Backlog>::default());
        network.0.state.lock().listeners.insert(address, Arc::clone(&waiting));
        network.note(&format!("{address} listens"));
        Ok(TcpListener { network, address, waiting })
    }
}

/// Accepts connections until it is dropped; those that wait then are reset.
pub struct TcpListener {
    network: Network,
    address: SocketAddr,
    waiting: Arc<Backlog>,
}

impl std::fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TcpListener({})", self.address)
    }
}

impl TcpListener {
    #[allow(clippy::unnecessary_wraps, reason = "as tokio's")]
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            let came = self.waiting.came.notified();
            let first = self.waiting.streams.lock().pop_front();
            if let Some(stream) = first {
                let peer = stream.link.addresses[0];
                return Ok((stream, peer));
            }
            came.await;
        }
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        self.network.0.state.lock().listeners.remove(&self.address);
        self.network.note(&format!("{} listens no more", self.address));
        for stream in self.waiting.streams.lock().drain(..) {
            stream.resets.store(true, Ordering::Relaxed);
        }
    }
}
