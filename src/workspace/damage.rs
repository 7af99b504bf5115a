//! What is deliberately wrong with an event's deliveries, and who asked for it, in words. Every output that shows a damaged
//! delivery contains this text, so that nobody mistakes it for a bug.

use std::sync::Arc;

use super::{FireRequest, Origin};
use crate::duration::duration_text;
use crate::profile::Profile;

impl FireRequest {
    /// How many copies of each delivery are sent: as many as were requested, and at least as many as the profile sets.
    pub(super) fn copies(&self, profile: &Profile) -> u32 {
        profile.webhooks.copies.get().max(self.extra_copies.saturating_add(1))
    }

    /// What is deliberately wrong with the deliveries, and who asked for it or which setting causes it; `None` if nothing is.
    pub fn damage(&self, profile: &Profile) -> Option<Arc<str>> {
        let parts: Vec<String> = self.asked_for().into_iter().chain(self.by_settings(profile)).collect();
        (!parts.is_empty()).then(|| parts.join(", ").into())
    }

    /// The damage that settings cause.
    fn by_settings(&self, profile: &Profile) -> impl Iterator<Item = String> {
        let (copies, longest) = (self.copies(profile), profile.webhooks.scatter.get());
        let copied = copies > self.extra_copies.saturating_add(1);
        let copied = copied.then(|| format!("sent {copies} times deliberately (setting webhooks.copies)"));
        let delayed = || format!("delayed deliberately by up to {} (setting webhooks.scatter)", duration_text(longest));
        let swap = profile.webhooks.swap.get();
        let swapped = || format!("every other event held back by {} (setting webhooks.swap)", duration_text(swap));
        copied.into_iter().chain((!longest.is_zero()).then(delayed)).chain((!swap.is_zero()).then(swapped))
    }

    /// The damage that the request asks for.
    fn asked_for(&self) -> Option<String> {
        let copies = self.extra_copies.saturating_add(1);
        let kinds = [
            self.tamper.map(|tamper| {
                (format!("tampered deliberately: {}", tamper.name()), format!("--tamper {}", tamper.name()))
            }),
            (copies > 1).then(|| (format!("sent {copies} times deliberately"), format!("--duplicate {copies}"))),
            self.shuffled.then(|| ("sent out of order deliberately".to_owned(), "--shuffle".to_owned())),
            self.lost.then(|| ("dropped deliberately".to_owned(), "--drop".to_owned())),
        ];
        let (what, flags): (Vec<String>, Vec<String>) = kinds.into_iter().flatten().unzip();
        if what.is_empty() {
            return None;
        }
        let by = self.origin.in_scenario().unwrap_or_else(|| match self.origin {
            Origin::Command => format!("`trigger {}`, or POST /_emulator/events", flags.join(" ")),
            _ => "a `FireRequest`".to_owned(),
        });
        Some(format!("{} ({by})", what.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::signature::Tamper;

    #[test]
    fn the_text_names_each_kind_and_the_origin() {
        let tampered = |origin| FireRequest { tamper: Some(Tamper::Body), origin, ..FireRequest::default() };
        let scenario: Arc<str> = "forged".into();
        for (request, expected) in [
            (FireRequest::default(), None),
            (tampered(Origin::Embedding), Some("tampered deliberately: body (a `FireRequest`)")),
            (
                FireRequest { extra_copies: 1, ..tampered(Origin::Command) },
                Some(
                    "tampered deliberately: body, sent 2 times deliberately (`trigger --tamper body --duplicate 2`, or POST /_emulator/events)",
                ),
            ),
            (
                tampered(Origin::emission(&scenario, None, "emit 3")),
                Some("tampered deliberately: body (scenario `forged`, emission 3)"),
            ),
            (
                FireRequest {
                    lost: true,
                    origin: Origin::emission(&scenario, Some(&"x".repeat(200)), "x"),
                    ..FireRequest::default()
                },
                Some(&*format!("dropped deliberately (scenario `forged`, emission `{}`)", "x".repeat(80))),
            ),
        ] {
            assert_eq!(request.damage(&Profile::default()).as_deref(), expected);
        }
    }
}
