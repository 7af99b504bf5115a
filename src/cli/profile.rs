//! Settings: the profile named on the command line, a preset or a file and then assignments, with every problem of a file at its
//! position; what it assumes, `assumptions`; the document generated from it, `openapi`; and `forwards list|add|remove`, a shorter way to change the
//! setting `webhooks.forwards` while the emulator runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::arguments::{CallArgs, Target, examples};
use super::client::{ControlClient, SHORT};
use super::failure::{Failure, FailureCode, warn};
use super::output::{cell, print, print_document, show, show_list};
use crate::control::api::{Body, ChangeSettings, KeyOrAll, List, Patched, Query, ShowProfile};
use crate::control::openapi_document;
use crate::control::render::{TableRow as _, for_key};
use crate::diagnostic::{Diagnostic, Level};
use crate::redact::{Redactor, mask_by};
use crate::settings::api_document::document;
use crate::settings::{
    Draft, Forward, Layered, LedgerRow, Preset, ProfileProblem, default_text, file_schema, ledger, ledger_markdown,
};
use crate::util::file;
use crate::util::wording::shell_word;

/// Maximum bytes of a profile.
const MAX: u64 = 1024 * 1024;

/// Merges the built-in defaults, a preset or a file that this flag names, and assignments, in this order, and then validates the result.
pub(crate) fn load_profile(flag: &str, named: Option<&Path>, assignments: &[String]) -> Result<Layered, Failure> {
    let mut draft = Draft::of(&Layered::default());
    let mut file = None;
    if let Some(named) = named {
        if let Some(name) = preset_name(named) {
            draft.preset(name);
        } else {
            let shown = named.display().to_string();
            let unreadable = |cause: &str| Failure::io(format!("{flag}: cannot read `{shown}`: {cause}"));
            let bytes = file::read(named, MAX).map_err(|problem| unreadable(&problem.to_string()))?;
            let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8"))?;
            draft.text(&text, &shown);
            file = Some((shown, text));
        }
    }
    for assignment in assignments {
        draft.assignment(assignment, "--set");
    }
    let layered = draft.finish().map_err(|problems| refused(flag, &problems, file.as_ref()))?;
    mask_by(&layered.profile().keys);
    Ok(layered)
}

/// Masks by the key prefixes of the emulator at this address from now on. The emulator masks its answers; this covers the command's own
/// arguments.
pub(super) fn mask_as(target: &Target) -> Result<(), Failure> {
    let keys = ControlClient::new(target).send(&keys_of(KeyOrAll::default()))?;
    mask_by_rows(keys.data.iter().map(|row| (row.setting.as_str(), &row.value)));
    Ok(())
}

/// Asks for the settings of keys.
pub(super) fn keys_of(key: KeyOrAll) -> Query<ShowProfile> {
    Query { query: ShowProfile { key, prefix: Some("keys".to_owned()), ..Default::default() } }
}

/// Masks by the settings of an emulator that was asked for them, or that a saved run shows.
pub(super) fn mask_by_rows<'r>(rows: impl Iterator<Item = (&'r str, &'r Value)>) {
    let mut keys = Layered::default().profile().keys.clone();
    for (setting, value) in rows {
        let place = match setting {
            "keys.test_prefix" => &mut keys.test_prefix,
            "keys.live_prefix" => &mut keys.live_prefix,
            _ => continue,
        };
        // An empty one would be the beginning of every text.
        if let Some(prefix) = value.as_str().filter(|prefix| !prefix.is_empty()) {
            prefix.clone_into(place);
        }
    }
    mask_by(&keys);
}

/// Adds forwards, as `--forward` has them, to a profile.
pub(crate) fn with_forwards(layered: Layered, rules: &[String]) -> Result<Layered, Failure> {
    let wrong = |problem: String| Failure::usage(format!("--forward: {}", Redactor::default().text(&problem)));
    let rules = Forward::parse_all(rules).map_err(wrong)?;
    let added = layered.with(|draft| rules.iter().for_each(|rule| draft.forward(rule, "--forward")));
    added.map_err(|problems| Failure::usage(format!("--forward: {}", problems[0].message)))
}

/// The failure that reports every problem with its origin: a position in the file, an assignment, or the preset.
fn refused(flag: &str, problems: &[ProfileProblem], file: Option<&(String, String)>) -> Failure {
    let place = |problem: &ProfileProblem| match file {
        _ if *problem.source == *"--set" => Err(format!("--set {}", problem.written)),
        Some((shown, text)) if **shown == *problem.source => {
            let at = Diagnostic::at(Level::Error, problem.code, text, problem.span.clone(), "", "");
            Ok(format!("{shown}:{}:{}", at.line, at.column))
        }
        _ => Err(flag.to_owned()),
    };
    if let [problem] = problems
        && let Err(flag) = place(problem)
    {
        return Failure::usage(format!("{flag}: {}", problem.message)).with_hint(problem.hint.clone());
    }
    let line = |problem: &ProfileProblem| {
        let (place, code) = match place(problem) {
            Ok(place) => (place, format!(" [{}]", problem.code)),
            Err(flag) => (flag, String::new()),
        };
        [format!("{place}: {}{code}", problem.message), format!("  hint: {}", problem.hint)]
    };
    Failure::invalid_file("the profile is not valid").with_lines(problems.iter().flat_map(line).collect())
}

/// The text if it names a preset, or cannot be a path.
fn preset_name(named: &Path) -> Option<&str> {
    let text = named.to_str()?;
    (Preset::named(text).is_some() || !is_path(text)).then_some(text)
}

/// True if the text names a file rather than a preset: it has a separator or a dot, or such a file exists.
pub(super) fn is_path(text: &str) -> bool {
    text.contains(['/', '\\', '.']) || Path::new(text).exists()
}

#[derive(Debug, Args)]
pub(super) struct ProfileArgs {
    /// A preset (`contract`, `friendly`, `hostile`) or a profile file (TOML).
    #[arg(long, env, value_name = "NAME|FILE")]
    profile: Option<PathBuf>,
    /// Set one setting of the profile. Repeatable.
    #[arg(long, env, value_name = "PATH=VALUE", value_delimiter = ';')]
    set: Vec<String>,
}

impl ProfileArgs {
    pub(super) fn load(&self) -> Result<Layered, Failure> {
        load_profile("--profile", self.profile.as_deref(), &self.set)
    }
}

#[derive(Debug, Args)]
#[command(after_help = examples([
    "assumptions",
    "assumptions --set rate_limit.requests=5 --json",
    "assumptions --profile hostile",
    "assumptions --markdown",
]))]
pub(super) struct AssumptionsArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    /// Print JSON.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the built-in ledger as a Markdown page.
    #[arg(long)]
    markdown: bool,
}

pub(super) fn assumptions(args: &AssumptionsArgs) -> Result<ExitCode, Failure> {
    if args.markdown {
        print(&ledger_markdown());
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = ledger(&args.profile.load()?);
    for row in &mut rows {
        Redactor::default().setting(&row.setting, &mut row.value);
    }
    let ledger = List { data: rows };
    Ok(show_list(args.json, &ledger, || LedgerRow::table(&ledger.data)))
}

#[derive(Debug, Args)]
#[command(after_help = examples([
    "openapi > openapi.json",
    "openapi --profile hostile",
    "openapi --control > control.json",
]))]
pub(super) struct OpenapiArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    /// Print the document of the control API instead.
    #[arg(long, conflicts_with_all = ["profile", "set"])]
    control: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum ProfileCommand {
    /// Print the JSON Schema of profile files, for editors.
    #[command(display_order = 100, after_help = examples(["profile schema > profile.schema.json"]))]
    Schema,
    /// Print the built-in profile as a commented file.
    #[command(display_order = 100, after_help = examples(["profile default > mine.toml"]))]
    Default,
}

pub(super) fn profile(command: &ProfileCommand) -> ExitCode {
    match command {
        ProfileCommand::Schema => print_document(&file_schema()),
        ProfileCommand::Default => {
            print(&default_text());
            ExitCode::SUCCESS
        }
    }
}

pub(super) fn openapi(args: &OpenapiArgs) -> Result<ExitCode, Failure> {
    if args.control {
        return Ok(print_document(openapi_document()));
    }
    let profile = args.profile.load()?;
    Ok(print_document(&document(profile.profile())))
}

#[derive(Debug, Subcommand)]
#[command(after_help = examples(["forwards", "forwards add https://app.example.com=http://localhost:3000"]))]
pub(super) enum ForwardsCommand {
    /// List the forwards in force (the default without a command).
    #[command(after_help = examples(["forwards list", "forwards list --key sk_test_a --json"]))]
    List(ForwardsArgs),
    /// Deliver webhooks elsewhere from now on, including pending retries.
    #[command(after_help = examples([
        "forwards add https://app.example.com=http://localhost:3000",
        "forwards add https://app.example.com/hooks=http://localhost:4000/in --key sk_test_a",
    ]))]
    Add {
        /// The subscribed URL and where to deliver instead: `https://app.example.com=http://localhost:3000`.
        #[arg(required = true, value_name = "FROM=TO")]
        rules: Vec<String>,
        #[command(flatten)]
        settings: ForwardsArgs,
    },
    /// Deliver to the subscribed URL again.
    #[command(after_help = examples(["forwards remove https://app.example.com"]))]
    Remove {
        /// The subscribed URL, as listed.
        #[arg(required = true, value_name = "FROM")]
        urls: Vec<String>,
        #[command(flatten)]
        settings: ForwardsArgs,
    },
}

#[derive(Debug, Args)]
pub(super) struct ForwardsArgs {
    #[command(flatten)]
    common: CallArgs,
    #[command(flatten)]
    key: KeyOrAll,
}

pub(super) fn forwards(command: &ForwardsCommand) -> Result<ExitCode, Failure> {
    match command {
        ForwardsCommand::List(args) => list_forwards(args),
        ForwardsCommand::Add { rules, settings } => add_forwards(rules, settings),
        ForwardsCommand::Remove { urls, settings } => remove_forwards(urls, settings),
    }
}

fn list_forwards(args: &ForwardsArgs) -> Result<ExitCode, Failure> {
    let rules = forwards_in_force(&args.common.target, &args.key, SHORT)?;
    let data = json!({ "data": rules.iter().map(|(from, to)| json!({ "from": from, "to": to })).collect::<Vec<_>>() });
    Ok(show_list(args.common.json, &data, || {
        let lines: String = rules.iter().map(|(from, to)| format!("{} -> {}\n", cell(from), cell(to))).collect();
        if lines.is_empty() { "no forwards\n".to_owned() } else { lines }
    }))
}

fn add_forwards(rules: &[String], args: &ForwardsArgs) -> Result<ExitCode, Failure> {
    let rules = Forward::parse_all(rules).map_err(|problem| match rules {
        [from, to] if !from.contains('=') => {
            let rule = format!("{from}={to}");
            let hint = format!("join both by `=`: `wrs-emulator forwards add {}`", shell_word(&rule));
            Failure::usage(problem).with_hint(hint)
        }
        _ => Failure::usage(problem),
    })?;
    let requested = rules.iter().map(|rule| (rule.from().to_owned(), rule.to().into())).collect();
    let patched = patch(args, requested)?;
    let lines = rules.iter().map(shown_forward);
    Ok(show_patched(args, &patched, lines))
}

/// A forward as a line, with a password masked.
pub(super) fn shown_forward(rule: &Forward) -> String {
    format!("{} -> {}", rule.from(), Redactor::default().text(rule.to()))
}

fn remove_forwards(urls: &[String], args: &ForwardsArgs) -> Result<ExitCode, Failure> {
    let before = forwards_in_force(&args.common.target, &args.key, SHORT)?;
    let urls: Vec<&str> = urls.iter().map(|url| url.trim_end_matches('/')).collect();
    if let Some(unknown) = urls.iter().find(|url| !before.contains_key(**url)) {
        let failure = Failure::new(1, FailureCode::NotFound, format!("unknown forward `{unknown}`"));
        return Err(failure.with_hint(format!(
            "`wrs-emulator forwards{}` lists those in force; --key shows those of one key",
            args.common.target.option()
        )));
    }
    let mut patched = patch(args, urls.iter().map(|url| ((*url).to_owned(), Value::Null)).collect())?;
    // A forward from a lower layer, such as --forward, is still in force: an empty target overrides it.
    let after = forwards_in_force(&args.common.target, &args.key, SHORT)?;
    let overrides: Map<String, Value> =
        urls.iter().filter(|url| after.contains_key(**url)).map(|url| ((*url).to_owned(), "".into())).collect();
    if !overrides.is_empty() {
        patched = patch(args, overrides)?;
    }
    Ok(show_patched(args, &patched, urls.iter().map(|url| format!("{url} is no longer forwarded"))))
}

fn patch(args: &ForwardsArgs, rules: Map<String, Value>) -> Result<Patched, Failure> {
    ControlClient::new(&args.common.target).send(&patch_of_forwards(args.key.clone(), rules))
}

fn show_patched(args: &ForwardsArgs, patched: &Patched, lines: impl Iterator<Item = String>) -> ExitCode {
    if !args.common.json {
        patched.warnings.iter().for_each(|warning| warn(warning));
    }
    let whose = for_key(patched.key.as_deref());
    show(args.common.json, patched, || lines.map(|line| format!("{line}{whose}\n")).collect())
}

pub(super) fn forwards_in_force(
    target: &Target,
    key: &KeyOrAll,
    limit: Duration,
) -> Result<BTreeMap<String, String>, Failure> {
    let request = Query { query: ShowProfile { key: key.clone(), ..Default::default() } };
    let profile = ControlClient::new(target).limit(limit).send(&request)?;
    let setting = profile.data.iter().find(|row| row.setting == "webhooks.forwards");
    let rules = setting.and_then(|setting| setting.value.as_object()).into_iter().flatten();
    let rules = rules.filter_map(|(from, to)| Some((from.clone(), to.as_str()?.to_owned())));
    Ok(rules.filter(|(_, to)| !to.is_empty()).collect())
}

/// Forwards as a change of settings; null removes one.
pub(super) fn patch_of_forwards(key: KeyOrAll, rules: Map<String, Value>) -> Body<ChangeSettings> {
    let settings = [("webhooks".to_owned(), json!({ "forwards": rules }))].into_iter().collect();
    Body { body: ChangeSettings { key, settings } }
}
