//! Makes the command of `exec` trust an emulator that serves TLS: its certificate, together with those that the machine trusts, in
//! the files that clients read, and the variables that name these files.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::Rng as _;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::failure::{Failure, note};
use crate::app::Emulator;
use crate::clock::Seed;
use crate::http::tls::TlsSetting;
use crate::util::file::{self, MAX_PEM};

/// The variables in which OpenSSL (and with it Ruby and Python), curl, `requests` and Node look for a file of authorities.
pub(super) const BUNDLE_VARIABLES: [&str; 4] =
    ["SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"];
/// The variable in which the commands of this program look for the emulator's authority.
const OWN_VARIABLE: &str = "WRS_EMULATOR_CA";
/// The options of every Java virtual machine, and the property that names its authorities.
const JAVA_OPTIONS: &str = "JAVA_TOOL_OPTIONS";
const JAVA_STORE: &str = "-Djavax.net.ssl.trustStore";

/// The beginning of the name of the folder.
const FOLDER: &str = "wrs-emulator-tls-";

/// True if a variable names one of the files of an emulator.
pub(super) fn is_of_emulator(value: &OsStr) -> bool {
    value.to_string_lossy().contains(FOLDER)
}

/// A private temporary folder with the files; removed on drop.
pub(super) struct TrustFiles {
    folder: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

impl TrustFiles {
    /// For an emulator that serves TLS.
    pub(super) fn write(emulator: &Emulator, tls: Option<&TlsSetting>) -> Result<Option<Self>, Failure> {
        let served = match (emulator.ca_pem(), tls) {
            (Some(pem), _) => certificates(pem.as_bytes()),
            (None, Some(TlsSetting::Files { certificate, .. })) => read(certificate).unwrap_or_default(),
            (None, _) => return Ok(None),
        };
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self::write_for(&served, variable).map(Some).map_err(|error| {
            Failure::io(format!("cannot write the certificates below `{}`: {error}", std::env::temp_dir().display()))
        })
    }

    /// The files of authorities that the environment names already are merged. One that cannot be read stays as it is.
    fn write_for(served: &[CertificateDer<'static>], variable: impl Fn(&str) -> Option<OsString>) -> io::Result<Self> {
        // In the places of the system, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
        let mut trusted = rustls_native_certs::load_native_certs().certs;
        if trusted.is_empty() {
            note("no authorities of this machine were found: clients that read the bundle trust the emulator alone");
        }
        let mut named = Vec::new();
        for name in BUNDLE_VARIABLES {
            match variable(name).map(|path| read(Path::new(&path))) {
                Some(None) => note(&format!(
                    "`{name}` names no file of certificates; it is left as it is, and a client that reads it does not trust the emulator"
                )),
                found => {
                    trusted.extend(found.flatten().unwrap_or_default());
                    named.push(name);
                }
            }
        }
        trusted.extend(served.iter().cloned());
        let mut seen = BTreeSet::new();
        trusted.retain(|certificate| seen.insert(certificate.to_vec()));

        let folder =
            std::env::temp_dir().join(format!("{FOLDER}{:016x}", Seed::from_entropy().source("folder").next_u64()));
        file::create_folder(&folder)?;
        let [own, bundle, store] = ["emulator.pem", "bundle.pem", "bundle.p12"].map(|name| folder.join(name));
        // Removed also if a file cannot be written.
        let mut files = Self { folder, variables: Vec::new() };
        file::write_whole(&own, pem(served))?;
        file::write_whole(&bundle, pem(&trusted))?;
        file::write_whole(&store, pkcs12(&trusted))?;
        files.variables.push((OWN_VARIABLE, own.into()));
        files.variables.extend(named.into_iter().map(|name| (name, bundle.clone().into())));
        let options = variable(JAVA_OPTIONS).unwrap_or_default();
        if !options.to_string_lossy().contains(JAVA_STORE) {
            files.variables.push((JAVA_OPTIONS, with_store(options, &store)));
        }
        Ok(files)
    }

    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, &OsStr)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_os_str()))
    }

    /// The authority or certificate of the emulator alone.
    pub(super) fn own(&self) -> &OsStr {
        self.variables().find(|(name, _)| *name == OWN_VARIABLE).map_or(self.folder.as_os_str(), |(_, path)| path)
    }
}

impl Drop for TrustFiles {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn read(path: &Path) -> Option<Vec<CertificateDer<'static>>> {
    let found = certificates(&file::read(path, MAX_PEM).ok()?);
    (!found.is_empty()).then_some(found)
}

fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect()
}

fn pem(certificates: &[CertificateDer<'_>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(certificate);
        for line in encoded.as_bytes().chunks(64) {
            text.extend(line.iter().copied().map(char::from));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// The options of Java with the store of authorities; a path with spaces has to be quoted.
fn with_store(options: OsString, store: &Path) -> OsString {
    let path = store.display().to_string();
    let quote = if path.contains(char::is_whitespace) { "\"" } else { "" };
    let mut options = options;
    if !options.is_empty() {
        options.push(" ");
    }
    options.push(format!("{quote}{JAVA_STORE}={path}{quote} {JAVA_STORE}Type=PKCS12"));
    options
}

const INTEGER_3: [u8; 3] = [0x02, 0x01, 0x03];
/// Identifiers of RFC 7292, and the one by which Java knows that a certificate is trusted.
const DATA: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 1];
const CERTIFICATE_BAG: &[u8] = &[0x06, 11, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 10, 1, 3];
const X509: &[u8] = &[0x06, 10, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 22, 1];
const FRIENDLY_NAME: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 20];
const TRUSTED_KEY_USAGE: &[u8] = &[0x06, 12, 0x60, 0x86, 0x48, 1, 0x86, 0xf9, 0x66, 0xad, 0xca, 0x7b, 1, 1];
const ANY_USAGE: &[u8] = &[0x06, 4, 0x55, 0x1d, 0x25, 0];

const OCTETS: u8 = 0x04;
const BMP_STRING: u8 = 0x1e;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const CONTEXT_0: u8 = 0xa0;

/// A store of trusted certificates for Java, which does not read PEM: PKCS #12 without encryption and without a password, since
/// certificates are public.
fn pkcs12(certificates: &[CertificateDer<'_>]) -> Vec<u8> {
    let bags: Vec<u8> = certificates.iter().enumerate().flat_map(|(index, it)| certificate_bag(index, it)).collect();
    let safe = content(&tlv(SEQUENCE, &[&bags]));
    tlv(SEQUENCE, &[&INTEGER_3, &content(&tlv(SEQUENCE, &[&safe]))])
}

fn certificate_bag(index: usize, certificate: &CertificateDer<'_>) -> Vec<u8> {
    let value = tlv(SEQUENCE, &[X509, &tlv(CONTEXT_0, &[&tlv(OCTETS, &[certificate])])]);
    // Java keeps one certificate of each name.
    let name: Vec<u8> = format!("certificate {index}").encode_utf16().flat_map(u16::to_be_bytes).collect();
    let attribute = |id: &[u8], value: &[u8]| tlv(SEQUENCE, &[id, &tlv(SET, &[value])]);
    let named = attribute(FRIENDLY_NAME, &tlv(BMP_STRING, &[&name]));
    let attributes = tlv(SET, &[&named, &attribute(TRUSTED_KEY_USAGE, ANY_USAGE)]);
    tlv(SEQUENCE, &[CERTIFICATE_BAG, &tlv(CONTEXT_0, &[&value]), &attributes])
}

fn content(bytes: &[u8]) -> Vec<u8> {
    tlv(SEQUENCE, &[DATA, &tlv(CONTEXT_0, &[&tlv(OCTETS, &[bytes])])])
}

/// A value of DER: its tag, its length and its parts.
fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = vec![tag];
    if let Ok(short @ ..0x80) = u8::try_from(length) {
        bytes.push(short);
    } else {
        let digits = length.to_be_bytes();
        let digits = &digits[digits.iter().position(|digit| *digit != 0).unwrap_or_default()..];
        bytes.push(0x80 | u8::try_from(digits.len()).expect("a length has at most 8 bytes"));
        bytes.extend_from_slice(digits);
    }
    bytes.extend(parts.iter().copied().flatten());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_der() {
        for (length, head) in
            [(0, vec![4, 0]), (127, vec![4, 127]), (128, vec![4, 0x81, 128]), (256, vec![4, 0x82, 1, 0])]
        {
            assert_eq!(tlv(OCTETS, &[&vec![0; length]])[..head.len()], head, "{length}");
        }
    }

    #[test]
    fn options_of_java_are_kept() {
        let store = Path::new("/tmp/a b/bundle.p12");
        let added = r#""-Djavax.net.ssl.trustStore=/tmp/a b/bundle.p12" -Djavax.net.ssl.trustStoreType=PKCS12"#;
        assert_eq!(with_store(OsString::new(), store), added);
        assert_eq!(with_store("-Xmx1g".into(), store), OsString::from(format!("-Xmx1g {added}")));
    }

    #[test]
    fn files_that_the_environment_names_are_merged_or_left() {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a certificate").cert;
        let served = rcgen::generate_simple_self_signed(["b.test".to_owned()]).expect("a certificate").cert;
        let folder = tempfile::tempdir().expect("a folder");
        let theirs = folder.path().join("theirs.pem");
        std::fs::write(&theirs, made.pem()).expect("it is written");
        let variable = |name: &str| match name {
            "CURL_CA_BUNDLE" => Some(theirs.clone().into_os_string()),
            "REQUESTS_CA_BUNDLE" => Some(folder.path().as_os_str().to_owned()),
            "JAVA_TOOL_OPTIONS" => Some("-Djavax.net.ssl.trustStore=mine".into()),
            _ => None,
        };
        let files = TrustFiles::write_for(&[served.der().clone()], variable).expect("they are written");
        let names: Vec<_> = files.variables().map(|(name, _)| name).collect();
        assert_eq!(names, ["WRS_EMULATOR_CA", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"]);
        let bundle = read(Path::new(files.variables().nth(1).expect("a bundle").1)).expect("certificates");
        assert!(bundle.contains(made.der()) && bundle.contains(served.der()));
        assert_eq!(read(Path::new(files.own())), Some(vec![served.der().clone()]));
        let folder = files.folder.clone();
        drop(files);
        assert!(!folder.exists());
    }
}
