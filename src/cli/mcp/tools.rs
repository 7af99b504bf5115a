//! The tools, at most twelve: each a question or a step that an agent has, answered by calls of the control API.

use serde::Serialize;
use serde_json::{Map, Value};

use super::definition::{Effect, Outcome, Tool};
use super::session::{Arguments, Session};
use crate::cli::client::{Answer, Call};
use crate::cli::deliveries::Deliveries;
use crate::cli::failure::Failure;
use crate::cli::output::cell;
use crate::cli::problems::Verdict;
use crate::cli::records::Records;
use crate::cli::requests::Requests;
use crate::cli::{clock, explain, review, scenarios, trigger};
use crate::control::api::{self, Endpoint, Page};
use crate::redact::Redactor;
use crate::scenario::check_text;
use crate::wording::counted;

const ANY_KEY: (&str, &str) = ("key", "Only what belongs to this API key; all keys if left out.");
const ONE_KEY: (&str, &str) = ("key", "The API key to act on; the session's own if left out. Never all keys.");

/// All tools, in the order in which they are listed.
pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "status",
        title: "Is the emulator running, and what does it play?",
        description: "Start here. Reports whether the emulator is ready, its clock, every scenario with its title and whether it is \
                      active, and in `key` the API key of this session, for programs under test.",
        effect: Effect::Reads,
        takes: &[],
        fields: &[],
        required: &[],
        parts: &[("emulator", "GET health", ""), ("clock", "GET clock", ""), ("scenarios", "GET scenarios", "")],
        run: status,
    },
    Tool {
        name: "find_requests",
        title: "Which requests did the client make?",
        description: "Lists requests to the emulated API, newest first, each with the status and the reason of its answer. \
                      `explain` with the id of one shows it whole.",
        effect: Effect::Reads,
        takes: &["GET requests"],
        fields: &[ANY_KEY, ("method", "Such as GET."), ("path", "Such as /v1/hello, without a query.")],
        required: &[],
        parts: &[("requests", "GET requests", "")],
        run: listed::<Requests>,
    },
    Tool {
        name: "find_deliveries",
        title: "Which webhooks were delivered, and which were not?",
        description: "Lists deliveries of webhooks, newest first, each with its status and the last answer of its receiver. \
                      `explain` with the id of one shows each attempt.",
        effect: Effect::Reads,
        takes: &["GET deliveries"],
        fields: &[
            ANY_KEY,
            ("event", "Only of the event with this id, evt_…."),
            ("type", "Only of this event type, such as workflow.completed."),
            ("subscription", "Only to the subscription with this id, sub_…."),
        ],
        required: &[],
        parts: &[("deliveries", "GET deliveries", "")],
        run: listed::<Deliveries>,
    },
    Tool {
        name: "explain",
        title: "Why this answer, or this delivery?",
        description: "Explains why a request was answered as it was, where an event went and where not, or why a delivery failed \
                      and what to try. Also shows the request, event or delivery whole.",
        effect: Effect::Reads,
        takes: &["GET explain/{id}"],
        fields: &[
            (
                "id",
                "The id of a request (req_…), event (evt_…) or delivery (dlv_…); the newest request or delivery if left out.",
            ),
            ANY_KEY,
        ],
        required: &[],
        parts: &[("explanation", "GET explain/{id}", "")],
        run: explained,
    },
    Tool {
        name: "check_scenario",
        title: "Is this scenario valid?",
        description: "Checks the TOML text of a scenario without playing it. Lists every problem with its place and a hint. \
                      Needs no running emulator. `wrs-emulator scenarios schema` prints the JSON Schema of the language, `scenarios show NAME` an example.",
        effect: Effect::Reads,
        takes: &[],
        fields: &[("toml", "The text of the scenario, as in a scenario file.")],
        required: &["toml"],
        parts: &[("diagnostics", "POST scenarios/reload", "/properties/diagnostics")],
        run: checked,
    },
    Tool {
        name: "play_scenario",
        title: "Play scenarios for a key",
        description: "Makes scenarios the active ones of one key, in order; they replace its former list, and start at once. An empty \
                      list turns scenarios off. `status` lists their names; `toml` adds one of your own, in place of the one that \
                      this session sent before.",
        effect: Effect::Sets,
        takes: &["POST scenarios/active"],
        fields: &[
            ("active", "Names of scenarios, in order; the first rule that applies decides."),
            ("toml", "The text of a scenario of your own, which is played after those in `active`."),
            ONE_KEY,
        ],
        required: &[],
        parts: &[("playing", "POST scenarios/active", "")],
        run: played,
    },
    Tool {
        name: "fire_event",
        title: "Fire a webhook event",
        description: "Fires an event at the matching subscriptions of one key and waits for what each receiver answered. `tamper` forges \
                      the delivery, which a receiver must refuse. Events that no subscription matches are an error.",
        effect: Effect::Adds,
        takes: &["POST events"],
        fields: &[
            ONE_KEY,
            ("type", "The event type, such as workflow.completed. Either this or `emit` is needed."),
            ("subscription", "Only this subscription, sub_…; every one that matches if left out."),
            ("count", "How many events; 1 if left out."),
            ("delay", "How long the first attempts are delayed by the emulator's clock, such as 5s."),
            ("wait", "How long to wait for the receivers' answers: 5s if left out, at most 50s, 0s for not at all."),
        ],
        required: &[],
        parts: &[("fired", "POST events", "")],
        run: fired,
    },
    Tool {
        name: "advance_clock",
        title: "Let time pass for a key",
        description: "Moves the clock of one key forward: quota windows open, retries, delays and planned events happen in order, and the \
                      call answers when all of that is done. Give exactly one of `advance`, `set` and `mode`.",
        effect: Effect::Destroys,
        takes: &["POST clock"],
        fields: &[
            ONE_KEY,
            ("advance", "How far, such as 60s, 1h30m or 72h."),
            ("set", "The time to set, such as 2026-01-31T09:30:00Z."),
            ("mode", "frozen stops the clock, real lets it run, follow ties it to the emulator's again."),
            ("timeout", "How long to wait until everything due is done: 50s if left out, at most 50s."),
        ],
        required: &[],
        parts: &[("clock", "POST clock", "")],
        run: advanced,
    },
    Tool {
        name: "verification",
        title: "Did the run go well?",
        description: "Lists the problems found so far: requests that matched no endpoint, webhooks that did not arrive, forged webhooks that \
                      were accepted, scenarios that were not played to their end, and checks that had nothing to judge.",
        effect: Effect::Reads,
        takes: &["GET verdict"],
        fields: &[ANY_KEY, ("wait", "First wait for what is due within this time: 0s if left out, at most 50s.")],
        required: &[],
        parts: &[("problems", "GET verdict", "")],
        run: verified,
    },
    Tool {
        name: "review_findings",
        title: "What is wrong with this integration?",
        description: "Reviews the traffic so far for mistakes of the client and its receivers, such as ignored Retry-After or signatures \
                      that are not verified. Each finding has evidence, a reason and a remedy; `not_exercised` says what is unproven.",
        effect: Effect::Reads,
        takes: &["GET findings"],
        fields: &[ANY_KEY],
        required: &[],
        parts: &[("findings", "GET findings", "")],
        run: reviewed,
    },
    Tool {
        name: "assumptions",
        title: "What is assumed where the contract is silent?",
        description: "Lists what the API's contract leaves open, what the emulator assumes there, and the setting that changes it. \
                      Code must not rely on an assumption.",
        effect: Effect::Reads,
        takes: &["GET assumptions"],
        fields: &[
            ("about", "Only settings whose name contains this, such as rate_limit or webhooks.retry."),
            ("key", "The settings in force for this API key; those of keys without their own if left out."),
        ],
        required: &[],
        parts: &[("assumptions", "GET assumptions", "")],
        run: assumed,
    },
    Tool {
        name: "reset",
        title: "Forget what this session's key did",
        description: "Restores a key of this session to the state before its first request: subscriptions, quota, clock, scenarios, journal. \
                      Keys that the session did not make are refused.",
        effect: Effect::Destroys,
        takes: &["POST reset"],
        fields: &[("key", "The session's key, or one that begins with it and `_`; the session's own if left out.")],
        required: &[],
        parts: &[("reset", "POST reset", "")],
        run: reset,
    },
];

/// An answer as the only part.
fn one<E: Endpoint>(key: String, answer: &Answer<E>, text: impl FnOnce(&E::Answer) -> String) -> Outcome {
    Outcome { key, parts: vec![answer.json()], text: text(&answer.body) }
}

/// The key that a tool asks about; all keys if none is named.
fn any_key(arguments: &mut Arguments) -> String {
    arguments.text("key").unwrap_or_else(|| "*".to_owned())
}

fn status(session: &Session, _: Arguments) -> Result<Outcome, Failure> {
    let health = session.call::<api::Health>().send()?;
    let now = session.call::<api::ShowClock>().send()?;
    let all = session.call::<api::ListScenarios>().send()?;
    let api::Ready { version, generation, .. } = &health.body;
    let text = format!(
        "wrs-emulator {} at {} is ready, generation {generation} of settings and scenarios\nits clock: {}your key: {}\n{}",
        cell(version),
        Redactor::default().text(&session.target.url),
        clock::line(&now.body),
        session.key,
        scenarios::listing(&all.body)
    );
    Ok(Outcome { key: session.key.clone(), parts: vec![health.json(), now.json(), all.json()], text })
}

fn listed<R: Records>(session: &Session, mut arguments: Arguments) -> Result<Outcome, Failure> {
    let key = any_key(&mut arguments);
    let answer = session.call::<R::List>().key(&*key).query(&arguments.0).send()?;
    Ok(one(key.clone(), &answer, |Page { data, next_cursor, .. }| match next_cursor {
        _ if data.is_empty() => format!("no {} match\n", R::NAME),
        Some(cursor) => format!("{}… more: cursor {cursor}\n", R::table(data)),
        None => R::table(data),
    }))
}

fn explained(session: &Session, mut arguments: Arguments) -> Result<Outcome, Failure> {
    let (id, key) = (arguments.text("id"), any_key(&mut arguments));
    let call = session.call::<api::Explain>().id(id.as_deref().unwrap_or("latest"));
    Ok(one(key.clone(), &call.key(&*key).send()?, explain::text))
}

#[expect(clippy::unnecessary_wraps, reason = "it is a tool like the others")]
fn checked(session: &Session, mut arguments: Arguments) -> Result<Outcome, Failure> {
    let text = arguments.text("toml").unwrap_or_default();
    let (_, found) = check_text(&session.scenario, &text);
    let errors = found.iter().filter(|problem| problem.is_error()).count();
    let counts = format!("{}, {}\n", counted(errors, "error"), counted(found.len() - errors, "warning"));
    let text = found.iter().map(|problem| format!("{}\n", problem.render(false))).chain([counts]).collect();
    Ok(Outcome { key: session.key.clone(), parts: vec![Redactor::default().shown(&found)], text })
}

fn played(session: &Session, mut arguments: Arguments) -> Result<Outcome, Failure> {
    let (key, toml) = (session.one_key(&mut arguments)?, arguments.text("toml"));
    if let Some(toml) = toml {
        let own = Value::from(&*session.scenario);
        let active = arguments.0.entry("active").or_insert_with(|| Value::Array(Vec::new()));
        if let Some(names) = active.as_array_mut().filter(|names| !names.contains(&own)) {
            names.push(own);
        }
        let call = session.call::<api::PutScenario>().id(&session.scenario).toml(&toml);
        call.send().map_err(|failure| {
            if failure.is_unreachable() { failure } else { failure.with_hint("check_scenario lists every problem") }
        })?;
    } else if !arguments.0.contains_key("active") {
        // Without a list the key would follow that of all keys again.
        return Err(Failure::usage("expected `active`, a list of scenarios, or `toml`").with_hint("status lists them"));
    }
    let answer = session.call::<api::ActivateScenarios>().key(&*key).body(&arguments.0).send()?;
    Ok(one(key.clone(), &answer, |activated| match activated.active.as_deref() {
        None | Some([]) => format!("no scenario is active for {key}\n"),
        Some(names) => format!("active for {key}: {}\n", names.join(", ")),
    }))
}

fn fired(session: &Session, mut arguments: Arguments) -> Result<Outcome, Failure> {
    let key = session.one_key(&mut arguments)?;
    let wait = api::Wait { wait: Some(arguments.wait("wait", "5s")?) };
    // Planned emissions have nothing to wait for yet.
    let wait = if arguments.0.contains_key("emit") { api::Wait::default() } else { wait };
    let drop = arguments.0.get("drop") == Some(&true.into());
    let answer = session.call::<api::FireEvents>().key(&*key).query(&wait).body(&arguments.0).send()?;
    Ok(one(key, &answer, |fired| match &fired.emit {
        Some(name) => format!("emission {} set off\n", cell(name)),
        None => trigger::text(fired, drop),
    }))
}

fn advanced(session: &Session, mut arguments: Arguments) -> Result<Outcome, Failure> {
    let key = session.one_key(&mut arguments)?;
    let api::DurationInput(timeout) = arguments.wait("timeout", "50s")?;
    arguments.0.insert("timeout".to_owned(), timeout.into());
    let answer = session.call::<api::MoveClock>().key(&*key).body(&arguments.0).send()?;
    Ok(one(key, &answer, clock::line))
}

fn verified(session: &Session, mut arguments: Arguments) -> Result<Outcome, Failure> {
    let (key, wait) = (any_key(&mut arguments), arguments.wait("wait", "0s")?);
    let answer = session.call::<api::Verify>().key(&*key).query(&api::Wait { wait: Some(wait) }).send()?;
    Ok(one(key.clone(), &answer, |problems| Verdict::new(problems.clone(), &[]).text(false)))
}

fn reviewed(session: &Session, mut arguments: Arguments) -> Result<Outcome, Failure> {
    let key = any_key(&mut arguments);
    let answer = session.call::<api::ShowFindings>().key(&*key).send()?;
    Ok(one(key.clone(), &answer, |findings| review::findings_text(findings.clone())))
}

fn assumed(session: &Session, mut arguments: Arguments) -> Result<Outcome, Failure> {
    let (about, key) = (arguments.text("about").unwrap_or_default(), any_key(&mut arguments));
    // For `*`, the settings of keys without their own.
    let call: Call<'_, api::Assumptions> = session.call().key(Some(&*key).filter(|key| *key != "*"));
    let mut answer = call.send()?.body;
    answer.data.retain(|row| row.knob.contains(&about));
    let line = |row: &api::Assumption| {
        format!("{} = {} (from {}): {}\n", cell(&row.knob), cell(&row.value), cell(&row.source), cell(&row.assumed))
    };
    let text = match answer.data.as_slice() {
        [] => format!("no setting's name contains `{}`\n", cell(Redactor::default().text(&about))),
        rows => rows.iter().map(line).collect(),
    };
    Ok(Outcome { key, parts: vec![plain(&answer)], text })
}

fn reset(session: &Session, mut arguments: Arguments) -> Result<Outcome, Failure> {
    let key = session.one_key(&mut arguments)?;
    session.check_own(&key)?;
    let answer = session.call::<api::Reset>().key(&*key).send()?;
    // So that nothing is left of the session; refused while another of its keys still plays the scenario.
    let _ = session.call::<api::RemoveScenario>().id(&session.scenario).outcome();
    Ok(one(key.clone(), &answer, |_| format!("{key} is as before its first request\n")))
}

fn plain(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_else(|_| Map::new().into())
}
