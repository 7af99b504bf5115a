//! Each thing that goes wrong with a delivery is named, and nothing else.

use super::*;
use crate::contract::signature::{Message, sign};

const NOW: i64 = 1_700_000_000;
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const BODY: &str = r#"{"type":"workflow.completed","data":{"z":1,"a":"é"}}"#;

/// What the sender did, and what the receiver took it for.
struct Case<'a> {
    sent: SchemeName,
    sent_reading: KeyReading,
    sent_body: &'a str,
    taken: SchemeName,
    secret: &'a str,
    body: &'a str,
    later: i64,
}

impl Case<'_> {
    fn good() -> Self {
        Self {
            sent: SchemeName::Standard,
            sent_reading: KeyReading::Auto,
            sent_body: BODY,
            taken: SchemeName::Standard,
            secret: SECRET,
            body: BODY,
            later: 0,
        }
    }

    fn check(&self, expected: &[&[Change]]) {
        let custom = CustomScheme::default();
        let sent = Scheme::new(self.sent, &custom);
        let key = SigningKey::read(SECRET, &sent, self.sent_reading).unwrap();
        let message = Message { id: "evt_1", timestamp: NOW, url: "u", body: self.sent_body.as_bytes() };
        let headers = sign(&sent, &[key], &message).headers;
        let header = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
        let taken = Scheme::new(self.taken, &custom);
        let evidence = Evidence {
            scheme: &taken,
            custom: &custom,
            secrets: &[self.secret.to_owned()],
            reading: KeyReading::Auto,
            header: &header,
            url: "u",
            body: self.body.as_bytes(),
            now: NOW + self.later,
            tolerance: 300,
        };
        let found = evidence.remedies();
        let found: Vec<&[Change]> = found.iter().map(|remedy| remedy.changes.as_slice()).collect();
        assert_eq!(found, expected, "{:?} taken for {:?}: {:?}", self.sent, self.taken, evidence.verify());
    }
}

#[test]
fn a_good_delivery_needs_nothing() {
    for name in SchemeName::ALL {
        Case { sent: name, taken: name, ..Case::good() }.check(&[]);
    }
}

#[test]
fn time_is_told_apart_from_the_signature() {
    use SchemeName::{Custom, Slack, Standard, Stripe, Svix};
    for name in [Standard, Svix, Stripe, Slack, Custom] {
        Case { sent: name, taken: name, later: 301, ..Case::good() }.check(&[&[Change::Time]]);
        let body = &format!("{BODY}\n");
        Case { sent: name, taken: name, body, later: 301, ..Case::good() }
            .check(&[&[Change::Body("without its last newline"), Change::Time]]);
    }
}

#[test]
fn readings_of_the_secret_are_named() {
    use KeyReading::{Base64, Utf8, Utf8WithPrefix};
    for sent_reading in [Utf8, Utf8WithPrefix] {
        Case { sent_reading, ..Case::good() }.check(&[&[Change::Reading(sent_reading)]]);
    }
    for name in [SchemeName::Stripe, SchemeName::Github, SchemeName::Custom] {
        for sent_reading in [Utf8, Base64] {
            Case { sent: name, taken: name, sent_reading, ..Case::good() }.check(&[&[Change::Reading(sent_reading)]]);
        }
    }
    let secret = &format!("{SECRET}\n");
    Case { sent: SchemeName::Github, taken: SchemeName::Github, secret, ..Case::good() }
        .check(&[&[Change::TrimmedSecret]]);
}

#[test]
fn bodies_that_were_touched_are_named() {
    let python = r#"{"type": "workflow.completed", "data": {"z": 1, "a": "\u00e9"}}"#;
    for (body, what) in [
        (format!("{BODY}\r\n"), "without its last newline"),
        (python.to_owned(), "as compact JSON"),
        (
            serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(BODY).unwrap()).unwrap(),
            "as compact JSON",
        ),
    ] {
        Case { body: &body, ..Case::good() }.check(&[&[Change::Body(what)]]);
    }
    Case { sent_body: python, ..Case::good() }
        .check(&[&[Change::Body("as JSON with spaces after `,` and `:` in ASCII")]]);
    Case { sent_body: "a\r\nb", body: "a\nb", ..Case::good() }.check(&[&[Change::Body("with CR LF in place of LF")]]);
    Case { sent_body: r#"{"a":1,"b":2}"#, body: r#"{"b":2,"a":1}"#, ..Case::good() }
        .check(&[&[Change::Body("as compact JSON with sorted keys")]]);
}

#[test]
fn another_scheme_and_two_faults_at_once_are_named() {
    use SchemeName::{Github, Shopify, Standard, Stripe};
    Case { sent: Stripe, ..Case::good() }.check(&[&[Change::Scheme(Stripe)]]);
    Case { sent: Stripe, later: 400, ..Case::good() }.check(&[&[Change::Scheme(Stripe), Change::Time]]);
    Case { sent: Shopify, taken: Github, ..Case::good() }.check(&[&[Change::Scheme(Shopify)]]);
    let body = &format!("{BODY}\n");
    Case { sent: Standard, sent_reading: KeyReading::Utf8, body, ..Case::good() }
        .check(&[&[Change::Reading(KeyReading::Utf8), Change::Body("without its last newline")]]);
    Case { secret: "another secret", ..Case::good() }.check(&[]);
    Case { body: r#"{"type":"workflow.failed"}"#, ..Case::good() }.check(&[]);
}
