//! The network under the emulated API and the webhooks: the machine's, or with the feature `simulation` one in memory.

#[cfg(feature = "simulation")]
pub mod simulated;

#[cfg(feature = "simulation")]
pub(crate) use simulated::{TcpListener, TcpSocket};

#[cfg(feature = "simulation")]
pub use simulated::TcpStream;

#[cfg(not(feature = "simulation"))]
pub use tokio::net::TcpStream;
#[cfg(not(feature = "simulation"))]
pub(crate) use tokio::net::{TcpListener, TcpSocket};
