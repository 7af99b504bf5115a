//! The random sources of one workspace, and the ids made from them: what a snapshot saves so that all further draws are the same.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::clock::{Now, Random, Seed};
use crate::contract::ids::{IdKind, make_id};
use crate::settings::Profile;

#[derive(Debug)]
pub struct RandomSources {
    pub random: Random,
    serial: u64,
    /// Events have their own source: they are fired by time, between requests, and must not change what requests draw.
    pub event_random: Random,
    event_serial: u64,
}

/// The states of the sources, as base64, and how many ids they have made.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedSources {
    random: String,
    serial: u64,
    event_random: String,
    event_serial: u64,
}

impl RandomSources {
    pub(crate) fn new(seed: &Seed, workspace: &str) -> Self {
        // No key has the second name, as keys hold no spaces.
        let (random, event_random) = (seed.source(workspace), seed.source(&format!("{workspace} events")));
        Self { random, serial: 0, event_random, event_serial: 0 }
    }

    pub fn make_id(&mut self, kind: IdKind, profile: &Profile, now: Now) -> String {
        let (serial, random) = match kind {
            IdKind::Event | IdKind::Delivery => (&mut self.event_serial, &mut self.event_random),
            _ => (&mut self.serial, &mut self.random),
        };
        *serial += 1;
        let unix_millis = u64::try_from(now.wall.as_millisecond()).unwrap_or(0);
        make_id(kind, profile.ids.style, unix_millis, *serial, random)
    }

    pub(crate) fn save(&self) -> SavedSources {
        let state = |random: &Random| STANDARD.encode(random.serialize_state());
        SavedSources {
            random: state(&self.random),
            serial: self.serial,
            event_random: state(&self.event_random),
            event_serial: self.event_serial,
        }
    }

    pub(crate) fn restored(saved: &SavedSources) -> Result<Self, String> {
        let source = |name: &str, text: &str| {
            let state = STANDARD.decode(text).ok().and_then(|bytes| <[u8; 49]>::try_from(bytes).ok());
            let invalid = || format!("sources.{name}: expected 49 bytes as base64");
            state.map(|state| Random::deserialize_state(&state)).ok_or_else(invalid)
        };
        Ok(Self {
            random: source("random", &saved.random)?,
            serial: saved.serial,
            event_random: source("event_random", &saved.event_random)?,
            event_serial: saved.event_serial,
        })
    }
}
