//! TLS towards clients and receivers.
//!
//! For `--tls`: a certificate from files, or an authority and a certificate generated at start, offline. For webhooks: which
//! certificates are trusted.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, ServerConfig, SignatureScheme,
};
use tokio::sync::OnceCell;
use tokio_rustls::TlsAcceptor;

use crate::clock::machine;
use crate::http::tls_file::{GOOD_CERTIFICATE, WeakKey, contents, weak_key};
use crate::http::tls_problem::{pem_problem, tls_problem};
use crate::util::file::{self, FileProblem, MAX_PEM};
use crate::util::tasks::spawn_blocking;

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
    #[error("cannot read `{}`: {}", path.display(), pem_problem(source))]
    Malformed { path: PathBuf, source: pem::Error },
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
    #[error("`{}` is {found}; expected {expected}{advice}", path.display())]
    NotExpected {
        path: PathBuf,
        /// The actual content of the file.
        found: String,
        expected: &'static str,
        advice: String,
    },
    #[error(
        "the certificate in `{}` and the key in `{}` cannot be used: {problem}",
        certificate.display(), key.display()
    )]
    Unusable { certificate: PathBuf, key: PathBuf, problem: String },
    #[error("TLS cannot be set up: {}", tls_problem(.0))]
    NoTls(#[from] rustls::Error),
    #[error("cannot make a certificate: {0}")]
    NotMade(#[from] rcgen::Error),
}

const CERTIFICATES: &str = "certificates in PEM (`-----BEGIN CERTIFICATE-----`)";

fn not_expected(path: &Path, bytes: &[u8], expected: &'static str) -> TlsProblem {
    let (found, advice) = contents(bytes);
    TlsProblem::NotExpected { path: path.to_owned(), found, expected, advice: appended(advice) }
}

fn appended(advice: Option<&str>) -> String {
    advice.map_or_else(String::new, |advice| format!("; {advice}"))
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
            file::read(path, MAX_PEM).map_err(|source| TlsProblem::Unreadable { path: path.to_owned(), source })
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
        if chain.is_empty() {
            return Err(not_expected(certificate, &certificate_pem, CERTIFICATES));
        }
        let key_der = match PrivateKeyDer::from_pem_slice(&key_pem) {
            Err(pem::Error::NoItemsFound) => {
                return Err(not_expected(key, &key_pem, "a private key in PEM (`-----BEGIN PRIVATE KEY-----`)"));
            }
            read => read.map_err(malformed(key))?,
        };
        let weak = weak_key(&chain[0]);
        Self::serving(chain, key_der, None).map_err(|problem| TlsProblem::Unusable {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            problem: match (weak, problem) {
                (Some(bits), _) => format!("the certificate {}; make others: {GOOD_CERTIFICATE}", WeakKey(bits)),
                (None, TlsProblem::NoTls(problem @ rustls::Error::InvalidCertificate(_))) => {
                    format!("{}; make others: {GOOD_CERTIFICATE}", tls_problem(&problem))
                }
                (None, TlsProblem::NoTls(problem)) => tls_problem(&problem),
                (None, other) => other.to_string(),
            },
        })
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
        let mut config = ServerConfig::builder_with_details(Arc::new(ring::default_provider()), Arc::new(MachineTime))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), ca_pem })
    }
}

/// The machine's time; the one of rustls panics if that is before 1970.
#[derive(Debug)]
struct MachineTime;

impl TimeProvider for MachineTime {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(machine::wall_time().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

#[derive(Debug, Default)]
pub struct Trust {
    extra: Vec<CertificateDer<'static>>,
    insecure: bool,
    /// True if the machine's authorities are not trusted.
    alone: bool,
    config: OnceCell<Arc<ClientConfig>>,
}

#[derive(Debug, thiserror::Error)]
pub enum TrustProblem {
    #[error("cannot read the certificates in `{}`: {source}", path.display())]
    Unreadable { path: PathBuf, source: FileProblem },
    #[error("cannot read the certificates in `{}`: {}", path.display(), pem_problem(source))]
    Malformed { path: PathBuf, source: pem::Error },
    #[error("there is no certificate in `{}`, which is {found}; expected {CERTIFICATES}{advice}", path.display())]
    Empty { path: PathBuf, found: String, advice: String },
    #[error("a certificate in `{}` cannot be used as an authority: {}", path.display(), tls_problem(source))]
    Unusable { path: PathBuf, source: rustls::Error },
}

impl Trust {
    pub fn new(files: &[PathBuf], insecure: bool) -> Result<Self, TrustProblem> {
        let mut extra = Vec::new();
        for path in files {
            extra.extend(read_authorities(path)?);
        }
        Ok(Self { extra, insecure, alone: false, config: OnceCell::new() })
    }

    /// Trusts the certificates in a file, and no others.
    pub fn only(file: &Path) -> Result<Self, TrustProblem> {
        Ok(Self { alone: true, ..Self::new(&[file.to_owned()], false)? })
    }

    pub fn has_authorities(&self) -> bool {
        !self.extra.is_empty()
    }

    /// Built on first use, because reading the system's roots is the slowest part of a start.
    pub async fn config(&self) -> Arc<ClientConfig> {
        let config = self.config.get_or_init(async || {
            let (extra, insecure, alone) = (self.extra.clone(), self.insecure, self.alone);
            let built = spawn_blocking(move || Arc::new(build(extra, insecure, alone))).await;
            built.expect("building a configuration does not panic")
        });
        Arc::clone(config.await)
    }
}

fn build(extra: Vec<CertificateDer<'static>>, insecure: bool, alone: bool) -> ClientConfig {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_details(Arc::clone(&provider), Arc::new(MachineTime))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions");
    if insecure {
        return builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustAnything(provider)))
            .with_client_cert_resolver(Arc::new(NoCertificate));
    }
    let mut roots = RootCertStore::empty();
    // On a machine without system roots, receivers with a given authority can still be reached.
    if !alone {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    roots.add_parsable_certificates(extra.iter().cloned());
    let builder = match WebPkiServerVerifier::builder_with_provider(Arc::new(roots.clone()), provider).build() {
        Ok(authorities) => {
            let verifier = TrustListed { authorities, listed: extra };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
        // There is no authority at all.
        Err(_) => builder.with_root_certificates(roots),
    };
    builder.with_client_cert_resolver(Arc::new(NoCertificate))
}

tokio::task_local! {
    /// True if the server of the handshake in this task asked for a client certificate.
    static IS_ASKED: Cell<bool>;
}

/// Does a handshake, and returns whether the server asked for a client certificate.
pub async fn noting_requests<T>(handshake: impl Future<Output = T>) -> (T, bool) {
    let noted = async { (handshake.await, IS_ASKED.with(Cell::get)) };
    IS_ASKED.scope(Cell::new(false), noted).await
}

/// Sends no client certificate. One for all connections, because a session is resumed only with the same resolver.
#[derive(Debug)]
struct NoCertificate;

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let _ = IS_ASKED.try_with(|is_asked| is_asked.set(true));
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// `--webhook-ca`: accepts what an authority signed, and a server's certificate that is itself in a file. One made by `openssl req
/// -x509` is that of an authority, which `webpki` does not accept from a server.
#[derive(Debug)]
struct TrustListed {
    authorities: Arc<WebPkiServerVerifier>,
    listed: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for TrustListed {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let checked = self.authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match checked {
            // Found only after its dates were checked, and before its names are.
            Err(rustls::Error::InvalidCertificate(problem))
                if is_about_the_issuer(&problem) && self.listed.contains(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            // Signatures by a weak key are never accepted, which looks like an unknown authority.
            Err(rustls::Error::InvalidCertificate(problem)) if is_about_the_issuer(&problem) => {
                let mut chain = std::iter::once(end_entity).chain(intermediates).chain(&self.listed);
                Err(chain.find_map(weak).unwrap_or(rustls::Error::InvalidCertificate(problem)))
            }
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls12_signature(message, cert, dss).map_err(|error| weak(cert).unwrap_or(error))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls13_signature(message, cert, dss).map_err(|error| weak(cert).unwrap_or(error))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// The refusal of a certificate with a weak key.
fn weak(certificate: &CertificateDer<'_>) -> Option<rustls::Error> {
    let bits = weak_key(certificate)?;
    Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(WeakKey(bits))))))
}

/// True if a certificate is refused because of its issuer: an unknown one, or the server itself.
pub fn is_about_the_issuer(problem: &CertificateError) -> bool {
    match problem {
        // An authority that was regenerated under the same name shows up as a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => true,
        CertificateError::Other(other) => matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)),
        _ => false,
    }
}

fn read_authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustProblem> {
    let text =
        file::read(path, MAX_PEM).map_err(|source| TrustProblem::Unreadable { path: path.to_owned(), source })?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|source| TrustProblem::Malformed { path: path.to_owned(), source })?;
    if certificates.is_empty() {
        let (found, advice) = contents(&text);
        return Err(TrustProblem::Empty { path: path.to_owned(), found, advice: appended(advice) });
    }
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|source| TrustProblem::Unusable { path: path.to_owned(), source })?;
    }
    Ok(certificates)
}

/// `--webhook-insecure`: accepts every certificate, also one that cannot be read or whose key is weak. So signatures of the handshake
/// are not checked either: they would only show that the peer has the key of an unchecked certificate.
#[derive(Debug)]
struct TrustAnything(Arc<CryptoProvider>);

/// Schemes of signatures that are not supported, and need not be where none is checked.
const UNCHECKED: [SignatureScheme; 4] = [
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED448,
    SignatureScheme::RSA_PKCS1_SHA1,
    SignatureScheme::ECDSA_SHA1_Legacy,
];

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
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        [self.0.signature_verification_algorithms.supported_schemes(), UNCHECKED.to_vec()].concat()
    }
}
