//! Failures of TLS in words, for both sides of a handshake. The library's own texts contain names of its variants.

use std::error::Error;
use std::fmt::Debug;
use std::io;

use jiff::Timestamp;
use rustls::pki_types::{UnixTime, pem};
use rustls::{AlertDescription, CertificateError, Error as TlsError, PeerIncompatible};

use crate::http::tls_file::WeakKey;
use crate::util::wording::{any_of, quoted};

/// The failure of TLS that an error is, or that caused it.
pub fn tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e TlsError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // The source of an I/O error is the source of the error in it.
        let within = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = within.map(|within| within as &(dyn Error + 'static)).or_else(|| error.source());
    }
    None
}

/// Why a handshake did not succeed.
pub fn handshake_problem(error: &io::Error) -> String {
    match tls_error(error) {
        Some(problem) => tls_problem(problem),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "the peer closed the connection".to_owned(),
        None => error.to_string(),
    }
}

pub fn tls_problem(error: &TlsError) -> String {
    match error {
        TlsError::AlertReceived(alert) => {
            let meaning = alert_meaning(*alert).map_or_else(String::new, |meaning| format!(": {meaning}"));
            format!("the peer sent the alert \"{}\"{meaning}", words(alert))
        }
        TlsError::InvalidCertificate(problem) => format!("the certificate {}", certificate_problem(problem)),
        TlsError::PeerIncompatible(what) => incompatibility(what),
        TlsError::PeerMisbehaved(how) => format!("the peer broke the protocol ({})", words(how)),
        TlsError::InvalidMessage(what) => format!("the peer sent bytes that are not TLS ({})", words(what)),
        TlsError::InappropriateMessage { .. } | TlsError::InappropriateHandshakeMessage { .. } => {
            "the peer sent an unexpected message".to_owned()
        }
        TlsError::InconsistentKeys(_) => "the key does not belong to the certificate".to_owned(),
        TlsError::NoCertificatesPresented => "the peer sent no certificate".to_owned(),
        TlsError::General(text) => text.clone(),
        TlsError::Other(other) => other.to_string(),
        other => words(other),
    }
}

fn alert_meaning(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
            "there is no cipher suite that both support, or it requires a client certificate"
        }
        AlertDescription::ProtocolVersion => "it supports neither TLS 1.2 nor TLS 1.3",
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => "it requires a client certificate",
        AlertDescription::UnknownCA | AlertDescription::CertificateUnknown | AlertDescription::BadCertificate => {
            "it does not trust the certificate that it was sent"
        }
        AlertDescription::UnrecognisedName => "it has no certificate for that host name",
        AlertDescription::NoApplicationProtocol => "it does not speak HTTP/1.1",
        AlertDescription::InternalError => "it failed; look at its log",
        _ => return None,
    })
}

fn incompatibility(what: &PeerIncompatible) -> String {
    match what {
        PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled => "the peer supports neither TLS 1.2 nor TLS 1.3".to_owned(),
        PeerIncompatible::NoCipherSuitesInCommon => "there is no cipher suite that both support".to_owned(),
        PeerIncompatible::NoKxGroupsInCommon | PeerIncompatible::NamedGroupsExtensionRequired => {
            "there is no key exchange that both support".to_owned()
        }
        PeerIncompatible::NoSignatureSchemesInCommon
        | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon => {
            "there is no signature algorithm that both support".to_owned()
        }
        other => format!("the peer is not compatible ({})", words(other)),
    }
}

/// The problem of a certificate, as the rest of a sentence about it.
pub fn certificate_problem(problem: &CertificateError) -> String {
    let date = |time: &UnixTime| {
        let seconds = i64::try_from(time.as_secs()).ok();
        seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or(Timestamp::MAX)
    };
    match problem {
        CertificateError::UnknownIssuer => "is not signed by a known authority".to_owned(),
        CertificateError::BadSignature => {
            "is signed by another authority of the same name, or its signature is wrong".to_owned()
        }
        CertificateError::ExpiredContext { not_after, .. } => format!("expired on {}", date(not_after)),
        CertificateError::NotValidYetContext { not_before, .. } => format!("is not valid before {}", date(not_before)),
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<&str> = presented.iter().map(|name| bare_name(name)).collect();
            match names.as_slice() {
                [] => "is for no name: it has no subjectAltName".to_owned(),
                names => format!("is only for {}", any_of(names)),
            }
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "may not be used for this: its extendedKeyUsage lacks serverAuth".to_owned()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "is signed with an algorithm that is not supported".to_owned()
        }
        CertificateError::BadEncoding => "cannot be read".to_owned(),
        CertificateError::Other(other) => match other.0.downcast_ref() {
            Some(webpki::Error::CaUsedAsEndEntity) => "is that of an authority, and not of a server".to_owned(),
            Some(webpki::Error::UnsupportedCertVersion) => "is not of X.509 version 3".to_owned(),
            _ if let Some(weak) = other.0.downcast_ref::<WeakKey>() => weak.to_string(),
            _ => format!("is not acceptable ({})", words(&other.0)),
        },
        other => format!("is not acceptable ({})", words(other)),
    }
}

/// The name in `DnsName("app.example.com")` or `IpAddress(127.0.0.1)`.
fn bare_name(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"')
}

/// The problem of a PEM file.
pub fn pem_problem(problem: &pem::Error) -> String {
    match problem {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!("the line `{}` is missing", String::from_utf8_lossy(end_marker).trim())
        }
        pem::Error::IllegalSectionStart { line } => {
            format!("the line `{}` is not valid", quoted(String::from_utf8_lossy(line).trim()))
        }
        other => other.to_string(),
    }
}

/// The name of a variant as words: `UnexpectedMessage` is `unexpected message`.
fn words(variant: &impl Debug) -> String {
    let name = format!("{variant:?}");
    let mut words = String::with_capacity(name.len() + 8);
    let mut was_capital = true;
    for letter in name.chars().take_while(char::is_ascii_alphanumeric) {
        if letter.is_ascii_uppercase() && !was_capital {
            words.push(' ');
        }
        was_capital = letter.is_ascii_uppercase();
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_named_in_words() {
        for (error, expected) in [
            (
                TlsError::AlertReceived(AlertDescription::CertificateRequired),
                "the peer sent the alert \"certificate required\": it requires a client certificate",
            ),
            (TlsError::AlertReceived(AlertDescription::RecordOverflow), "the peer sent the alert \"record overflow\""),
            (
                TlsError::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon),
                "there is no cipher suite that both support",
            ),
            (
                TlsError::PeerIncompatible(PeerIncompatible::NullCompressionRequired),
                "the peer is not compatible (null compression required)",
            ),
            (
                TlsError::InvalidCertificate(CertificateError::UnhandledCriticalExtension),
                "the certificate is not acceptable (unhandled critical extension)",
            ),
            (
                TlsError::InvalidCertificate(CertificateError::ExpiredContext {
                    time: UnixTime::since_unix_epoch(std::time::Duration::from_hours(25)),
                    not_after: UnixTime::since_unix_epoch(std::time::Duration::from_hours(24)),
                }),
                "the certificate expired on 1970-01-02T00:00:00Z",
            ),
            (TlsError::DecryptError, "decrypt error"),
        ] {
            let nested = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
            assert_eq!(handshake_problem(&nested), expected);
        }
        assert_eq!(bare_name("DnsName(\"a.example\")"), "a.example");
        assert_eq!(bare_name("IpAddress(127.0.0.1)"), "127.0.0.1");
    }
}
