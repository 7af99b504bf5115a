//! Every scheme as one row of data: header names, signed content, hash, and how the signature
//! header is put together.
//!
//! `sign` and `verify` read the same row, so a scheme cannot be signed one way and checked
//! another. The rows follow what the named services send. Must not know about keys or time.

use std::borrow::Cow;

use super::mac::{Encoding, Hash};
use super::{Scheme, SigningKey};

/// One scheme's row; header names are in lower case.
#[derive(Clone, Debug)]
pub(super) struct Layout<'a> {
    pub(super) id_header: Option<Cow<'a, str>>,
    /// Whether receivers refuse a delivery without the id header.
    pub(super) id_required: bool,
    /// A header of its own for the timestamp; Stripe's stands inside the signature header.
    pub(super) timestamp_header: Option<Cow<'a, str>>,
    pub(super) signature_header: Cow<'a, str>,
    /// The template of the signed content.
    pub(super) content: &'a str,
    pub(super) hash: Hash,
    pub(super) encoding: Encoding,
    pub(super) form: Form<'a>,
}

/// How the signature header is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form<'a> {
    /// `v1,<signature>` tokens, separated by spaces.
    Tokens,
    /// `t=<timestamp>,v1=<signature>`, more `v1=` parts allowed.
    Parts,
    /// One signature after a fixed prefix.
    One { prefix: &'a str },
}

const STANDARD: Layout<'static> = Layout {
    id_header: Some(Cow::Borrowed("webhook-id")),
    id_required: true,
    timestamp_header: Some(Cow::Borrowed("webhook-timestamp")),
    signature_header: Cow::Borrowed("webhook-signature"),
    content: "{id}.{timestamp}.{body}",
    hash: Hash::Sha256,
    encoding: Encoding::Base64,
    form: Form::Tokens,
};

const SVIX: Layout<'static> = Layout {
    id_header: Some(Cow::Borrowed("svix-id")),
    timestamp_header: Some(Cow::Borrowed("svix-timestamp")),
    signature_header: Cow::Borrowed("svix-signature"),
    ..STANDARD
};

const STRIPE: Layout<'static> = Layout {
    id_header: None,
    id_required: false,
    timestamp_header: None,
    signature_header: Cow::Borrowed("stripe-signature"),
    content: "{timestamp}.{body}",
    hash: Hash::Sha256,
    encoding: Encoding::Hex,
    form: Form::Parts,
};

const GITHUB: Layout<'static> = Layout {
    id_header: Some(Cow::Borrowed("x-github-delivery")),
    // Neither the id nor a time is signed, and GitHub's libraries ask for the signature alone.
    id_required: false,
    timestamp_header: None,
    signature_header: Cow::Borrowed("x-hub-signature-256"),
    content: "{body}",
    hash: Hash::Sha256,
    encoding: Encoding::Hex,
    form: Form::One { prefix: "sha256=" },
};

const SLACK: Layout<'static> = Layout {
    id_header: None,
    id_required: false,
    timestamp_header: Some(Cow::Borrowed("x-slack-request-timestamp")),
    signature_header: Cow::Borrowed("x-slack-signature"),
    content: "v0:{timestamp}:{body}",
    hash: Hash::Sha256,
    encoding: Encoding::Hex,
    form: Form::One { prefix: "v0=" },
};

const SHOPIFY: Layout<'static> = Layout {
    id_header: Some(Cow::Borrowed("x-shopify-webhook-id")),
    id_required: false,
    timestamp_header: None,
    signature_header: Cow::Borrowed("x-shopify-hmac-sha256"),
    content: "{body}",
    hash: Hash::Sha256,
    encoding: Encoding::Base64,
    form: Form::One { prefix: "" },
};

impl<'a> Layout<'a> {
    /// The row of `scheme`.
    pub(super) fn of(scheme: &'a Scheme) -> Self {
        match scheme {
            Scheme::Standard => STANDARD,
            Scheme::Svix => SVIX,
            Scheme::Stripe => STRIPE,
            Scheme::Github => GITHUB,
            Scheme::Slack => SLACK,
            Scheme::Shopify => SHOPIFY,
            Scheme::Custom(custom) => Layout {
                id_header: optional_header(&custom.id_header),
                id_required: true,
                timestamp_header: optional_header(&custom.timestamp_header),
                signature_header: Cow::Owned(custom.signature_header.to_ascii_lowercase()),
                content: &custom.content,
                hash: custom.hash,
                encoding: custom.encoding,
                form: Form::One { prefix: &custom.prefix },
            },
        }
    }

    /// The row under which Svix's libraries look when a `svix-` header is absent.
    pub(super) const fn svix_fallback() -> Layout<'static> {
        STANDARD
    }

    /// Whether the signature header has room for more than one signature.
    pub(super) fn takes_several(&self) -> bool {
        !matches!(self.form, Form::One { .. })
    }

    /// One signature as it stands in the header: `v1,…`, `v1=…` or the prefix and the signature.
    pub(super) fn token(&self, key: &SigningKey, content: &[u8]) -> String {
        let signature = self.encoding.encode(&self.hash.mac(key.as_bytes(), content));
        match self.form {
            Form::Tokens => format!("v1,{signature}"),
            Form::Parts => format!("v1={signature}"),
            Form::One { prefix } => format!("{prefix}{signature}"),
        }
    }
}

fn optional_header(name: &str) -> Option<Cow<'_, str>> {
    (!name.is_empty()).then(|| Cow::Owned(name.to_ascii_lowercase()))
}
