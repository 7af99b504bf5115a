//! What a file that was given for TLS holds, in words: people confuse its forms, and a library only says that it found nothing. Also what
//! makes a certificate unusable that the library refuses for another reason.

use crate::util::wording::quoted;
use rustls::pki_types::CertificateDer;

/// The command that makes a good certificate with its key.
pub(crate) const GOOD_CERTIFICATE: &str = "`openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 365 -subj /CN=localhost -addext \
                                    subjectAltName=DNS:localhost`";

/// Fewest bits of an RSA key with which a signature can be checked.
const FEWEST_BITS: usize = 2048;

/// The content of a file, and the command that converts it, if there is one.
pub(crate) fn contents(bytes: &[u8]) -> (String, Option<&'static str>) {
    const DECRYPT: &str = "`openssl pkey -in FILE -out key.pem` removes the passphrase";
    if bytes.trim_ascii().is_empty() {
        return ("empty".to_owned(), None);
    }
    let text = String::from_utf8_lossy(bytes);
    let labels: Vec<&str> =
        text.split("-----BEGIN ").skip(1).filter_map(|rest| Some(rest.split_once("-----")?.0)).collect();
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        return ("a private key with a passphrase".to_owned(), Some(DECRYPT));
    }
    // The first that says something: parameters stand before a key.
    let label = labels.iter().find(|label| !label.ends_with("PARAMETERS")).or(labels.first());
    let (what, advice) = match label.copied() {
        None => return binary(bytes),
        Some("CERTIFICATE") => ("a certificate", None),
        Some("TRUSTED CERTIFICATE") => {
            ("a certificate in OpenSSL's own form", Some("`openssl x509 -in FILE -out cert.pem` makes an ordinary one"))
        }
        Some("CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST") => (
            "an unsigned certificate request",
            Some("`openssl x509 -req -in FILE -signkey key.pem -days 365 -out cert.pem` signs it"),
        ),
        Some("ENCRYPTED PRIVATE KEY") => ("a private key with a passphrase", Some(DECRYPT)),
        Some("PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY") => ("a private key", None),
        Some("DSA PRIVATE KEY") => ("a DSA key, which TLS no longer has", None),
        Some("OPENSSH PRIVATE KEY") => ("a key for SSH", None),
        Some("PUBLIC KEY" | "RSA PUBLIC KEY") => ("a public key", None),
        Some("X509 CRL") => ("a list of revoked certificates", None),
        Some("PKCS7") => {
            ("a PKCS#7 bundle", Some("`openssl pkcs7 -in FILE -print_certs -out cert.pem` takes the certificates out"))
        }
        Some(label) if label.ends_with("PARAMETERS") => ("parameters without a key", None),
        Some(label) => return (format!("`{}`", quoted(label)), None),
    };
    (what.to_owned(), advice)
}

fn binary(bytes: &[u8]) -> (String, Option<&'static str>) {
    const KEYTOOL: &str = "`keytool -importkeystore -srckeystore FILE -destkeystore all.p12 -deststoretype pkcs12`, then `openssl pkcs12 -in all.p12 \
                           -nodes -out all.pem`, which is certificate and key";
    let inner = element(bytes).filter(|(tag, ..)| *tag == SEQUENCE).map(|(_, inner, _)| inner);
    let (what, advice) = match inner.map(element) {
        _ if bytes.starts_with(&[0xfe, 0xed, 0xfe, 0xed]) => ("a Java keystore", Some(KEYTOOL)),
        None => ("not PEM", None),
        Some(Some((INTEGER, [3], _))) => (
            "a PKCS#12 archive",
            Some("`openssl pkcs12 -in FILE -nodes -out all.pem` writes certificate and key as PEM, for both"),
        ),
        Some(Some((INTEGER, ..))) => {
            ("a private key in DER", Some("`openssl pkey -inform der -in FILE -out key.pem` makes it PEM"))
        }
        Some(_) if webpki::anchor_from_trusted_cert(&CertificateDer::from(bytes)).is_ok() => {
            ("a certificate in DER", Some("`openssl x509 -inform der -in FILE -out cert.pem` makes it PEM"))
        }
        Some(_) => ("binary, and not PEM", None),
    };
    (what.to_owned(), advice)
}

/// The bits of a certificate's RSA key if it has too few: no signature by it can be checked.
pub(crate) fn weak_key(certificate: &CertificateDer<'_>) -> Option<usize> {
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
    let anchor = webpki::anchor_from_trusted_cert(certificate).ok()?;
    let (_, algorithm, rest) = element(anchor.subject_public_key_info.as_ref())?;
    let (_, algorithm, _) = element(algorithm)?;
    let (_, bits, _) = element(rest).filter(|_| algorithm == RSA)?;
    // The first byte counts unused bits.
    let (_, key, _) = element(bits.get(1..)?)?;
    let (_, modulus, _) = element(key)?;
    let significant = &modulus[modulus.iter().position(|byte| *byte != 0)?..];
    let bits = 8 * significant.len() - significant[0].leading_zeros() as usize;
    (bits < FEWEST_BITS).then_some(bits)
}

/// The bits of an RSA key that has too few, as the rest of a sentence about its certificate.
#[derive(Debug, thiserror::Error)]
#[error("has an RSA key of {0} bits, and {FEWEST_BITS} are needed")]
pub(crate) struct WeakKey(pub usize);

const INTEGER: u8 = 2;
const SEQUENCE: u8 = 0x30;

/// The tag and value of the first element in DER, and what follows it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = der.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((tag, value, rest))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    #[test]
    fn a_file_is_named_for_what_it_is() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = rcgen::CertificateParams::default().self_signed(&key).expect("a certificate");
        let pem = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n").into_bytes();
        for (bytes, expected, has_advice) in [
            (Vec::new(), "empty", false),
            (b" \n".to_vec(), "empty", false),
            (b"hello".to_vec(), "not PEM", false),
            (pem("CERTIFICATE"), "a certificate", false),
            (pem("CERTIFICATE REQUEST"), "an unsigned certificate request", true),
            (pem("PRIVATE KEY"), "a private key", false),
            ([pem("EC PARAMETERS"), pem("EC PRIVATE KEY")].concat(), "a private key", false),
            (pem("EC PARAMETERS"), "parameters without a key", false),
            (pem("ENCRYPTED PRIVATE KEY"), "a private key with a passphrase", true),
            (
                b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n".to_vec(),
                "a private key with a passphrase",
                true,
            ),
            (pem("OPENSSH PRIVATE KEY"), "a key for SSH", false),
            (pem("PUBLIC KEY"), "a public key", false),
            (pem("PGP MESSAGE"), "`PGP MESSAGE`", false),
            (certificate.der().to_vec(), "a certificate in DER", true),
            (key.serialize_der(), "a private key in DER", true),
            (vec![0x30, 0x05, 2, 1, 3, 0x30, 0], "a PKCS#12 archive", true),
            (vec![0xfe, 0xed, 0xfe, 0xed, 0, 0], "a Java keystore", true),
            (vec![0x30, 0x02, 0x30, 0], "binary, and not PEM", false),
        ] {
            let (what, advice) = contents(&bytes);
            assert_eq!((what.as_str(), advice.is_some()), (expected, has_advice));
        }
        assert_eq!(weak_key(certificate.der()), None);
        let small = include_bytes!("../../tests/it/certificates/rsa-1024.pem");
        assert_eq!(weak_key(&CertificateDer::from_pem_slice(small).expect("a certificate")), Some(1024));
    }
}
