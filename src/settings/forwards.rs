//! Where deliveries really go: the setting `webhooks.forwards`. Independent of who delivers or what may be dialled.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

use crate::contract::rules::check_webhook_url;
use crate::util::wording::quoted;

/// Maximum number of forwards in force for one key.
pub const MAX_FORWARDS: usize = 256;
/// Maximum characters of a host that is looked through for typing errors: a verdict compares each failed delivery with each forward.
const MAX_COMPARED: usize = 40;

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

    /// Reads rules, each for another URL.
    pub fn parse_all(texts: &[String]) -> Result<Vec<Self>, String> {
        let mut rules: Vec<Self> = Vec::with_capacity(texts.len());
        for text in texts {
            let rule = Self::parse(text)?;
            if let Some(other) = rules.iter().find(|other| other.covers_as(&rule) && other.to != rule.to) {
                let (from, to, second) = (rule.from(), other.to(), rule.to());
                return Err(format!("`{from}` is forwarded twice, to {to} and to {second}; keep one of them"));
            }
            rules.push(rule);
        }
        Ok(rules)
    }

    fn new(from: &str, to: &str) -> Result<Self, String> {
        let from = Url::parse(from)
            .map_err(|_| format!("expected a URL such as https://app.example.com, found `{}`", quoted(from)))?;
        if !is_web(&from) || from.query().is_some() || from.fragment().is_some() {
            return Err(format!("`{from}` must be an http or https URL without query and fragment"));
        }
        if let Err(reason) = check_webhook_url(from.as_str(), true) {
            let wildcard = if from.host_str().is_some_and(|host| host.contains('*')) {
                "; there are no wildcards: name each host, every path below it is covered"
            } else {
                ""
            };
            return Err(format!("no subscription can have `{from}`: its URL {reason}{wildcard}"));
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

    /// The rest of `url` after the path of this rule if the rule covers it: the origin is equal and the path is a prefix by whole
    /// segments.
    fn rest<'u>(&self, url: &'u Url) -> Option<&'u str> {
        let same_origin = self.from.scheme() == url.scheme()
            && self.from.host() == url.host()
            && self.from.port_or_known_default() == url.port_or_known_default();
        let rest = if same_origin { url.path().strip_prefix(self.from.path().trim_end_matches('/')) } else { None };
        rest.filter(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// True if both cover the same URLs.
    fn covers_as(&self, other: &Self) -> bool {
        self.rest(&other.from).is_some_and(|rest| rest.trim_end_matches('/').is_empty())
    }

    /// Why this rule does not cover a URL that it nearly covers, beginning with the nearest kind.
    fn difference(&self, url: &Url) -> Option<(u8, String)> {
        let (own, host) = (self.from.host_str()?, url.host_str()?);
        let is_below = |one: &str, other: &str| one.strip_suffix(other).is_some_and(|rest| rest.ends_with('.'));
        let port = |url: &Url| url.port_or_known_default();
        Some(if own != host {
            // A letter in ten; short names are often alike. Comparing needs time proportional to the product of both lengths.
            let is_short = own.len().max(host.len()) <= MAX_COMPARED;
            let is_mistyped = is_short && 10 * strsim::osa_distance(own, host) <= own.len();
            if !is_below(own, host) && !is_below(host, own) && !is_mistyped {
                return None;
            }
            (3, format!("its host is {own}, not {host}"))
        } else if self.from.scheme() != url.scheme() {
            (2, format!("its scheme is {}, not {}", self.from.scheme(), url.scheme()))
        } else if port(&self.from) != port(url) {
            (1, format!("its port is {}, not {}", port(&self.from)?, port(url)?))
        } else {
            (0, format!("`{}` is not below its path", url.path()))
        })
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
    let found = quoted(text);
    let url = Url::parse(&spelled)
        .map_err(|_| format!("expected an address such as http://localhost:3000/hooks, found `{found}`"))?;
    if !is_web(&url) || url.fragment().is_some() {
        return Err(format!("`{found}` must be an http or https URL without a fragment"));
    }
    if url.port() == Some(0) {
        return Err(format!("`{found}` must not use port 0, at which nothing can listen"));
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

/// A rule that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleForward {
    forward: Forward,
    reason: IdleReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum IdleReason {
    /// This rule is of the same URL.
    Shadowed(Forward),
    PlainHttp,
    /// With an asterisk, and this before it.
    Wildcard(Url),
}

impl fmt::Display for IdleForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, from, to) = (self.forward.from.as_str(), self.forward.from(), self.forward.to());
        match &self.reason {
            IdleReason::Shadowed(used) => write!(
                f,
                "the forward of `{url}` to {to} is never used: `{}` is the same URL, and goes to {}",
                used.from.as_str(),
                used.to()
            ),
            IdleReason::PlainHttp => write!(
                f,
                "the forward of `{from}` is never used: a subscription must use https; forward `{}`, or set webhooks.allow_http=true",
                from.replacen("http:", "https:", 1)
            ),
            IdleReason::Wildcard(prefix) => write!(
                f,
                "the forward of `{from}` covers only URLs with that asterisk: there are no wildcards, and `{}` covers every path below it",
                prefix.as_str().trim_end_matches('/')
            ),
        }
    }
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

    /// The rules that can never apply, or hardly as they are meant; `allow_http` is the setting of that name.
    pub fn idle(&self, allow_http: bool) -> Vec<IdleForward> {
        let idle = |forward: &Forward| {
            let reason = if let Some(used) = self.covering(&forward.from).filter(|used| *used != forward) {
                IdleReason::Shadowed(used.clone())
            } else if forward.from.scheme() == "http" && !allow_http {
                IdleReason::PlainHttp
            } else {
                // One may be subscribed, but is hardly meant.
                let (prefix, _) = forward.from.path().split_once('*')?;
                IdleReason::Wildcard(forward.from.join(prefix).ok()?)
            };
            Some(IdleForward { forward: forward.clone(), reason })
        };
        self.0.iter().filter_map(idle).collect()
    }

    /// The rule that nearly covers an uncovered URL, and the difference.
    pub fn near_miss(&self, url: &Url) -> Option<String> {
        if self.covering(url).is_some() {
            return None;
        }
        let near = self.0.iter().filter_map(|forward| Some((forward.difference(url)?, forward)));
        let ((_, difference), forward) = near.min_by_key(|((rank, _), _)| *rank)?;
        Some(format!("the forward of `{}` does not cover it: {difference}", forward.from()))
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
    fn a_rule_that_never_applies_says_why() {
        let to = "http://localhost:3000";
        for (rules, allow_http, expected) in [
            (
                &[("https://a.example", to), ("https://a.example/x", to), ("https://b.example:8443", to)][..],
                false,
                None,
            ),
            (&[("http://a.example:8080/x", to)], true, None),
            (&[("http://a.example:8080/x", to)], false, Some("forward `https://a.example:8080/x`, or set")),
            (&[("https://a.example/x/*", to)], false, Some("`https://a.example/x` covers every path below it")),
            (&[("https://a.example/*", to)], false, Some("`https://a.example` covers every path below it")),
            (
                &[("https://A.example", "http://localhost:1"), ("https://a.example:443/", to)],
                false,
                Some(
                    "to http://localhost:1 is never used: `https://a.example/` is the same URL, and goes to http://localhost:3000",
                ),
            ),
            (
                &[("https://a.example/x", "http://localhost:1"), ("https://a.example/x/", to)],
                false,
                Some(
                    "the forward of `https://a.example/x` to http://localhost:1 is never used: `https://a.example/x/` is",
                ),
            ),
        ] {
            let table: BTreeMap<_, _> = rules.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
            let idle = Forwards::try_from(table).expect("the rules are valid").idle(allow_http);
            let said: Vec<String> = idle.iter().map(ToString::to_string).collect();
            assert_eq!(said.len(), usize::from(expected.is_some()), "{rules:?}: {said:?}");
            assert!(expected.is_none_or(|expected| said[0].contains(expected)), "{rules:?}: {said:?}");
        }
    }

    #[test]
    fn a_rule_that_no_subscription_can_need_is_refused() {
        for (rule, expected) in [
            (
                "https://*.example.com=3000",
                "its URL must name a host of letters, digits, hyphens and dots; there are no",
            ),
            ("https://a.example:0=3000", "its URL must not use port 0"),
            ("https://user@a.example=3000", "its URL must not contain user information"),
            ("https://a.example=http://localhost:0", "`http://localhost:0` must not use port 0"),
        ] {
            let refused = Forward::parse(rule).expect_err(rule);
            assert!(refused.contains(expected), "{rule}: {refused}");
        }
        let twice = ["https://a.example=3000", "https://A.example:443/=4000"].map(str::to_owned);
        let refused = Forward::parse_all(&twice).expect_err("one URL");
        assert_eq!(
            refused,
            "`https://a.example` is forwarded twice, to http://localhost:3000 and to http://localhost:4000; keep one of them"
        );
        assert!(Forward::parse_all(&[twice[0].clone(), twice[0].clone()]).is_ok());
    }

    #[test]
    fn the_rule_that_nearly_covers_a_url_is_named() {
        let rules = [
            "https://a.example/hooks",
            "https://a.example:8443",
            "http://b.example",
            "https://c.example",
            "https://app.example.com",
        ];
        let table = rules.map(|from| (from.to_owned(), "http://localhost:3000".to_owned()));
        let forwards = Forwards::try_from(BTreeMap::from(table)).expect("the rules are valid");
        for (url, expected) in [
            ("https://a.example/hooks/x", None),
            (
                "https://a.example/other",
                Some("`https://a.example/hooks` does not cover it: `/other` is not below its path"),
            ),
            ("https://b.example/", Some("`http://b.example` does not cover it: its scheme is http, not https")),
            ("https://c.example:8443/", Some("`https://c.example` does not cover it: its port is 443, not 8443")),
            ("https://www.c.example/", Some("its host is c.example, not www.c.example")),
            ("https://d.example/", None),
            ("https://app.exmple.com/", Some("its host is app.example.com, not app.exmple.com")),
        ] {
            let said = forwards.near_miss(&Url::parse(url).expect("a URL"));
            assert_eq!(said.is_some(), expected.is_some(), "{url}: {said:?}");
            assert!(said.is_none_or(|said| said.ends_with(expected.unwrap_or_default())), "{url}");
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
