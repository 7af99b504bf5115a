//! stub
#![allow(missing_docs)]
use crate::contract::profile::{Layered, Profile};
use arc_swap::ArcSwap;
use std::sync::Arc;
#[derive(Debug)]
pub struct Setup {
    pub layered: Layered,
    pub profile: Arc<Profile>,
    pub generation: u64,
}
#[derive(Debug)]
pub struct Generation {
    pub number: u64,
    setup: Arc<Setup>,
}
impl Generation {
    pub fn setup_for(&self, _key: Option<&str>) -> &Arc<Setup> {
        &self.setup
    }
    pub fn setup_named(&self, _names: &[&str]) -> Result<Arc<Setup>, String> {
        Ok(self.setup.clone())
    }
}
#[derive(Debug)]
pub struct Library {
    current: ArcSwap<Generation>,
}
impl Library {
    pub fn new(layered: Layered) -> Self {
        let setup = Arc::new(Setup { profile: layered.profile().clone(), layered, generation: 1 });
        Self { current: ArcSwap::from_pointee(Generation { number: 1, setup }) }
    }
    pub fn load(&self) -> arc_swap::Guard<Arc<Generation>> {
        self.current.load()
    }
}
