//! Deliveries in the model: each comes to one end, by its attempts; and what the receivers got agrees with the journal.

use std::collections::BTreeMap;
use std::time::Duration;

use standardwebhooks::Webhook;

use crate::facts::{Attempt, Event, Outcome};
use crate::judge::{Judge, State, marker_of};
use crate::plan::TIMEOUT_MS;
use crate::receivers::Post;
use crate::run::Cut;

#[derive(Clone, Debug)]
pub(super) struct Delivery {
    subscription: String,
    made: u32,
    status: &'static str,
    /// The earliest time of the next attempt.
    due: i64,
    may_come_again: bool,
}

/// An attempt as it was recorded, with all secrets of its subscription by then.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    attempt: Attempt,
    secrets: Vec<String>,
}

impl Judge<'_> {
    /// Enters the deliveries of an event.
    pub(super) fn enter(&mut self, event: &Event) {
        for (id, subscription) in &event.deliveries {
            let delivery = Delivery {
                subscription: subscription.clone(),
                made: 0,
                status: "pending",
                due: i64::MIN,
                may_come_again: false,
            };
            let before = self.space(&event.key).deliveries.insert(id.clone(), delivery);
            if before.is_some() {
                self.problem(format!("{}: {id} was there already", event.key));
            }
        }
    }

    /// After a restart or a load, the deliveries that are not settled come in again, with their event.
    pub(super) fn take_again(&mut self, event: &Event) {
        let space = self.space(&event.key);
        let mut is_waiting =
            |id: &String| space.deliveries.get_mut(id).is_some_and(|known| std::mem::take(&mut known.may_come_again));
        let unknown: Vec<String> =
            event.deliveries.iter().map(|(id, _)| id.clone()).filter(|id| !is_waiting(id)).collect();
        if !unknown.is_empty() {
            self.problem(format!("{}: {} is recorded again, with {unknown:?}", event.key, event.id));
        }
    }

    pub(super) fn take_attempt(&mut self, attempt: &Attempt) {
        let Attempt { key, delivery: id, subscription, number, at, latency_ms, outcome, .. } = attempt;
        let steps = &self.world.plan.steps;
        let spread = if self.world.plan.jitter { 7 } else { 10 };
        let space = self.space(key);
        let secrets = space.subscriptions.get(subscription).map(|known| known.secrets.clone()).unwrap_or_default();
        let Some(delivery) = space.deliveries.get_mut(id) else {
            return self.problem(format!("{key}: attempt {number} of {id}, which no event has"));
        };
        let (was, due) = (delivery.clone(), delivery.due);
        delivery.made = *number;
        let step = usize::try_from(*number).ok().and_then(|number| steps.get(number - 1)).copied();
        let is_gone = matches!(outcome, Outcome::Gone | Outcome::Answered(410));
        delivery.status = match (outcome, step) {
            (Outcome::Answered(200..=299), _) => "delivered",
            _ if is_gone => "cancelled",
            (_, None) => "exhausted",
            (_, Some(step)) => {
                let ended = at + i64::try_from(*latency_ms).unwrap_or_default();
                // Times are shown in whole milliseconds.
                delivery.due = ended + i64::try_from(step * spread / 10).unwrap_or_default() - 2;
                "pending"
            }
        };
        if is_gone {
            let others = space.deliveries.values_mut();
            let waiting = others.filter(|other| other.subscription == *subscription && other.status == "pending");
            waiting.for_each(|other| other.status = "cancelled");
        }
        if *outcome == Outcome::Answered(410)
            && let Some(known) = space.subscriptions.get_mut(subscription)
        {
            known.state = State::Ended;
        }
        if was.status != "pending" || was.made + 1 != *number {
            self.problem(format!("{key}: attempt {number} of {id}, which was {was:?}"));
        }
        if *at < due {
            self.problem(format!("{key}: attempt {number} of {id} came {} ms early", due - at));
        }
        self.sent.push(Sent { attempt: attempt.clone(), secrets });
    }

    /// After a restart or a load, only what was not settled is listed.
    pub(super) fn forget_settled(&mut self) {
        for space in self.model.keys.values_mut() {
            space.deliveries.retain(|_, delivery| delivery.status == "pending");
            space.deliveries.values_mut().for_each(|delivery| delivery.may_come_again = true);
        }
    }

    /// The listings show the deliveries of the model, with their ends.
    pub(super) fn compare_listings(&mut self) {
        let listed = std::mem::take(&mut *self.world.listed.lock());
        for (key, listed) in listed {
            let known = self.model.keys.get(&key).map(|space| space.deliveries.clone()).unwrap_or_default();
            let mut found: BTreeMap<String, String> = BTreeMap::new();
            for delivery in &listed {
                let text = |name: &str| delivery[name].as_str().unwrap_or_default().to_owned();
                if found.insert(text("id"), text("status")).is_some() {
                    self.problem(format!("{key}: {} is listed twice", text("id")));
                }
            }
            for (id, delivery) in &known {
                match found.remove(id) {
                    Some(status) if status == delivery.status && status != "pending" => {}
                    other => self.problem(format!("{key}: {id} is listed as {other:?}, and was {delivery:?}")),
                }
            }
            if !found.is_empty() {
                self.problem(format!("{key}: listed, but never fired: {found:?}"));
            }
        }
    }

    /// Every attempt that a receiver saw is in the journal with the same bytes, and the other way round.
    pub(super) fn compare_posts(&mut self) {
        type Group<'g> = (&'g str, &'g str, [&'g str; 3], &'g [u8]);
        let posts = self.world.posts.lock().clone();
        let sent = std::mem::take(&mut self.sent);
        let mut groups: BTreeMap<Group<'_>, (Vec<&Post>, Vec<&Sent>)> = BTreeMap::new();
        for post in &posts {
            let group = (&*post.key, &*post.delivery, [&*post.id, &*post.timestamp, &*post.signature], &*post.body);
            groups.entry(group).or_default().0.push(post);
        }
        for sent in &sent {
            let Attempt { key, delivery, event, timestamp, signature, body, .. } = &sent.attempt;
            groups.entry((key, delivery, [event, timestamp, signature], body)).or_default().1.push(sent);
        }
        let cuts = self.world.cuts.lock().clone();
        for ((key, delivery, ..), (posts, sent)) in &groups {
            // One that was under way at a reset, load or restart is not recorded.
            let recorded = posts.iter().filter(|post| !is_cut(&cuts, post)).count();
            if recorded > sent.len() {
                self.problem(format!(
                    "{key}: {delivery} arrived {recorded} times, and is recorded {} times",
                    sent.len()
                ));
            }
            let mut answers: Vec<u16> = posts.iter().filter_map(|post| post.status).collect();
            for sent in sent {
                let Outcome::Answered(status) = sent.attempt.outcome else { continue };
                match answers.iter().position(|answer| *answer == status) {
                    Some(at) => drop(answers.swap_remove(at)),
                    None => self.problem(format!("{key}: {delivery} is recorded with a {status} that nobody answered")),
                }
            }
        }
        for sent in &sent {
            self.check_signature(sent);
        }
        for post in &posts {
            self.check_after_reset(&cuts, post);
        }
    }

    fn check_signature(&mut self, Sent { attempt, secrets }: &Sent) {
        if attempt.outcome == Outcome::Gone {
            return;
        }
        let body: &[u8] = &attempt.body;
        let signed = |secret: &String| {
            let timestamp = attempt.timestamp.parse().ok()?;
            let expected = Webhook::new(secret).ok()?.sign(&attempt.event, timestamp, body).ok()?;
            Some(attempt.signature.split(' ').any(|signature| signature == expected))
        };
        let count = attempt.signature.split(' ').count();
        if !secrets.iter().any(|secret| signed(secret) == Some(true)) || count > 2 {
            let Attempt { key, delivery, number, .. } = attempt;
            self.problem(format!(
                "{key}: attempt {number} of {delivery} is signed with none of its secrets {secrets:?}"
            ));
        }
    }

    /// Nothing of a key arrives once it was reset.
    fn check_after_reset(&mut self, cuts: &[Cut], post: &Post) {
        let body = String::from_utf8_lossy(&post.body).into_owned();
        let Some(marker) = marker_of(&body) else { return };
        let Some(fired) = self.world.fired.lock().get(&marker).copied() else { return };
        let slack = Duration::from_millis(4 * self.world.plan.latency_ms + 2);
        let reset = cuts.iter().find(|cut| {
            let is_meant = cut.key.as_ref().is_none_or(|key| *key == post.key);
            cut.is_reset && is_meant && fired < cut.began && post.at > cut.ended + slack
        });
        // A load may have brought it back.
        let is_back =
            |reset: &&Cut| cuts.iter().any(|cut| !cut.is_reset && cut.began >= reset.began && cut.began <= post.at);
        let reset = reset.filter(|reset| !is_back(reset));
        let Some(reset) = reset else { return };
        let is_held =
            self.world.silences.lock().iter().any(|(host, began, ended)| {
                *host == post.host && *began <= reset.ended + slack && *ended >= reset.began
            });
        if !is_held {
            self.problem(format!("{}: {marker} arrives {:?} after a reset", post.key, post.at - reset.ended));
        }
    }
}

/// True if an attempt that arrived then may have been ended by a reset, a load or a restart.
fn is_cut(cuts: &[Cut], post: &Post) -> bool {
    let timeout = Duration::from_millis(TIMEOUT_MS + 1_500);
    cuts.iter().any(|cut| {
        let is_meant = cut.key.as_ref().is_none_or(|key| *key == post.key);
        // Bytes that were held back may arrive later.
        is_meant && post.at + timeout >= cut.began && post.at <= cut.ended + timeout
    })
}
