//! `GET`/`POST subscriptions`, `GET`/`PUT`/`DELETE subscriptions/{id}`, `POST subscriptions/{id}/rotate`.

use std::sync::Arc;

use clap::{Args, value_parser};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use url::{Position, Url};

use super::call::{Body, Call, ControlCall, Options, Query, Tag, USUAL};
use super::command::CallCommand;
use super::context::{Context, KeyScope, LISTED, Paging};
use super::fields::{KeyFilter, KeyOrSample, NoFields, Page};
use super::render::{TableRow, Text, cell, optional, table};
use super::{Control, ControlError};
use crate::advice::{Advice, Audience};
use crate::contract::error::Error;
use crate::contract::rules::check_subscribe;
use crate::contract::signature::SigningKey;
use crate::contract::timestamp::timestamp_of;
use crate::redact::Redactor;
use crate::settings::Profile;
use crate::state::journal::record::{SubscriptionId, Time, WorkspaceId, name_of};
use crate::state::workspace::{Secret, SubscriptionRecord, Workspace};
use crate::util::wording::quoted;

/// The answer has a secret.
const SECRET: Options = Options { shows_secrets: true, ..USUAL };

/// A subscription, without its secret.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Subscription")]
pub(crate) struct SubscriptionView {
    pub(crate) id: SubscriptionId,
    pub(crate) url: String,
    pub(crate) events: Vec<String>,
    pub(crate) description: Option<String>,
    pub(crate) status: SubscriptionState,
    pub(crate) created_at: Time,
    /// Secrets that sign at present: 2 during a rotation's grace period.
    #[schemars(range(min = 1, max = 2))]
    pub(crate) signing_secrets: usize,
    pub(crate) workspace: WorkspaceId,
    pub(crate) key: String,
}

/// List subscriptions, oldest first.
///
/// Those of the key, without their secrets; pass `next_cursor` as `cursor` for the next page.
#[derive(Args, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ListSubscriptions {
    #[command(flatten)]
    #[serde(default)]
    pub(crate) key: KeyFilter,
    /// At most this many; fewer if they are large.
    #[arg(long, default_value = "1000", value_parser = value_parser!(u16).range(1..=1000))]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub(crate) limit: Option<u16>,
    /// Continue after another page: its `next_cursor`.
    #[arg(long)]
    #[schemars(regex(pattern = "^[0-9]{1,18}$"), extend("examples" = ["41"]))]
    pub(crate) cursor: Option<String>,
}

impl ListSubscriptions {
    /// All of a key, page by page; `send` makes the call.
    pub(crate) fn all<F>(
        key: KeyFilter,
        send: impl Fn(&Query<Self>) -> Result<Page<SubscriptionView>, F>,
    ) -> Result<Vec<SubscriptionView>, F> {
        let (mut request, mut all) = (Query { query: Self { key, limit: None, cursor: None } }, Vec::new());
        loop {
            let Page { data, next_cursor, .. } = send(&request)?;
            all.extend(data);
            request.query.cursor = next_cursor;
            if request.query.cursor.is_none() {
                return Ok(all);
            }
        }
    }
}

impl ControlCall for Query<ListSubscriptions> {
    type Answer = Page<SubscriptionView>;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::WEBHOOKS, "GET subscriptions", |Self { query }, cx| {
            let page = Paging::read(query.limit, LISTED, query.cursor.as_deref())?;
            Ok(page_of(&cx.control, &query.key.scope(&cx.engine)?, &page, cx.redactor()).0)
        })
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &["subscriptions list", "subscriptions list --key sk_test_a --json"];
        let group = &["subscriptions", "subscriptions create https://app.example.com/hooks"];
        let command = CallCommand::new("subscriptions list", examples, |query| Self { query }.sent());
        vec![command.leads("List, create and change subscriptions", group).after("deliveries")]
    }
}

/// Show one subscription.
///
/// With `secret=true` the answer has the current signing secret, in case you lost it.
#[derive(Args, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ShowSubscription {
    #[command(flatten)]
    pub(crate) path: SubscriptionPath,
    #[command(flatten)]
    pub(crate) query: ShowSubscriptionQuery,
}

#[derive(Args, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct SubscriptionPath {
    /// Its id.
    #[schemars(length(min = 1), extend("examples" = ["sub_01kg9tbs8075j3q2a1zqxhg4v6"]))]
    pub(crate) id: String,
}

#[derive(Args, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ShowSubscriptionQuery {
    #[arg(skip)]
    #[serde(default)]
    pub(crate) key: KeyFilter,
    /// Show its signing secret as well.
    #[arg(long)]
    #[schemars(with = "Option<String>", extend("enum" = ["true", "false"]))]
    #[serde(default)]
    pub(crate) secret: bool,
}

impl ControlCall for ShowSubscription {
    type Answer = ShownSubscription;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::WEBHOOKS, "GET subscriptions/{id}", show).with(SECRET)
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &["subscriptions show sub_01k...", "subscriptions show sub_01k... --secret"];
        vec![CallCommand::new("subscriptions show", examples, |request: Self| request.sent())]
    }
}

/// A subscription, with its secret if that was asked for.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct ShownSubscription {
    #[serde(flatten)]
    pub(crate) subscription: SubscriptionView,
    /// The secret that signs at present; of two, the newer one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
}

/// True if events are delivered.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SubscriptionState {
    Active,
    Disabled,
}

/// Subscribe a URL for a key, as its client would.
///
/// Validated like a client's request, but not counted against the quota. A URL that is subscribed already is updated, if the
/// profile says so. A generated secret is returned only here: `{"subscription":{"id",…},"secret","created"}`.
#[derive(Args, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subscribe {
    /// Where events go; the rules are those of a client's subscribe.
    // `url` is the address of the emulator in every command.
    #[arg(id = "URL")]
    #[schemars(schema_with = "url_schema")]
    pub(crate) url: String,
    /// Event types; by default every type that can be subscribed to.
    #[arg(
        long,
        value_name = "TYPES",
        value_delimiter = ',',
        help = "Event types, joined by commas; by default every type that can be subscribed to"
    )]
    #[schemars(length(min = 1))]
    pub(crate) events: Option<Vec<String>>,
    /// The signing secret; by default one is generated and printed.
    #[arg(long, env = "WRS_WEBHOOK_SECRET", hide_env_values = true)]
    #[schemars(length(min = 1))]
    pub(crate) secret: Option<String>,
    /// A short label.
    #[arg(long)]
    pub(crate) description: Option<String>,
    #[command(flatten)]
    #[serde(default)]
    pub(crate) key: KeyOrSample,
}

impl ControlCall for Body<Subscribe> {
    type Answer = Created;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::WEBHOOKS, "POST subscriptions", create).with(SECRET)
    }

    fn commands() -> Vec<CallCommand> {
        let about = "Subscribe a URL for a key, without counting a request";
        let examples = &[
            "subscriptions create https://app.example.com/hooks",
            "subscriptions create https://app.example.com/hooks --events workflow.completed --key sk_test_a",
        ];
        vec![CallCommand::new("subscriptions create", examples, |body| Self { body }.sent()).about(about)]
    }
}

/// The new subscription, or the updated one with that URL.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Created {
    pub(crate) subscription: SubscriptionView,
    /// Shown here once, if it was generated.
    pub(crate) secret: Option<String>,
    pub(crate) created: bool,
}

/// Change a subscription; fields left out keep their values.
///
/// Validated like a client's request. Deliveries under way keep their URL.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ChangeSubscription {
    pub(crate) path: SubscriptionPath,
    pub(crate) body: SubscriptionChange,
}

#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubscriptionChange {
    #[serde(default)]
    pub(crate) key: KeyFilter,
    #[serde(default)]
    #[schemars(schema_with = "url_schema_or_null")]
    pub(crate) url: Option<String>,
    #[schemars(length(min = 1))]
    pub(crate) events: Option<Vec<String>>,
    /// Null removes the description; absent, it stays.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub(crate) description: Option<Value>,
    pub(crate) status: Option<SubscriptionState>,
}

impl ControlCall for ChangeSubscription {
    type Answer = SubscriptionView;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::WEBHOOKS, "PUT subscriptions/{id}", change)
    }

    fn commands() -> Vec<CallCommand> {
        let status = |name, examples, status| {
            let body = move || SubscriptionChange { status: Some(status), ..SubscriptionChange::default() };
            CallCommand::new(name, examples, move |path| Self { path, body: body() }.sent())
        };
        let disable = &["subscriptions disable sub_01k..."];
        let enable = &["subscriptions enable sub_01k..."];
        vec![
            status("subscriptions disable", disable, SubscriptionState::Disabled)
                .about("Stop deliveries to a subscription, like a 410"),
            status("subscriptions enable", enable, SubscriptionState::Active)
                .about("Resume deliveries to a subscription"),
        ]
    }
}

/// Delete a subscription.
///
/// Later events no longer go to its URL.
#[derive(Args, Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct DeleteSubscription {
    #[command(flatten)]
    pub(crate) path: SubscriptionPath,
    #[command(flatten)]
    pub(crate) body: NoFields,
}

impl ControlCall for DeleteSubscription {
    type Answer = Deleted;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::WEBHOOKS, "DELETE subscriptions/{id}", delete)
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &["subscriptions delete sub_01k..."];
        vec![CallCommand::new("subscriptions delete", examples, |request: Self| request.sent())]
    }
}

fn url_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    // Whether http is allowed, the profile in force says.
    crate::contract::rules::url_schema(true).try_into().expect("it is a schema")
}

fn url_schema_or_null(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = url_schema(generator).to_value();
    schema["type"] = serde_json::json!(["string", "null"]);
    schema.try_into().expect("it is a schema")
}

/// Distinguishes a null field from an absent one.
fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}

/// The subscription is gone.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Deleted {
    pub(crate) deleted: SubscriptionId,
}

/// Give a subscription a new secret; the old one keeps signing for a while.
///
/// The new secret is shown only here. `webhooks.rotation_grace` sets how long the old one keeps signing.
#[derive(Args, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct RotateSecret {
    #[command(flatten)]
    pub(crate) path: SubscriptionPath,
    #[command(flatten)]
    pub(crate) body: NewSecret,
}

#[derive(Args, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSecret {
    #[arg(skip)]
    #[serde(default)]
    pub(crate) key: KeyFilter,
    /// The signing secret; by default one is generated and printed.
    #[arg(long, env = "WRS_WEBHOOK_SECRET", hide_env_values = true)]
    #[schemars(length(min = 1))]
    pub(crate) secret: Option<String>,
}

impl ControlCall for RotateSecret {
    type Answer = Rotated;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::WEBHOOKS, "POST subscriptions/{id}/rotate", rotate).with(SECRET)
    }

    fn commands() -> Vec<CallCommand> {
        let about = "Give a subscription a new secret and print it; the old one keeps signing for a while";
        let examples = &["subscriptions rotate sub_01k...", "subscriptions rotate sub_01k... --secret whsec_..."];
        vec![CallCommand::new("subscriptions rotate", examples, |request: Self| request.sent()).about(about)]
    }
}

/// The secret that signs from now on.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Rotated {
    pub(crate) subscription: SubscriptionView,
    pub(crate) secret: String,
    pub(crate) old_secret_signs_for: String,
}

impl TableRow for SubscriptionView {
    fn table(rows: &[Self]) -> String {
        let columns = |row: &Self| {
            [cell(&row.id), cell(&row.key), name_of(row.status), cell(row.events.join(",")), cell(&row.url)]
        };
        table(["ID", "KEY", "STATUS", "EVENTS", "URL"], rows.iter().map(columns))
    }
}

impl Text for SubscriptionView {
    fn text(&self, reader: &Audience) -> String {
        let Self { id, url, events, description, status, created_at, signing_secrets, workspace, key } = self;
        format!(
            "id: {id}\nkey: {}\nworkspace: {workspace}\nstatus: {}\nurl: {}\ndescription: {}\ncreated_at: {created_at}\n\
             signing_secrets: {signing_secrets}; `{}` shows the newest\nevents: {}\n",
            cell(key),
            name_of(status),
            cell(url),
            optional(description.as_ref()),
            Advice::ShowSecret { id: id.to_string() }.worded(reader),
            cell(events.join(",")),
        )
    }
}

impl Text for ShownSubscription {
    fn text(&self, reader: &Audience) -> String {
        let secret = self.secret.as_ref().map_or_else(String::new, |secret| format!("secret: {}\n", cell(secret)));
        self.subscription.text(reader) + &secret
    }
}

impl Text for Created {
    fn text(&self, _: &Audience) -> String {
        let SubscriptionView { id, events, url, .. } = &self.subscription;
        let verb = if self.created { "created" } else { "updated" };
        let secret = self.secret.as_ref().map_or_else(String::new, |secret| format!("secret: {}\n", cell(secret)));
        format!("{id} {verb}: {} to {}\n{secret}", cell(events.join(",")), cell(url))
    }
}

impl Text for Deleted {
    fn text(&self, _: &Audience) -> String {
        format!("{} deleted\n", cell(&self.deleted))
    }
}

impl Text for Rotated {
    fn text(&self, _: &Audience) -> String {
        format!("{}\nthe old secret keeps signing for {}\n", cell(&self.secret), cell(&self.old_secret_signs_for))
    }
}

/// A page of the subscriptions of a scope, oldest first, numbered in this order; and how many there are in all.
pub(super) fn page_of(
    control: &Control,
    scope: &KeyScope,
    page: &Paging,
    redactor: Redactor<'_>,
) -> (Page<SubscriptionView>, usize) {
    let mut found = Vec::new();
    for workspace in scope.workspaces(&control.engine) {
        let profile = control.engine.profile_for(Some(workspace.name()));
        // Shared, not copied: only those of the page are shown.
        let records = workspace.lock().subscriptions.save();
        found.extend(records.into_iter().map(|record| (record, Arc::clone(&workspace), Arc::clone(&profile))));
    }
    // Those of one key are in the order in which they were made, whatever its clock did meanwhile.
    if scope.key().is_none() {
        found.sort_by_cached_key(|(record, _, profile)| {
            timestamp_of(&record.id, record.created_at, profile.time.precision)
        });
    }
    let count = found.len();
    let shown = |(record, workspace, profile): (Arc<SubscriptionRecord>, Arc<Workspace>, Arc<Profile>)| {
        to_view(&record, &workspace, &profile, redactor)
    };
    let rest = (1..).zip(found).skip_while(|(number, _)| page.after.is_some_and(|after| *number <= after));
    (page.page(rest, shown), count)
}

fn show(ShowSubscription { path, query }: ShowSubscription, cx: &Context) -> Result<ShownSubscription, ControlError> {
    let id = path.id;
    let workspace = owner(cx, &query.key, &id)?;
    let subscription = view(cx, &workspace, &id)?;
    let newest_secret = || {
        let (state, now) = (workspace.lock(), workspace.clock().now());
        let secrets = state.subscriptions.get(&id)?.signing_secrets(now);
        secrets.first().map(|secret| secret.reveal().to_owned())
    };
    Ok(ShownSubscription { subscription, secret: query.secret.then(newest_secret).flatten() })
}

fn view(cx: &Context, workspace: &Workspace, id: &str) -> Result<SubscriptionView, ControlError> {
    let profile = cx.engine.profile_for(Some(workspace.name()));
    let state = workspace.lock();
    let record = state.subscriptions.get(id).ok_or_else(|| unknown(id))?;
    Ok(to_view(record, workspace, &profile, cx.redactor()))
}

/// Masked here, as an answer with a secret is not masked as a whole.
fn to_view(
    record: &SubscriptionRecord,
    workspace: &Workspace,
    profile: &Profile,
    redactor: Redactor<'_>,
) -> SubscriptionView {
    let masked = |text: &String| redactor.text(text).into_owned();
    SubscriptionView {
        id: record.id.as_str().into(),
        url: masked(&record.url),
        events: record.events.clone(),
        description: record.description.as_ref().map(masked),
        status: if record.disabled { SubscriptionState::Disabled } else { SubscriptionState::Active },
        created_at: timestamp_of(&record.id, record.created_at, profile.time.precision).into(),
        signing_secrets: record.signing_secrets(workspace.clock().now()).len(),
        workspace: workspace.id().into(),
        key: redactor.key(workspace.name()).into_owned(),
    }
}

/// Subscribes a URL for a key, with the validation of the emulated API but without counting a request. The answer has the secret
/// only if it was generated.
fn create(Body { body: request }: Body<Subscribe>, cx: &Context) -> Result<Created, ControlError> {
    let workspace = cx.engine.workspace(request.key.meant())?;
    let profile = cx.engine.profile_for(Some(workspace.name()));
    let own_http = Url::parse(&request.url).ok().filter(|url| url.scheme() == "http" && url.has_host());
    let own_http = own_http.filter(|_| !profile.webhooks.allow_http);
    let every_type = || profile.events.types().map(str::to_owned).collect();
    let mut fields = Map::from_iter([
        ("url".to_owned(), request.url.into()),
        ("events".to_owned(), request.events.unwrap_or_else(every_type).into()),
    ]);
    let optional = [("secret", request.secret), ("description", request.description)];
    fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))));
    let checked = check_subscribe(&fields, &profile.subscribe_rules()).map_err(|error| match own_http {
        Some(url) => leading_to(&url, &error),
        None => refused(error),
    })?;
    let now = workspace.clock().now();
    let subscribed = workspace.lock().subscribe(checked, &profile, now).map_err(refused)?;
    let secret = subscribed.body.get(&profile.subscriptions.secret_field);
    let secret = secret.and_then(|secret| secret.as_str()).map(str::to_owned);
    let subscription = view(cx, &workspace, &subscribed.id)?;
    Ok(Created { subscription, secret, created: subscribed.created })
}

/// Changes a subscription; absent fields stay. The validation is that of the emulated API.
fn change(
    ChangeSubscription { path, body: request }: ChangeSubscription,
    cx: &Context,
) -> Result<SubscriptionView, ControlError> {
    let id = &path.id;
    let workspace = owner(cx, &request.key, id)?;
    let profile = cx.engine.profile_for(Some(workspace.name()));
    // Locked from reading to writing, so that two concurrent changes do not undo each other.
    let mut state = workspace.lock();
    let Some(known) = state.subscriptions.get(id) else { return Err(unknown(id)) };
    let description = request.description.clone().unwrap_or_else(|| known.description.clone().into());
    let fields = Map::from_iter([
        ("url".to_owned(), request.url.as_ref().unwrap_or(&known.url).as_str().into()),
        ("events".to_owned(), request.events.as_ref().unwrap_or(&known.events).clone().into()),
        ("description".to_owned(), description),
    ]);
    let disabled = match request.status {
        None => known.disabled,
        Some(status) => matches!(status, SubscriptionState::Disabled),
    };
    let checked = check_subscribe(&fields, &profile.subscribe_rules()).map_err(refused)?;
    let changed = state.subscriptions.update(id, checked, disabled, &profile);
    drop(state);
    changed.ok_or_else(|| unknown(id))?.map_err(refused)?;
    view(cx, &workspace, id)
}

fn delete(DeleteSubscription { path, body }: DeleteSubscription, cx: &Context) -> Result<Deleted, ControlError> {
    let id = path.id;
    let workspace = owner(cx, &body.key, &id)?;
    workspace.lock().subscriptions.remove(&id);
    Ok(Deleted { deleted: id.as_str().into() })
}

/// Gives the subscription a new secret and returns it; the old one keeps signing for the grace period.
fn rotate(RotateSecret { path, body }: RotateSecret, cx: &Context) -> Result<Rotated, ControlError> {
    let (id, given) = (path.id, body.secret);
    let workspace = owner(cx, &body.key, &id)?;
    let (profile, now) = (cx.engine.profile_for(Some(workspace.name())), workspace.clock().now());
    if let Some(secret) = &given {
        for scheme in profile.schemes() {
            SigningKey::read(secret, &scheme, profile.webhooks.secret_key)
                .map_err(|problem| ControlError::invalid(format!("secret: {problem}")))?;
        }
    }
    let grace = profile.webhooks.rotation_grace;
    let mut state = workspace.lock();
    let secret = given.map_or_else(|| state.new_secret(&profile), Secret::new);
    let rotated = state.subscriptions.rotate(&id, &secret, grace.get(), now, None);
    let record = state.subscriptions.get(&id);
    let (Some(rotated), Some(record)) = (rotated, record) else { return Err(unknown(&id)) };
    rotated.map_err(refused)?;
    Ok(Rotated {
        subscription: to_view(record, &workspace, &profile, cx.redactor()),
        secret: secret.reveal().to_owned(),
        old_secret_signs_for: grace.to_string(),
    })
}

/// The refusal of a receiver's own address, with the forward that leads there.
fn leading_to(receiver: &Url, error: &Error) -> ControlError {
    const EXAMPLE: &str = "https://app.example.com";
    let path = &receiver[Position::BeforePath..Position::AfterQuery];
    let message = format!("{}; forward an https URL there, then subscribe {EXAMPLE}{path}", error.message);
    let to = receiver[..Position::BeforePath].to_owned();
    ControlError::invalid(message).advising(vec![Advice::Forward { url: EXAMPLE.to_owned(), to }])
}

fn refused(error: Error) -> ControlError {
    ControlError::invalid(error.message)
}

/// The workspace of the subscription that a call names. Ids are unique, so the call need not name a key.
fn owner(cx: &Context, key: &KeyFilter, id: &str) -> Result<Arc<Workspace>, ControlError> {
    let scope = key.scope(&cx.engine)?;
    let owns = |workspace: &Arc<Workspace>| workspace.lock().subscriptions.get(id).is_some();
    let found = scope.workspaces(&cx.engine).into_iter().find(owns);
    found.ok_or_else(|| {
        ControlError::not_found(format!("there is no subscription `{}`{}", quoted(id), scope.of_this_key()))
    })
}

fn unknown(id: &str) -> ControlError {
    ControlError::not_found(format!("there is no subscription `{}`", quoted(id)))
}
