//! Who sent a request: reads and judges its key, and opens the key's workspace.
//!
//! A client sends the same key with each request, so each thread keeps the last one that it judged, with its workspace.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use hyper::header::{AUTHORIZATION, HeaderMap};

use crate::clock::{Instant, Now};
use crate::contract::header_name::values_of;
use crate::contract::keys::{KeyRefusal, authenticate, bearer_token, judge, workspace_of};
use crate::http::request::Request;
use crate::scenario::EffectiveConfig;
use crate::workspace::{Alias, Registry, Workspace};

/// The sender of a request with a valid key.
pub(super) struct Sender {
    /// The workspace of the key.
    pub(super) workspace: Arc<Workspace>,
    /// The key, where the workspace is not named after it.
    pub(super) group_key: Option<Arc<str>>,
    /// When the access token expires, if one came in place of the key.
    pub(super) expires: Option<Instant>,
}

/// A key that was valid, and names its workspace.
struct Known {
    /// The configuration under which it is valid.
    config: Weak<EffectiveConfig>,
    /// The value of its header.
    authorization: Box<[u8]>,
    workspace: Weak<Workspace>,
}

thread_local! {
    static LAST: RefCell<Option<Known>> = const { RefCell::new(None) };
}

/// The sender of a request, whose workspace is opened.
pub(super) fn sender(registry: &Registry, request: &Request) -> Result<Sender, KeyRefusal> {
    let Request { head, config, now, .. } = request;
    let profile = &*config.profile;
    if profile.preview.enabled {
        // An access token replaces a key; only the preview has such tokens.
        let alias = bearer_token(&head.headers).ok().and_then(|token| registry.tokens().find(token));
        if let Some(Alias { key, expires }) = alias {
            judge(&key, profile.key_rules())?;
            return Ok(open(registry, config, &key, *now, Some(expires)));
        }
    } else if let Some(workspace) = LAST.with_borrow(|last| last.as_ref()?.workspace(&head.headers, config, *now)) {
        return Ok(Sender { workspace, group_key: None, expires: None });
    }
    let key = authenticate(&head.headers, profile.key_rules())?;
    let sender = open(registry, config, key, *now, None);
    if let Some(value) = values_of(&head.headers, &AUTHORIZATION).next().filter(|_| sender.group_key.is_none()) {
        let (config, workspace) = (Arc::downgrade(config), Arc::downgrade(&sender.workspace));
        LAST.set(Some(Known { config, authorization: value.as_bytes().into(), workspace }));
    }
    Ok(sender)
}

fn open(registry: &Registry, config: &EffectiveConfig, key: &str, now: Now, expires: Option<Instant>) -> Sender {
    let workspace = registry.open(workspace_of(key, &config.profile.keys), now);
    let group_key = (workspace.name().as_ref() != key).then(|| Arc::from(key));
    Sender { workspace, group_key, expires }
}

impl Known {
    /// The workspace, if the headers carry this key, the configuration is the same and the workspace is still in use.
    fn workspace(&self, headers: &HeaderMap, config: &Arc<EffectiveConfig>, now: Now) -> Option<Arc<Workspace>> {
        let mut values = values_of(headers, &AUTHORIZATION);
        let is_same = values.next().is_some_and(|value| value.as_bytes() == &*self.authorization)
            && values.next().is_none()
            // An address is not used again as long as something points to it.
            && std::ptr::eq(self.config.as_ptr(), Arc::as_ptr(config));
        let workspace = self.workspace.upgrade().filter(|workspace| is_same && !workspace.has_left())?;
        workspace.touch(now.instant);
        Some(workspace)
    }
}
