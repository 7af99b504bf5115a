//! Subscriptions, events, deliveries and built-in receivers.

use serde_json::{Value, json};

use super::schemas::damage;
use super::shapes::{
    Described, call, data, duration, id, list, named, object, or_null, page, text, wait, wanted_count, wish,
};
use crate::contract::signature::Tamper;
use crate::control::route::Action;

pub(super) fn describe(action: Action) -> Option<Described> {
    let described = match action {
        Action::ListSubscriptions => call("Subscriptions, oldest first", data("Subscription")),
        Action::CreateSubscription => call(
            "Subscribe a URL for a key; the answer has the secret if one was generated",
            object(&json!({
                "subscription": named("Subscription"),
                "secret": { "type": ["string", "null"] },
                "created": { "type": "boolean" },
            })),
        )
        .body(object(&json!({
            "url": text(),
            "events?": or_null(list(text())),
            "secret?": wish(),
            "description?": wish(),
        }))),
        Action::ShowSubscription => call("One subscription", named("Subscription")),
        Action::ChangeSubscription => call("Change a subscription; what is left out stays", named("Subscription"))
            .body(object(&json!({
                "url?": wish(),
                "events?": or_null(list(text())),
                "description?": wish(),
                "status?": { "enum": ["active", "disabled", null] },
            }))),
        Action::DeleteSubscription => {
            call("Delete a subscription", object(&json!({ "deleted": id("sub") }))).empty_body()
        }
        Action::RotateSecret => call(
            "Give a subscription a new secret; the old one keeps signing for a while",
            object(&json!({ "subscription": named("Subscription"), "secret": text(), "old_secret_signs_for": text() })),
        )
        .body(object(&json!({ "secret?": wish() }))),
        Action::FireEvents => {
            call("Fire events at the matching subscriptions", fired()).query("wait", wait()).body(fire())
        }
        Action::ListDeliveries => call("Deliveries, newest first", page("Delivery"))
            .paged()
            .query("status", json!({ "type": "string", "enum": ["pending", "delivered", "exhausted", "cancelled"] }))
            .query("event", text())
            .query("type", text())
            .query("subscription", text()),
        Action::ShowDelivery => call("One delivery with each attempt", named("DeliveryWhole")),
        Action::WaitDeliveries => call("Wait until so many deliveries fit", data("Delivery")).body(object(&json!({
            "status?": { "enum": ["pending", "delivered", "exhausted", "cancelled", null] },
            "event?": wish(),
            "type?": wish(),
            "subscription?": wish(),
            "count?": wanted_count(),
            "timeout?": duration(),
        }))),
        Action::Redeliver => call(
            "Send the same event to the same subscription again",
            object(&json!({ "delivery": or_null(named("DeliveryWhole")) })),
        )
        .query("wait", wait())
        .empty_body(),
        Action::ShowSink => call("What a built-in receiver got", data("Receipt")).segment("name"),
        Action::ScriptSink => {
            let statuses = json!({ "type": "integer", "minimum": 200, "maximum": 599 });
            call("What a built-in receiver answers next", object(&json!({ "scripted": { "const": true } })))
                .segment("name")
                .body(object(&json!({ "respond": { "type": "array", "maxItems": 1000, "items": statuses } })))
        }
        _ => return None,
    };
    Some(described)
}

fn fire() -> Value {
    let tampers: Vec<Value> = Tamper::ALL.map(Tamper::name).into_iter().map(Value::from).chain([Value::Null]).collect();
    object(&json!({
        "type?": wish(),
        "emit?": wish(),
        "data?": { "type": ["object", "null"] },
        "set?": { "type": "object" },
        "subscription?": wish(),
        "count?": wanted_count(),
        "delay?": duration(),
        "tamper?": { "enum": tampers },
        "duplicate?": { "type": ["integer", "null"], "minimum": 1, "maximum": 100 },
        "shuffle?": { "type": "boolean" },
        "drop?": { "type": "boolean" },
    }))
}

fn fired() -> Value {
    object(&json!({
        "events": list(named("Event")),
        "deliveries?": list(named("DeliveryWhole")),
        "emit?": text(),
        "damage?": damage(),
    }))
}
