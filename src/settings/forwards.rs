//! Where deliveries really go: the setting `webhooks.forwards`. Independent of who delivers or what may be dialled.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

/// Most forwards in force for one key.
pub const MAX_FORWARDS: usize = 256;

/// One rule: deliveries for `from` or below go to `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    from: Url,
    to: Url,
}

impl Forward {
    /// Reads `FROM=TO`: the absolute URL that is subscribed, without query and fragment, and an address.
    pub fn parse(text: &str) -> Result<Self, String> {
        // `=` may be part of either path, and of the query of the target.
        let before_query = &text[..text.find('?').unwrap_or(text.len())];
        let separators = ["=http://", "=https://"].into_iter().filter_map(|separator| before_query.rfind(separator));
        let at = separators.max().or_else(|| before_query.rfind('=')).or_else(|| text.rfind("=http")).ok_or_else(|| {
            format!(
                "expected FROM=TO with two URLs, such as https://app.example.com=http://localhost:3000, found `{text}`"
            )
        })?;
        Self::new(&text[..at], &text[at + 1..])
    }

    fn new(from: &str, to: &str) -> Result<Self, String> {
        let from = Url::parse(from)
            .map_err(|_| format!("expected a URL such as https://app.example.com, found `{}`", from.escape_debug()))?;
        if !is_web(&from) || from.query().is_some() || from.fragment().is_some() {
            return Err(format!("`{from}` must be an http or https URL without query and fragment"));
        }
        Ok(Self { from, to: target_url(to)? })
    }

    /// The subscribed URL, in the form that names the rule.
    pub fn from(&self) -> &str {
        self.from.as_str().trim_end_matches('/')
    }

    /// The target, with the slash at the end of a path: to some servers it is another path.
    pub fn to(&self) -> &str {
        let text = self.to.as_str();
        if self.to.path() == "/" { text.trim_end_matches('/') } else { text }
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

    /// The target, followed by what the URL has more than the rule.
    pub fn apply(&self, url: &Url) -> Option<Url> {
        let rest = self.rest(url)?;
        // The path of an origin is a slash, which is nothing more than the rule.
        let is_all = rest.is_empty() || rest == "/" && self.from.path() == "/";
        let target = self.to.path();
        let path = if is_all { target.to_owned() } else { format!("{}{rest}", target.trim_end_matches('/')) };
        Some(with_rest(&self.to, &path, url.query()))
    }
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

/// Reads where deliveries go instead: a port, `localhost:3000/hooks`, or a whole URL, each with a query if it has to have one.
pub fn target_url(text: &str) -> Result<Url, String> {
    let is_port = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let spelled = match (is_port, text.contains("://")) {
        (true, _) => format!("http://localhost:{text}"),
        (false, true) => text.to_owned(),
        (false, false) => format!("http://{text}"),
    };
    let found = || text.escape_debug();
    let url = Url::parse(&spelled)
        .map_err(|_| format!("expected an address such as http://localhost:3000/hooks, found `{}`", found()))?;
    if !is_web(&url) || url.fragment().is_some() {
        return Err(format!("`{}` must be an http or https URL without a fragment", found()));
    }
    Ok(url)
}

/// A target with this path; its own query comes before that of the request.
pub fn with_rest(target: &Url, path: &str, query: Option<&str>) -> Url {
    let mut url = target.clone();
    url.set_path(path);
    let queries: Vec<&str> = target.query().into_iter().chain(query).filter(|query| !query.is_empty()).collect();
    url.set_query((!queries.is_empty()).then(|| queries.join("&")).as_deref());
    url
}

/// All rules in force, ordered by the subscribed URL. In TOML a table of URL to URL; an empty target removes a rule of
/// another layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(with = "BTreeMap<String, String>")]
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
        if table.len() > MAX_FORWARDS {
            return Err(format!("expected at most {MAX_FORWARDS} forwards, found {}", table.len()));
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
            ("https://app.example.com/q", "http://localhost:4000/in?token=a"),
            ("https://app.example.com/bare", "http://localhost:4000/in"),
        ];
        let rules = rules.map(|(from, to)| (from.to_owned(), to.to_owned()));
        let forwards = Forwards::try_from(BTreeMap::from(rules)).expect("the rules are valid");
        for (url, expected) in [
            ("https://app.example.com/x?a=1", Some("http://localhost:3000/x?a=1")),
            ("https://app.example.com/hooks", Some("http://localhost:4000/in/")),
            ("https://app.example.com/q", Some("http://localhost:4000/in?token=a")),
            ("https://app.example.com/q/a?b=c", Some("http://localhost:4000/in/a?token=a&b=c")),
            ("https://app.example.com/bare", Some("http://localhost:4000/in")),
            ("https://app.example.com/bare/", Some("http://localhost:4000/in/")),
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

    #[test]
    fn an_origin_leads_to_exactly_the_target() {
        for (to, shown) in [
            ("http://localhost/webhooks/", "http://localhost/webhooks/"),
            ("http://localhost/webhooks", "http://localhost/webhooks"),
            ("http://localhost/", "http://localhost"),
        ] {
            let rule = Forward::parse(&format!("https://app.example.com={to}")).expect("a rule");
            let url = Url::parse("https://app.example.com").expect("a URL");
            assert_eq!(rule.apply(&url).map(String::from).as_deref(), Some(to));
            assert_eq!(rule.to(), shown);
        }
    }

    #[test]
    fn a_rule_and_its_target_are_read_as_people_type_them() {
        for (text, expected) in [
            ("https://a.example=http://b/?x=http://c", Some(("https://a.example", "http://b/?x=http://c"))),
            ("https://a.example/x=y=http://b/z=1", Some(("https://a.example/x=y", "http://b/z=1"))),
            ("https://a.example=3000", Some(("https://a.example", "http://localhost:3000"))),
            (
                "https://a.example=localhost:3000?token=abc",
                Some(("https://a.example", "http://localhost:3000/?token=abc")),
            ),
            ("https://a.example/?x=http://b", None),
            ("https://a.example", None),
            ("=http://b", None),
            ("https://a.example=http://b#c", None),
        ] {
            let rule = Forward::parse(text).ok();
            assert_eq!(rule.as_ref().map(|rule| (rule.from(), rule.to())), expected, "{text}");
        }
        for (text, expected) in [
            ("3000", Some("http://localhost:3000/")),
            ("localhost:3000/hooks", Some("http://localhost:3000/hooks")),
            ("127.0.0.1:80/a?b=1", Some("http://127.0.0.1/a?b=1")),
            ("https://localhost:3000", Some("https://localhost:3000/")),
            ("", None),
            ("ftp://localhost", None),
            ("http://", None),
        ] {
            assert_eq!(target_url(text).ok().map(String::from).as_deref(), expected, "{text}");
        }
    }
}
