//! TLS towards clients: a certificate and its key from PEM files.
//!
//! Which files, and who trusts them, is the caller's business; `webhook::tls` is the other direction.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// A certificate or key file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateProblem {
    /// The certificate file cannot be read or holds broken PEM.
    #[error("cannot read the certificates in `{}`: {source}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: PemError,
    },
    /// The certificate file holds no certificate.
    #[error("there is no certificate in `{}`; expected PEM with `-----BEGIN CERTIFICATE-----`", .0.display())]
    NoCertificate(PathBuf),
    /// The key file cannot be read or holds no key.
    #[error("cannot read a private key in `{}`: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: PemError,
    },
    /// The two do not belong together, or the key is of a kind that cannot sign.
    #[error("the key in `{}` does not go with the certificate in `{}`: {source}", key.display(), certificate.display())]
    Mismatch {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
        /// What TLS makes of them.
        source: rustls::Error,
    },
}

/// Reads a certificate chain, the server's own first, and its key; HTTP/1.1 is what is spoken over it.
pub fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, CertificateProblem> {
    let broken = |source| CertificateProblem::Certificates { path: certificate.to_owned(), source };
    let chain: Vec<_> =
        CertificateDer::pem_file_iter(certificate).map_err(broken)?.collect::<Result<_, _>>().map_err(broken)?;
    if chain.is_empty() {
        return Err(CertificateProblem::NoCertificate(certificate.to_owned()));
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|source| CertificateProblem::Key { path: key.to_owned(), source })?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|source| CertificateProblem::Mismatch {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
