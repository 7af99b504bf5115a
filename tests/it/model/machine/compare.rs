//! What can be seen of one key from outside, compared with the reference: subscriptions, deliveries with each attempt, and what
//! receivers got.

use serde_json::{Value, json};

use super::super::commands::OUTSIDE;
use super::super::reference::Post;
use super::{KINDS, Machine, Seen, events_of, hook_url, name, same, shown, sink_name};

impl Machine {
    pub(super) async fn compare(&mut self, key: usize) -> Seen {
        for hook in 0..OUTSIDE {
            self.compare_sink(key, hook).await?;
        }
        self.compare_outside(key)?;
        if self.world.spaces[key].is_none() {
            // Asking for it would make it.
            return Ok(());
        }
        self.compare_subscriptions(key).await?;
        self.compare_deliveries(key).await
    }

    async fn compare_subscriptions(&mut self, key: usize) -> Seen {
        let listed = self.order("GET", &format!("subscriptions?key={}", name(key)), &Value::Null).await?;
        let ids = &self.ids;
        let space = self.world.spaces[key].as_ref().expect("looked at before");
        let expected = space.subscriptions.iter().map(|subscription| {
            json!([
                ids[&subscription.number],
                hook_url(key, subscription.hook),
                events_of(subscription.events),
                if subscription.active { "active" } else { "disabled" },
                subscription.secrets(space.moment),
                shown(subscription.created),
            ])
        });
        let fields = ["id", "url", "events", "status", "signing_secrets", "created_at"];
        let row = |row: &Value| Value::Array(fields.iter().map(|field| row[*field].clone()).collect());
        let found: Vec<Value> = listed["data"].as_array().into_iter().flatten().map(row).collect();
        same(&format!("subscriptions of {}", name(key)), found, expected.collect())
    }

    async fn compare_deliveries(&mut self, key: usize) -> Seen {
        let listed = self.order("GET", &format!("deliveries?limit=1000&key={}", name(key)), &Value::Null).await?;
        let mut rows = listed["data"].as_array().cloned().unwrap_or_default();
        rows.reverse();
        let space = self.world.spaces[key].clone().expect("looked at before");
        let expected = space.deliveries.iter().map(|delivery| {
            let wait = (delivery.status == "pending").then(|| delivery.due.saturating_sub(space.moment));
            let wait = wait.map(|millis| f64::from(u32::try_from(millis).expect("a short time")));
            let id = self.ids.get(&delivery.subscription);
            json!([KINDS[delivery.kind], id, delivery.status, delivery.attempts.len(), wait])
        });
        let fields = ["type", "subscription", "status", "attempts", "next_attempt_in_ms"];
        let found = rows.iter().map(|row| Value::Array(fields.iter().map(|field| row[*field].clone()).collect()));
        let (found, expected): (Vec<Value>, Vec<Value>) = (found.collect(), expected.collect());
        same(&format!("deliveries of {}", name(key)), found, expected)?;
        for (row, delivery) in rows.iter().zip(&space.deliveries) {
            self.know(delivery.event, &row["event"])?;
            let id = row["id"].as_str().expect("an id").to_owned();
            if !delivery.attempts.is_empty() && self.looked_at.insert((id.clone(), delivery.attempts.len())) {
                let whole = self.order("GET", &format!("deliveries/{id}"), &Value::Null).await?;
                let attempts = whole["attempts"].as_array().into_iter().flatten();
                let found: Vec<Value> = attempts.map(|made| json!([made["at"], made["outcome"]["status"]])).collect();
                let made = delivery.attempts.iter().map(|(at, status)| json!([shown(*at), status]));
                same(&format!("attempts of {id}"), found, made.collect())?;
            }
        }
        Ok(())
    }

    async fn compare_sink(&mut self, key: usize, hook: usize) -> Seen {
        let Some(expected) = self.world.sinks.get(&(key, hook)).map(|sink| sink.got.clone()) else { return Ok(()) };
        let sink = sink_name(key, hook);
        let listed = self.order("GET", &format!("sink/{sink}"), &Value::Null).await?;
        let rows = listed["data"].as_array().cloned().unwrap_or_default();
        same(&format!("how many deliveries {sink} got"), rows.len(), expected.len())?;
        for (row, post) in rows.iter().zip(&expected) {
            let header = |wanted: &str| {
                let headers = row["headers"].as_array().into_iter().flatten();
                headers.into_iter().find(|header| header[0] == wanted).map(|header| header[1].clone())
            };
            self.know(post.event, &header("webhook-id").unwrap_or_default())?;
            let signatures = header("webhook-signature").unwrap_or_default();
            let body: Value = serde_json::from_str(row["body"].as_str().unwrap_or_default()).unwrap_or_default();
            let found = json!([
                row["at"],
                row["status"],
                row["verified"],
                body["type"],
                signatures.as_str().map(|text| text.split(' ').count())
            ]);
            let Post { kind, at, status, signatures, .. } = post;
            same(&format!("what {sink} got"), found, json!([shown(*at), status, true, KINDS[*kind], signatures]))?;
        }
        Ok(())
    }

    fn compare_outside(&mut self, key: usize) -> Seen {
        while let Some(received) = self.outside[key].try_next() {
            self.came[key].push(received);
        }
        let expected = self.world.outside[key].got.clone();
        same("how many deliveries came outside", self.came[key].len(), expected.len())?;
        for (at, post) in expected.iter().enumerate() {
            let got = &self.came[key][at];
            let body: Value = serde_json::from_slice(&got.body).unwrap_or_default();
            let signatures = got.header("webhook-signature").split(' ').count();
            let second = post.at.div_euclid(1000).to_string();
            let seen = (got.header("webhook-timestamp"), &body["type"], signatures);
            same("what came outside", seen, (second.as_str(), &json!(KINDS[post.kind]), post.signatures))?;
            let id = json!(got.header("webhook-id"));
            self.know(post.event, &id)?;
        }
        Ok(())
    }
}
