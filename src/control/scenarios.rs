//! stub
use super::{Call, Control, ControlError, Reply, ok};
use serde_json::json;
pub(super) fn list(_control: &Control, _call: &Call) -> Result<Reply, ControlError> {
    Ok(ok(&json!({})))
}
pub(super) fn reload(_control: &Control, _call: &Call) -> Result<Reply, ControlError> {
    Ok(ok(&json!({})))
}
pub(super) fn activate(_control: &Control, _call: &Call) -> Result<Reply, ControlError> {
    Ok(ok(&json!({})))
}
