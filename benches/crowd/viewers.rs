//! 64 viewers of the event stream, one of which never reads, beside none: how long ordinary requests take meanwhile, at a
//! fixed number of requests a second. The viewers that read share this process and its processors with the clients.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::Plan;
use crate::answer::REQUEST;
use crate::load::{CONNECTIONS, Load, Until, run_with};
use crate::pairs::{Pairs, in_turn};
use crate::process::Subject;
use crate::table::{Compared, Figure};

/// As many as the emulator lets in.
const VIEWERS: usize = 64;
/// What is asked of each server.
pub(crate) const REQUESTS_A_SECOND: u64 = 1000;
/// How long a viewer's reads may take before it looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(100);

pub(crate) fn measure(plan: Plan) -> io::Result<Vec<Figure>> {
    let (with, without) = (Subject::Emulator.start()?.server, Subject::Emulator.start()?.server);
    let pause = Duration::from_secs(1) * u32::try_from(CONNECTIONS).map_err(io::Error::other)?;
    let pause = pause / u32::try_from(REQUESTS_A_SECOND).map_err(io::Error::other)?;
    let load = Load { requests: Arc::new([REQUEST.to_vec()]), pause };
    let stuck = open(with.address)?;
    let (over, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let reading: JoinHandle<io::Result<()>> = {
        let streams = (1..VIEWERS).map(|_| open(with.address)).collect::<io::Result<Vec<_>>>()?;
        let (over, seen) = (Arc::clone(&over), Arc::clone(&seen));
        thread::spawn(move || read_all(streams, &over, &seen))
    };
    // At full speed first, so that the stuck viewer is stuck: its buffers are full.
    let until = Until::Elapsed(plan.length);
    for server in [&with, &without] {
        run_with(server, until, &Load::default())?;
        run_with(server, until, &load)?;
    }
    let before = seen.load(Ordering::Relaxed);
    let mut latency = Pairs::default();
    let mut asked = 0;
    for round in 0..plan.rounds {
        let [mut watched, mut alone] =
            in_turn(round, || run_with(&with, until, &load), || run_with(&without, until, &load))?;
        asked += watched.requests;
        latency.push(watched.p99_microseconds(), alone.p99_microseconds());
    }
    let seen = seen.load(Ordering::Relaxed) - before;
    over.store(true, Ordering::Relaxed);
    reading.join().map_err(|_| io::Error::other("the viewers panicked"))??;
    drop(stuck);
    // A viewer that sees nothing would cost nothing. A line of the stream has at least a hundred bytes.
    let least = asked * (VIEWERS as u64 - 1) * 100 / 2;
    if seen < least {
        return Err(io::Error::other(format!("the viewers saw {seen} bytes, at least {least} were expected")));
    }
    Ok(vec![latency.figure("latency, 99th percentile, 64 viewers, one stuck", "µs", Compared::Ratio)])
}

/// Begins to follow the stream; the first bytes have come.
fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /_emulator/stream HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
    let mut begun = [0; 12];
    stream.read_exact(&mut begun)?;
    if begun == *b"HTTP/1.1 200" { Ok(stream) } else { Err(io::Error::other("a viewer was not let in")) }
}

/// Reads from all viewers as bytes come, on one thread, and counts them.
fn read_all(streams: Vec<TcpStream>, over: &AtomicBool, seen: &AtomicU64) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let streams: io::Result<Vec<_>> = streams
            .into_iter()
            .map(|stream| stream.set_nonblocking(true).and_then(|()| tokio::net::TcpStream::from_std(stream)))
            .collect();
        let followers = streams?.into_iter().map(|stream| follow(stream, over, seen));
        futures_util::future::try_join_all(followers).await.map(drop)
    })
}

async fn follow(mut stream: tokio::net::TcpStream, over: &AtomicBool, seen: &AtomicU64) -> io::Result<()> {
    use tokio::io::AsyncReadExt as _;
    let mut bytes = vec![0; 64 * 1024];
    while !over.load(Ordering::Relaxed) {
        let Ok(read) = tokio::time::timeout(GLANCE, stream.read(&mut bytes)).await else { continue };
        match read? {
            0 => return Err(io::Error::other("a viewer was dropped")),
            count => drop(seen.fetch_add(count as u64, Ordering::Relaxed)),
        }
    }
    Ok(())
}
