//! Layer 5, the review of an integration: what its traffic shows (`findings`).

pub mod findings;
