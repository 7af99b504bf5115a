//! The next step with the emulator, as data. A sentence says why, and each output words the advice for its reader: the command line
//! and the texts of the control API as a command, the tools for agents as a call, the page as a button, the packages for tests as `wrs.…`.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use url::Url;

use crate::contract::DEFAULT_URL;
use crate::util::wording::shell_word;

/// A URL whose receiver is built in, for those who have none yet.
pub const BUILT_IN_RECEIVER: &str = "https://app.sink.localhost/hooks";

/// The next step. An absent key means all keys, or the one that the reader uses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
// `remote` allows the check below after reading.
#[serde(tag = "do", rename_all = "snake_case", remote = "Self")]
pub enum Advice {
    /// Move the clock of a key forward.
    AdvanceClock { advance: String, key: Option<String> },
    /// Let the clock run by itself.
    ResumeClock {},
    /// Move the clock to whatever is due while a call waits.
    AutomateClock { key: Option<String> },
    /// Make these scenarios the active ones; an empty list turns them off.
    UseScenarios { active: Vec<String>, key: Option<String> },
    /// End the list of a key, so that those of all keys are active again.
    FollowScenarios { key: Option<String> },
    /// Look at every scenario.
    ListScenarios {},
    /// Change a setting.
    Set { setting: String, value: String },
    /// Send the deliveries for a URL, and for those below it, elsewhere.
    Forward { url: String, to: String },
    /// Subscribe a URL.
    Subscribe { url: String, key: Option<String> },
    /// Receive deliveries with a program of one's own.
    Listen { url: String, key: Option<String> },
    /// Make a disabled subscription active again.
    EnableSubscription { id: String },
    /// Look at the secret of a subscription.
    ShowSecret { id: String },
    /// Send an event again.
    Redeliver { id: String },
    /// Fire an event, perhaps forged or sent twice.
    Fire {
        #[serde(rename = "type")]
        event_type: String,
        tamper: Option<String>,
        duplicate: Option<u32>,
        key: Option<String>,
    },
    /// Ask why a request or a delivery went as it did.
    Explain { id: String },
    /// Look at each attempt of a delivery.
    ShowDelivery { id: String },
    /// Look at the requests of a key.
    ListRequests { key: String },
    /// Look at the findings of the review.
    ReviewFindings {},
    /// Verify a delivery with the secret in `WRS_WEBHOOK_SECRET`. Without a body, it is in a file.
    Verify {
        body: Option<String>,
        headers: Vec<String>,
        /// The time at which it was signed, in seconds.
        now: Option<i64>,
        scheme: Option<String>,
        secret_key: Option<String>,
    },
}

impl Serialize for Advice {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for Advice {
    /// A document may have been edited: a value that begins with `-` would be an option of the command that a reader pastes.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let advice = Self::deserialize(from)?;
        let has_options = match &advice {
            // Its body goes through a pipe, and its headers follow their flag.
            Self::Verify { .. } => false,
            advice => begins_with_dash(&json!(advice)),
        };
        if has_options { Err(D::Error::custom("advice has a value that begins with `-`")) } else { Ok(advice) }
    }
}

fn begins_with_dash(value: &Value) -> bool {
    match value {
        Value::String(text) => text.starts_with('-'),
        Value::Array(items) => items.iter().any(begins_with_dash),
        Value::Object(fields) => fields.values().any(begins_with_dash),
        _ => false,
    }
}

/// A sentence, and what to do about it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Hint {
    /// What, and why.
    pub text: String,
    pub advice: Option<Advice>,
}

impl Hint {
    pub fn new(text: impl Into<String>, advice: Advice) -> Self {
        Self { text: text.into(), advice: Some(advice) }
    }

    /// In one line, for a reader.
    pub fn line(&self, reader: &Audience) -> String {
        match &self.advice {
            Some(advice) => format!("{} `{}`", self.text, advice.worded(reader)),
            None => self.text.clone(),
        }
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self { text, advice: None }
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// Who reads advice, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A person at a shell, with the emulator at this address; `None` for the default one.
    Person { url: Option<String> },
    /// An agent with the tools of `mcp`; the address is for commands that no tool stands for.
    Agent { url: Option<String> },
    /// A person with a saved run in this file, whose emulator may have ended.
    File(String),
    /// A person after `exec` without a report: nothing is left to ask.
    Nobody,
}

/// The header with which a caller of the control API says who reads its text: `person` or `agent`, and the address that it called.
pub const READER: &str = "x-emulator-reader";

/// Longest address in that header: a scheme, the longest host and a port.
const MAX_ADDRESS: usize = 300;

impl Audience {
    /// A person at a shell, with the emulator at this address.
    pub fn person(url: &str) -> Self {
        Self::Person { url: beyond_default(url) }
    }

    pub fn agent(url: &str) -> Self {
        Self::Agent { url: beyond_default(url) }
    }

    /// Parses the header; `None` if it is not valid. Commands repeat the address, so it must be short and have no path.
    pub fn from_header(value: &str) -> Option<Self> {
        let (reader, address) = value.split_once(' ')?;
        let url = Url::parse(address).ok().filter(|url| url.path() == "/" && url.query().is_none())?;
        let is_short = address.len() <= MAX_ADDRESS && matches!(url.scheme(), "http" | "https");
        match reader {
            "person" if is_short => Some(Self::person(address)),
            "agent" if is_short => Some(Self::agent(address)),
            _ => None,
        }
    }

    /// The value of the header, for calls to this address.
    pub fn header(&self, called: &str) -> String {
        format!("{} {called}", if matches!(self, Self::Agent { .. }) { "agent" } else { "person" })
    }

    /// How this reader names an option of the command or tool whose answer it reads.
    pub fn option(&self, name: &str) -> String {
        if matches!(self, Self::Agent { .. }) { name.to_owned() } else { format!("--{name}") }
    }

    /// The command that lists every cause of a run, of this key or of all, where only the first are shown.
    pub fn all_causes(&self, key: Option<&str>) -> String {
        let (option, value) = match self {
            Self::Nobody => return "`--report report.html` writes a page that lists them".to_owned(),
            Self::File(file) => (" --from ", Some(file.as_str())),
            Self::Person { url } | Self::Agent { url } => (" --url ", url.as_deref()),
        };
        let key = key.map_or_else(String::new, |key| format!(" --key {}", shell_word(key)));
        let place = value.map_or_else(String::new, |value| format!("{option}{}", shell_word(value)));
        format!("`wrs-emulator verdict --json{key}{place}` lists them")
    }

    /// A sentence such as "`wrs-emulator explain req_1` shows why".
    pub fn look(&self, advice: &Advice) -> String {
        let (shows, page) = match advice {
            Advice::ListRequests { .. } => ("lists its requests", "shows its output and its requests"),
            Advice::ReviewFindings {} => ("lists them", "lists them"),
            _ => ("shows why", "shows why"),
        };
        match (self, advice) {
            (Self::Nobody, _) => format!("`--report report.html` writes a page that {page}"),
            (Self::File(file), Advice::Explain { id }) => {
                format!("`wrs-emulator explain {} --from {}` {shows}", shell_word(id), shell_word(file))
            }
            (Self::File(file), Advice::ReviewFindings {}) => {
                format!("Review in `wrs-emulator run view {}` {shows}", shell_word(file))
            }
            (Self::File(file), _) => format!("`wrs-emulator run view {}` {page}", shell_word(file)),
            (Self::Person { .. } | Self::Agent { .. }, _) => format!("`{}` {shows}", advice.worded(self)),
        }
    }
}

fn beyond_default(url: &str) -> Option<String> {
    let url = url.trim_end_matches('/');
    (url != DEFAULT_URL).then(|| url.to_owned())
}

impl Advice {
    /// The active scenarios are these, or none, for all keys.
    pub fn use_scenario(name: &str) -> Self {
        Self::UseScenarios { active: vec![name.to_owned()], key: None }
    }

    pub fn set(setting: &str, value: &str) -> Self {
        Self::Set { setting: setting.to_owned(), value: value.to_owned() }
    }

    pub fn fire(event_type: &str) -> Self {
        Self::Fire { event_type: event_type.to_owned(), tamper: None, duplicate: None, key: None }
    }

    pub fn explain(id: impl Into<String>) -> Self {
        Self::Explain { id: id.into() }
    }

    /// For a reader: a call of a tool for an agent, where one stands for it, else a command. No emulator is left to change after a run,
    /// so it is then an option for the next one.
    pub fn worded(&self, reader: &Audience) -> String {
        match reader {
            Audience::Agent { url } => self.call().unwrap_or_else(|| self.command(url.as_deref())),
            Audience::Person { url } => self.command(url.as_deref()),
            Audience::File(_) | Audience::Nobody => self.option().unwrap_or_else(|| self.command(None)),
        }
    }

    /// The option of `serve` and `exec` that does the same from the start.
    pub fn option(&self) -> Option<String> {
        let (name, value) = match self {
            Self::Set { setting, value } => ("--set", format!("{setting}={value}")),
            Self::Forward { url, to } => ("--forward", format!("{url}={to}")),
            Self::UseScenarios { active, key: None } if active.len() == 1 => ("--scenario", active[0].clone()),
            _ => return None,
        };
        Some(format!("{name} {}", shell_word(&value)))
    }

    /// The command, for an emulator at this address.
    pub fn command(&self, url: Option<&str>) -> String {
        // A delivery is verified without an emulator.
        let is_local = matches!(self, Self::Verify { .. });
        let before = match self {
            Self::Verify { body: Some(body), .. } => format!("printf '%s' {} | ", shell_word(body)),
            _ => String::new(),
        };
        let url = url.filter(|_| !is_local).map(|url| ["--url".to_owned(), url.to_owned()]);
        let words: Vec<String> = self.words().into_iter().chain(url.into_iter().flatten()).collect();
        let words: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
        format!("{before}wrs-emulator {}", words.join(" "))
    }

    /// The words of the command, without the program and its address.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut flags: Vec<(&str, String)> = Vec::new();
        let mut key_flag = |key: &Option<String>| flags.extend(key.clone().map(|key| ("--key", key)));
        let words: Vec<&str> = match self {
            Self::AdvanceClock { advance, key } => {
                key_flag(key);
                vec!["clock", "advance", advance]
            }
            Self::ResumeClock {} => vec!["clock", "resume"],
            Self::AutomateClock { key } => {
                key_flag(key);
                vec!["clock", "auto"]
            }
            Self::UseScenarios { active, key } => {
                key_flag(key);
                let verb = if active.is_empty() { "off" } else { "use" };
                ["scenarios", verb].into_iter().chain(active.iter().map(String::as_str)).collect()
            }
            Self::FollowScenarios { key } => {
                key_flag(key);
                vec!["scenarios", "follow"]
            }
            Self::ListScenarios {} => vec!["scenarios", "list"],
            Self::Set { setting, value } => {
                return vec!["profile".to_owned(), "set".to_owned(), format!("{setting}={value}")];
            }
            Self::Forward { url, to } => {
                return vec!["forwards".to_owned(), "add".to_owned(), format!("{url}={to}")];
            }
            Self::Subscribe { url, key } => {
                key_flag(key);
                vec!["subscriptions", "create", url]
            }
            Self::Listen { url, key } => {
                key_flag(key);
                vec!["listen", "--forward-to", url]
            }
            Self::EnableSubscription { id } => vec!["subscriptions", "enable", id],
            Self::ShowSecret { id } => vec!["subscriptions", "show", id, "--secret"],
            Self::Redeliver { id } => vec!["deliveries", "redeliver", id],
            Self::Fire { event_type, tamper, duplicate, key } => {
                flags.extend(tamper.clone().map(|tamper| ("--tamper", tamper)));
                flags.extend(duplicate.map(|copies| ("--duplicate", copies.to_string())));
                flags.extend(key.clone().map(|key| ("--key", key)));
                vec!["trigger", event_type]
            }
            Self::Explain { id } => vec!["explain", id],
            Self::ShowDelivery { id } => vec!["deliveries", "show", id],
            Self::ListRequests { key } => vec!["requests", "list", "--key", key],
            Self::ReviewFindings {} => vec!["review", "findings"],
            Self::Verify { body, headers, now, scheme, secret_key } => {
                flags.extend(headers.iter().map(|header| ("--header", header.clone())));
                flags.extend(now.map(|now| ("--now", now.to_string())));
                flags.extend(scheme.clone().map(|scheme| ("--scheme", scheme)));
                flags.extend(secret_key.clone().map(|reading| ("--secret-key", reading)));
                vec!["verify", if body.is_some() { "-" } else { "BODY-FILE" }]
            }
        };
        let flags = flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        words.into_iter().map(str::to_owned).chain(flags).collect()
    }

    /// The call of a tool for agents that does the same: its name, and its arguments as JSON.
    fn call(&self) -> Option<String> {
        let (tool, mut arguments) = self.tool()?;
        let fields = arguments.as_object_mut()?;
        fields.retain(|_, value| !value.is_null());
        Some(if fields.is_empty() { tool.to_owned() } else { format!("{tool} {arguments}") })
    }

    /// That tool and its arguments, of which the null ones are left out.
    pub(crate) fn tool(&self) -> Option<(&'static str, Value)> {
        Some(match self {
            Self::AdvanceClock { advance, key } => ("advance_clock", json!({ "key": key, "advance": advance })),
            Self::ResumeClock {} => ("advance_clock", json!({ "mode": "real" })),
            Self::AutomateClock { key } => ("advance_clock", json!({ "key": key, "mode": "auto" })),
            Self::UseScenarios { active, key } => ("play_scenario", json!({ "key": key, "active": active })),
            Self::ListScenarios {} => ("status", json!({})),
            Self::Subscribe { url, key } => ("subscribe", json!({ "key": key, "url": url })),
            Self::Fire { event_type, tamper, duplicate, key } => {
                ("fire_event", json!({ "type": event_type, "tamper": tamper, "duplicate": duplicate, "key": key }))
            }
            Self::Explain { id } | Self::ShowDelivery { id } => ("explain", json!({ "id": id })),
            Self::ListRequests { key } => ("find_requests", json!({ "key": key })),
            Self::ReviewFindings {} => ("review_findings", json!({})),
            Self::FollowScenarios { .. }
            | Self::Set { .. }
            | Self::Forward { .. }
            | Self::Listen { .. }
            | Self::EnableSubscription { .. }
            | Self::ShowSecret { .. }
            | Self::Redeliver { .. }
            | Self::Verify { .. } => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_that_would_be_an_option_is_not_read() {
        let read = |json: Value| serde_json::from_value::<Advice>(json).is_ok();
        assert!(read(json!({ "do": "explain", "id": "req_1" })));
        assert!(read(json!({ "do": "advance_clock", "advance": "1s", "key": "sk_test_a" })));
        assert!(!read(json!({ "do": "explain", "id": "--url=http://elsewhere" })));
        assert!(!read(json!({ "do": "use_scenarios", "active": ["--url=http://elsewhere", "calm"], "key": null })));
        assert!(!read(json!({ "do": "advance_clock", "advance": "1s", "key": "--url=http://elsewhere" })));
    }

    #[test]
    fn a_header_that_is_no_short_address_is_ignored() {
        let long = format!("person http://{}", "a".repeat(MAX_ADDRESS));
        for (header, expected) in [
            ("person http://127.0.0.1:9770", Some(Audience::person(DEFAULT_URL))),
            ("agent https://emulator:9771", Some(Audience::agent("https://emulator:9771"))),
            ("robot http://127.0.0.1:9770", None),
            ("person", None),
            ("person http://127.0.0.1:9770/a", None),
            ("person file:///etc", None),
            (&long, None),
        ] {
            assert_eq!(Audience::from_header(header), expected, "{header}");
        }
    }

    #[test]
    fn advice_is_worded_for_its_reader() {
        let person = Audience::person("http://127.0.0.1:9771/");
        let agent = Audience::agent(DEFAULT_URL);
        let saved = Audience::File("my report.html".to_owned());
        let burst = Advice::use_scenario("it is");
        assert_eq!(burst.worded(&person), "wrs-emulator scenarios use 'it is' --url http://127.0.0.1:9771");
        assert_eq!(burst.worded(&agent), "play_scenario {\"active\":[\"it is\"]}");
        assert_eq!(Advice::ListScenarios {}.worded(&agent), "status");
        assert_eq!(Advice::set("a.b", "c").worded(&agent), "wrs-emulator profile set a.b=c");
        // Once the emulator has ended, an option of the next one.
        let forward = Advice::Forward { url: "https://a".to_owned(), to: "http://b".to_owned() };
        for (advice, expected) in [
            (&Advice::set("a.b", "c"), "--set a.b=c"),
            (&forward, "--forward https://a=http://b"),
            (&burst, "--scenario 'it is'"),
            (&Advice::explain("req_1"), "wrs-emulator explain req_1"),
        ] {
            assert_eq!(advice.worded(&saved), expected);
            assert_eq!(advice.worded(&Audience::Nobody), expected);
        }
        assert_eq!(forward.worded(&person), "wrs-emulator forwards add https://a=http://b --url http://127.0.0.1:9771");
        for (reader, expected) in [
            (&person, "`wrs-emulator verdict --json --key k --url http://127.0.0.1:9771` lists them"),
            (&saved, "`wrs-emulator verdict --json --key k --from 'my report.html'` lists them"),
            (&Audience::Nobody, "`--report report.html` writes a page that lists them"),
        ] {
            assert_eq!(reader.all_causes(Some("k")), expected);
        }
        let explain = Advice::explain("req_1");
        for (reader, expected) in [
            (Audience::person(DEFAULT_URL), "`wrs-emulator explain req_1` shows why"),
            (agent, "`explain {\"id\":\"req_1\"}` shows why"),
            (saved, "`wrs-emulator explain req_1 --from 'my report.html'` shows why"),
            (Audience::Nobody, "`--report report.html` writes a page that shows why"),
        ] {
            assert_eq!(reader.look(&explain), expected);
        }
        // The header says the same to the emulator.
        for reader in [person, Audience::agent("https://a.example:1")] {
            let called =
                if matches!(reader, Audience::Agent { .. }) { "https://a.example:1" } else { "http://127.0.0.1:9771" };
            assert_eq!(Audience::from_header(&reader.header(called)), Some(reader));
        }
    }
}
