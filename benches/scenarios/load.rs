//! Keep-alive connections that ask for the status with the number of the last rule, one request after the other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use wrs_emulator::Emulator;

/// Connections in all.
pub(crate) const CONNECTIONS: usize = 64;

const REQUEST: &[u8] =
    b"GET /v1/system/status?n=9999 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk_test_bench\r\n\r\n";

/// The machine's monotonic time.
#[allow(clippy::disallowed_methods, reason = "the machine is what is measured; no emulated clock is involved")]
pub(crate) fn moment() -> Instant {
    Instant::now()
}

/// Requests in a second, over so long.
pub(crate) async fn throughput(emulator: &Emulator, length: Duration) -> io::Result<f64> {
    let (answered, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = connect(emulator).await?;
        let (answered, over) = (Arc::clone(&answered), Arc::clone(&over));
        tasks.push(tokio::spawn(ask_again(stream, answered, over)));
    }
    let begun = moment();
    let before = answered.load(Ordering::Relaxed);
    tokio::time::sleep(length).await;
    let requests = answered.load(Ordering::Relaxed) - before;
    let elapsed = begun.elapsed();
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.map_err(io::Error::other)??;
    }
    #[allow(clippy::cast_precision_loss, reason = "no run makes 2⁵³ requests")]
    Ok(requests as f64 / elapsed.as_secs_f64())
}

/// One answer, head and body.
pub(crate) async fn ask(emulator: &Emulator) -> io::Result<String> {
    let mut stream = connect(emulator).await?;
    let mut buffer = vec![0; 4096];
    let size = exchange(&mut stream, &mut buffer).await?;
    Ok(String::from_utf8_lossy(&buffer[..size]).into_owned())
}

async fn connect(emulator: &Emulator) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(emulator.base_url().trim_start_matches("http://")).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn ask_again(mut stream: TcpStream, answered: Arc<AtomicU64>, over: Arc<AtomicBool>) -> io::Result<()> {
    let mut buffer = vec![0; 4096];
    while !over.load(Ordering::Relaxed) {
        let size = exchange(&mut stream, &mut buffer).await?;
        if !buffer[..size].starts_with(b"HTTP/1.1 200") {
            return Err(io::Error::other("the answer is not 200"));
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Sends the request and reads the answer; both end with the closing brace of a JSON object.
async fn exchange(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    stream.write_all(REQUEST).await?;
    let mut size = 0;
    loop {
        size += match stream.read(&mut buffer[size..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => count,
        };
        if buffer[..size].ends_with(b"}") {
            return Ok(size);
        }
    }
}
