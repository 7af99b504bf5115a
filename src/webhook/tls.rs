//! TLS towards receivers: which certificates are trusted. The configuration is built on first use, as reading the system's roots
//! takes longer than everything else at start, and on a blocking thread, as it reads files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::sync::watch;

use crate::util::file::{self, FileProblem, LARGEST_PEM};
use crate::util::tasks::spawn_blocking_task;

#[derive(Debug, Default)]
pub struct Trust {
    extra: Vec<CertificateDer<'static>>,
    insecure: bool,
    config: OnceLock<watch::Receiver<Option<Arc<ClientConfig>>>>,
}

#[derive(Debug, thiserror::Error)]
pub enum TrustProblem {
    #[error("cannot read the certificates in `{}`: {source}", path.display())]
    Unreadable { path: PathBuf, source: FileProblem },
    #[error("cannot read the certificates in `{}`: {source}", path.display())]
    Malformed { path: PathBuf, source: rustls::pki_types::pem::Error },
    #[error("there is no certificate in `{}`; expected PEM with `-----BEGIN CERTIFICATE-----`", .0.display())]
    Empty(PathBuf),
    #[error("a certificate in `{}` cannot be used as an authority: {source}", path.display())]
    Unusable { path: PathBuf, source: rustls::Error },
}

impl Trust {
    pub fn new(files: &[PathBuf], insecure: bool) -> Result<Self, TrustProblem> {
        let mut extra = Vec::new();
        for path in files {
            extra.extend(read_authorities(path)?);
        }
        Ok(Self { extra, insecure, config: OnceLock::new() })
    }

    pub(super) fn has_authorities(&self) -> bool {
        !self.extra.is_empty()
    }

    pub async fn config(&self) -> Arc<ClientConfig> {
        let made = self.config.get_or_init(|| {
            let (done, made) = watch::channel(None);
            let (extra, insecure) = (self.extra.clone(), self.insecure);
            spawn_blocking_task(move || drop(done.send_replace(Some(Arc::new(build(extra, insecure))))));
            made
        });
        let config = made.clone().wait_for(Option::is_some).await.map(|config| config.clone());
        config.ok().flatten().expect("the thread that makes it does not end before")
    }
}

fn build(extra: Vec<CertificateDer<'static>>, insecure: bool) -> ClientConfig {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions");
    if insecure {
        return builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustAnything(provider)))
            .with_no_client_auth();
    }
    let mut roots = RootCertStore::empty();
    // On a machine without system roots, receivers with a given authority can still be reached.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots.add_parsable_certificates(extra);
    builder.with_root_certificates(roots).with_no_client_auth()
}

fn read_authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustProblem> {
    let text =
        file::read(path, LARGEST_PEM).map_err(|source| TrustProblem::Unreadable { path: path.to_owned(), source })?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|source| TrustProblem::Malformed { path: path.to_owned(), source })?;
    if certificates.is_empty() {
        return Err(TrustProblem::Empty(path.to_owned()));
    }
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|source| TrustProblem::Unusable { path: path.to_owned(), source })?;
    }
    Ok(certificates)
}

/// `--webhook-insecure`: accepts every certificate; signatures of the handshake are still checked.
#[derive(Debug)]
struct TrustAnything(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnything {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
