//! Where a server listens: at one address, or at both that `localhost` means. Independent of the service.

use std::fmt::{self, Display, Formatter};
use std::future::pending;
use std::io::{self, ErrorKind};
use std::net::{AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::util::net::{TcpListener, TcpSocket, TcpStream};

/// Maximum number of connections that wait in the kernel to be accepted; it may allow fewer (`net.core.somaxconn`). Those beyond try again
/// after a second.
pub(crate) const BACKLOG: u32 = 1024;
/// How many free ports of one loopback address are tried for one that is also free at the other.
const MAX_PORTS: usize = 20;

/// An address to listen at. Port 0 picks a free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    At(SocketAddr),
    /// 127.0.0.1 and, where the machine has it, `::1`, at this port: a client that resolves `localhost` may try either.
    Localhost(u16),
}

impl ListenAddress {
    /// The address that is shown to clients; of `localhost`, that of IPv4.
    pub fn main(self) -> SocketAddr {
        match self {
            Self::At(address) => address,
            Self::Localhost(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        }
    }

    pub fn ip(self) -> IpAddr {
        self.main().ip()
    }

    pub fn port(self) -> u16 {
        self.main().port()
    }

    #[must_use]
    pub fn with_port(self, port: u16) -> Self {
        match self {
            Self::At(address) => Self::At(SocketAddr::new(address.ip(), port)),
            Self::Localhost(_) => Self::Localhost(port),
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::At(address)
    }
}

/// Also the short form `:0`, for the loopback address.
impl FromStr for ListenAddress {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, AddrParseError> {
        let of_localhost = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
        match of_localhost {
            Some(port) => Ok(Self::Localhost(port)),
            None if text.starts_with(':') => format!("{}{text}", Ipv4Addr::LOCALHOST).parse().map(Self::At),
            None => text.parse().map(Self::At),
        }
    }
}

impl Display for ListenAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => address.fmt(f),
            Self::Localhost(port) => write!(f, "localhost:{port}"),
        }
    }
}

/// A bound listener. The port is known before anything runs.
#[derive(Debug)]
pub struct Listener {
    main: TcpListener,
    /// At `::1`, for `localhost`.
    other: Option<TcpListener>,
}

impl Listener {
    pub fn bind(address: ListenAddress) -> io::Result<Self> {
        Self::bind_with(address, |port| bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))))
    }

    fn bind_with(address: ListenAddress, bind_other: impl Fn(u16) -> io::Result<TcpListener>) -> io::Result<Self> {
        // Kept until the end, so that each try gets another port.
        let mut tried = Vec::new();
        loop {
            let main = bind(address.main())?;
            let port = match address {
                ListenAddress::At(_) => return Ok(Self { main, other: None }),
                ListenAddress::Localhost(_) => main.local_addr()?.port(),
            };
            match bind_other(port) {
                Ok(other) => return Ok(Self { main, other: Some(other) }),
                Err(error) if error.kind() == ErrorKind::AddrInUse => {
                    tried.push(main);
                    if address.port() != 0 || tried.len() == MAX_PORTS {
                        return Err(error);
                    }
                }
                // The machine has no IPv6.
                Err(_) => return Ok(Self { main, other: None }),
            }
        }
    }

    /// The address that is shown to clients.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.main.local_addr()
    }

    pub(super) async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let other = async {
            match &self.other {
                Some(other) => other.accept().await,
                None => pending().await,
            }
        };
        tokio::select! {
            accepted = self.main.accept() => accepted,
            accepted = other => accepted,
        }
    }

    /// True if a client waits to be accepted: without a descriptor, accepting fails even if none does.
    pub(super) fn is_connecting(&self) -> bool {
        std::iter::once(&self.main).chain(&self.other).any(is_connecting)
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A port on which old connections linger counts as free.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(not(feature = "simulation"))]
fn is_connecting(listener: &TcpListener) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

#[cfg(feature = "simulation")]
fn is_connecting(_: &TcpListener) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const FREE: ListenAddress = ListenAddress::Localhost(0);

    #[tokio::test]
    async fn a_port_that_is_taken_at_the_other_address_is_not_used() {
        let tries = Cell::new(0);
        let taken_twice = |_| {
            tries.set(tries.get() + 1);
            // Any listener serves for the third.
            if tries.get() < 3 { Err(ErrorKind::AddrInUse.into()) } else { bind(FREE.main()) }
        };
        let listener = Listener::bind_with(FREE, taken_twice).expect("it is bound");
        assert_eq!((tries.get(), listener.other.is_some()), (3, true));
        let always_taken = |_| Err(ErrorKind::AddrInUse.into());
        assert!(Listener::bind_with(FREE, always_taken).is_err());
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        assert!(Listener::bind_with(ListenAddress::Localhost(port), always_taken).is_err());
    }

    #[tokio::test]
    async fn a_machine_without_ipv6_serves_ipv4_alone() {
        let listener = Listener::bind_with(FREE, |_| Err(ErrorKind::AddrNotAvailable.into())).expect("it is bound");
        assert!(listener.other.is_none());
    }
}
