//! `GET sink/{name}`, `POST sink/{name}`: what a built-in receiver got, and what it answers next.

use std::borrow::Cow;

use super::api::{self, Integer, List, Receipt};
use super::call::Input;
use super::requests::{shown_body, shown_headers};
use super::{Control, ControlError};
use crate::engine::sink;

pub(super) fn show(control: &Control, input: &Input<api::ShowSink>) -> List<Receipt> {
    let shown = |receipt: &sink::Receipt| {
        let sent = receipt.headers.iter().map(|(name, value)| (name.as_str(), Cow::Borrowed(value.as_str())));
        Receipt {
            at: api::time(receipt.at),
            target: receipt.target.clone(),
            headers: shown_headers(input.redactor(), sent),
            body: shown_body(input.redactor(), &receipt.body),
            verified: receipt.verified.is_ok(),
            problem: receipt.verified.as_ref().err().map(ToString::to_string),
            status: receipt.status,
        }
    };
    List { data: control.sinks.received(&input.segment).iter().map(shown).collect() }
}

pub(super) fn script(control: &Control, input: &Input<api::ScriptSink>) -> Result<api::Scripted, ControlError> {
    let statuses: Vec<u16> = input.body.respond.iter().map(|Integer(status)| *status).collect();
    if let Some(status) = statuses.iter().find(|status| !(200..=599).contains(*status)) {
        return Err(ControlError::invalid(format!("respond: expected statuses from 200 to 599, found {status}")));
    }
    if statuses.len() > 1000 {
        return Err(ControlError::invalid("respond: at most 1000 statuses"));
    }
    control.sinks.script(&input.segment, statuses);
    Ok(api::Scripted { scripted: true })
}
