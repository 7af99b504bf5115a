//! Where deliveries really go: the setting `webhooks.forwards`. Must not know who delivers or what may be dialled.

use std::collections::BTreeMap;

use serde::Deserialize;
use url::Url;

/// Most forwards in force for one key.
pub const MOST_FORWARDS: usize = 256;

/// One rule: what is subscribed at `from` or below goes to `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    from: Url,
    to: Url,
}

impl Forward {
    /// Reads `FROM=TO`; both are absolute http or https URLs without query and fragment.
    pub fn parse(text: &str) -> Result<Self, String> {
        // `=` may be part of a path; the target starts with a scheme, so the last `=http` separates the two.
        let at = text.rfind("=http").ok_or_else(|| {
            format!(
                "expected FROM=TO with two URLs, such as https://app.example.com=http://localhost:3000, found `{text}`"
            )
        })?;
        Self::new(&text[..at], &text[at + 1..])
    }

    fn new(from: &str, to: &str) -> Result<Self, String> {
        let url = |text: &str| -> Result<Url, String> {
            let url = Url::parse(text)
                .map_err(|_| format!("expected a URL such as https://app.example.com, found `{text}`"))?;
            let plain = matches!(url.scheme(), "http" | "https")
                && url.host().is_some()
                && url.query().is_none()
                && url.fragment().is_none();
            plain
                .then_some(url)
                .ok_or_else(|| format!("`{text}` must be an http or https URL without query and fragment"))
        };
        Ok(Self { from: url(from)?, to: url(to)? })
    }

    /// The subscribed URL, in the form that names the rule.
    pub fn from(&self) -> &str {
        self.from.as_str().trim_end_matches('/')
    }

    pub fn to(&self) -> &str {
        self.to.as_str().trim_end_matches('/')
    }

    /// What follows the path of this rule in `url` if the rule covers it: the origin is equal and the path is a prefix by whole
    /// segments.
    fn rest<'u>(&self, url: &'u Url) -> Option<&'u str> {
        let same_origin = self.from.scheme() == url.scheme()
            && self.from.host() == url.host()
            && self.from.port_or_known_default() == url.port_or_known_default();
        let rest = if same_origin { url.path().strip_prefix(self.from.path().trim_end_matches('/')) } else { None };
        rest.filter(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    pub fn apply(&self, url: &Url) -> Option<Url> {
        let rest = self.rest(url)?;
        let mut target = self.to.clone();
        let joined = format!("{}{rest}", self.to.path().trim_end_matches('/'));
        target.set_path(&joined);
        target.set_query(url.query());
        Some(target)
    }
}

/// All rules in force, ordered by what is subscribed. In TOML a table of URL to URL; an empty target removes a rule of
/// another layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(with = "BTreeMap<String, String>"))]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct Forwards(Vec<Forward>);

impl Forwards {
    pub fn iter(&self) -> impl Iterator<Item = &Forward> {
        self.0.iter()
    }

    pub fn covering(&self, url: &Url) -> Option<&Forward> {
        let covering = self.0.iter().filter(|forward| forward.rest(url).is_some());
        covering.max_by_key(|forward| forward.from.path().len())
    }
}

impl TryFrom<BTreeMap<String, String>> for Forwards {
    type Error = String;

    fn try_from(table: BTreeMap<String, String>) -> Result<Self, String> {
        if table.len() > MOST_FORWARDS {
            return Err(format!("expected at most {MOST_FORWARDS} forwards, found {}", table.len()));
        }
        let rules = table.iter().filter(|(_, to)| !to.is_empty()).map(|(from, to)| Forward::new(from, to));
        rules.collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_forward_wins_and_paths_are_joined() {
        let rules = [
            ("https://app.example.com", "http://localhost:3000"),
            ("https://app.example.com/hooks", "http://localhost:4000/in/"),
        ];
        let rules = rules.map(|(from, to)| (from.to_owned(), to.to_owned()));
        let forwards = Forwards::try_from(BTreeMap::from(rules)).expect("the rules are valid");
        for (url, expected) in [
            ("https://app.example.com/x?a=1", Some("http://localhost:3000/x?a=1")),
            ("https://app.example.com/hooks", Some("http://localhost:4000/in")),
            ("https://app.example.com/hooks/a", Some("http://localhost:4000/in/a")),
            ("https://app.example.com/hooksx", Some("http://localhost:3000/hooksx")),
            ("https://app.example.com:8443/x", None),
            ("http://app.example.com/x", None),
        ] {
            let url = Url::parse(url).expect("a URL");
            let target = forwards.covering(&url).and_then(|rule| rule.apply(&url)).map(|target| target.to_string());
            assert_eq!(target.as_deref(), expected, "{url}");
        }
    }
}
