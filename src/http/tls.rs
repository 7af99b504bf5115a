//! TLS towards clients, for `--tls`: a certificate from files, or an authority and a certificate generated at start, offline.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::util::file::{self, FileProblem, LARGEST_PEM};

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsSetting {
    SelfSigned,
    Files { certificate: PathBuf, key: PathBuf },
}

impl TlsSetting {
    /// Reads `self-signed` or `CERT:KEY`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "self-signed" {
            return Ok(Self::SelfSigned);
        }
        match text.split_once(':') {
            Some((certificate, key)) if !certificate.is_empty() && !key.is_empty() => {
                Ok(Self::Files { certificate: certificate.into(), key: key.into() })
            }
            _ => Err(format!("expected `self-signed` or CERT:KEY, two PEM files, found `{text}`")),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TlsProblem {
    #[error("cannot read `{}`: {source}", path.display())]
    Unreadable { path: PathBuf, source: FileProblem },
    #[error("cannot read `{}`: {source}", path.display())]
    Malformed { path: PathBuf, source: rustls::pki_types::pem::Error },
    #[error(
        "`{0}` has a private key and `{1}` a certificate; expected CERT:KEY, which is {1}:{0}",
        certificate.display(), key.display()
    )]
    Swapped {
        /// The file given as the certificate.
        certificate: PathBuf,
        /// The file given as its key.
        key: PathBuf,
    },
    #[error("the certificate and its key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    #[error("cannot make a certificate: {0}")]
    NotMade(#[from] rcgen::Error),
}

#[derive(Clone)]
pub struct ServerTls {
    acceptor: TlsAcceptor,
    ca_pem: Option<Arc<str>>,
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTls(…)")
    }
}

impl ServerTls {
    pub fn new(setting: &TlsSetting, names: &[String]) -> Result<Self, TlsProblem> {
        match setting {
            TlsSetting::Files { certificate, key } => Self::from_files(certificate, key),
            TlsSetting::SelfSigned => Self::self_signed(names),
        }
    }

    /// The authority generated at start, as PEM; `None` if the certificate is from files.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    pub fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }

    fn from_files(certificate: &Path, key: &Path) -> Result<Self, TlsProblem> {
        let text = |path: &Path| {
            file::read(path, LARGEST_PEM).map_err(|source| TlsProblem::Unreadable { path: path.to_owned(), source })
        };
        let malformed = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsProblem::Malformed { path, source }
        };
        let (certificate_pem, key_pem) = (text(certificate)?, text(key)?);
        let has_certificate = |pem: &[u8]| CertificateDer::from_pem_slice(pem).is_ok();
        let has_key = |pem: &[u8]| PrivateKeyDer::from_pem_slice(pem).is_ok();
        if !has_certificate(&certificate_pem) && has_key(&certificate_pem) && has_certificate(&key_pem) {
            return Err(TlsProblem::Swapped { certificate: certificate.to_owned(), key: key.to_owned() });
        }
        let chain = CertificateDer::pem_slice_iter(&certificate_pem).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(malformed(certificate))?;
        let key_der = PrivateKeyDer::from_pem_slice(&key_pem).map_err(malformed(key))?;
        Self::serving(chain, key_der, None)
    }

    fn self_signed(names: &[String]) -> Result<Self, TlsProblem> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        authority.distinguished_name.push(DnType::CommonName, "wrs-emulator, made at start");
        let authority_key = KeyPair::generate()?;
        let ca_pem = authority.self_signed(&authority_key)?.pem();
        let mut served = CertificateParams::new(names.to_vec())?;
        served.distinguished_name.push(DnType::CommonName, "wrs-emulator");
        let key = KeyPair::generate()?;
        let certificate = served.signed_by(&key, &Issuer::new(authority, authority_key))?;
        let key_der = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Self::serving(vec![certificate.der().clone()], key_der, Some(ca_pem.into()))
    }

    fn serving(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        ca_pem: Option<Arc<str>>,
    ) -> Result<Self, TlsProblem> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), ca_pem })
    }
}
