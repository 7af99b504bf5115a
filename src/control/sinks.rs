//! `GET sink/{name}`, `POST sink/{name}`: what a built-in receiver got, and what it answers next.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};

use super::call::KeyField;
use super::view::{bytes, headers, timestamp};
use super::whole::Whole;
use super::{Call, Control, ControlError, Reply, ok};

pub(super) fn show(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let received: Vec<Value> = control
        .sinks
        .received(&call.segment)
        .iter()
        .map(|receipt| {
            let sent = receipt.headers.iter().map(|(name, value)| (name.as_str(), Cow::Borrowed(value.as_str())));
            json!({
                "at": timestamp(receipt.at),
                "target": receipt.target,
                "headers": headers(call.redactor(), sent),
                "body": bytes(&call.redactor().body(&receipt.body)),
                "verified": receipt.verified.is_ok(),
                "problem": receipt.verified.as_ref().err(),
                "status": receipt.status,
            })
        })
        .collect();
    Ok(ok(json!({ "data": received })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    #[serde(default, rename = "key")]
    _key: KeyField,
    /// Statuses of the next answers.
    respond: Vec<Whole<u16>>,
}

pub(super) fn script(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let script: Script = call.json()?;
    let statuses: Vec<u16> = script.respond.into_iter().map(|Whole(status)| status).collect();
    if let Some(status) = statuses.iter().find(|status| !(200..=599).contains(*status)) {
        return Err(ControlError::invalid(format!("respond: expected statuses from 200 to 599, found {status}")));
    }
    if statuses.len() > 1000 {
        return Err(ControlError::invalid("respond: at most 1000 statuses"));
    }
    control.sinks.script(&call.segment, statuses);
    Ok(ok(json!({ "scripted": true })))
}
