// What each setting is called and does, in the words of people; rare ones are folded. A test compares it with the settings there are.

/** @typedef {{title: string, effect: string, isRare: boolean}} Words */

const RARE = '~';

/** Name and effect; `~` marks a setting that few people change. @type {Record<string, [string, string]>} */
const TEXTS = {
  environment: ['Environment', 'Which keys are valid: test keys or live ones.'],
  'keys.mode': ['Accepted keys', 'The condition for a valid key.'],
  'keys.list': ['List of keys', 'The only valid keys, where a list decides.'],
  'keys.test_prefix': ['~Prefix of test keys', 'How keys of the sandbox begin.'],
  'keys.live_prefix': ['~Prefix of live keys', 'How keys of production begin.'],
  'errors.details': ['Error details', 'Adds the problem of each field to an error.'],
  'errors.malformed_json_status': ['Status for broken JSON', 'Answers a body that is not JSON.'],
  'errors.codes': ['~Error codes', 'Replaces the codes of errors.'],
  'errors.messages': ['~Error messages', 'Replaces the messages of errors.'],
  'errors.extra': ['~More error fields', 'Adds fields to each error.'],
  'validation.unknown': ['Unknown fields', 'Ignores or refuses fields and parameters that the contract lacks.'],
  'validation.lenient_booleans': ['Lenient booleans', 'Also accepts 1, 0, yes, no and other spellings.'],
  'validation.content_type': ['~Content-Type check', 'Requires the type of a body to be JSON.'],
  'status.checks': ['~Health checks', 'The checks of include_checks=true.'],
  'rate_limit.enabled': ['Quota', 'Counts the requests of each key.'],
  'rate_limit.requests': ['Requests', 'The limit of a key in each window.'],
  'rate_limit.window': ['Window', 'How long a window lasts.'],
  'rate_limit.retry_after': ['Retry-After header', 'Says in each 429 how long to wait.'],
  'rate_limit.reset': ['Reset header', 'Says with each answer when the quota is full again.'],
  'rate_limit.ietf': ['IETF RateLimit headers', 'Sends RateLimit and RateLimit-Policy.'],
  'rate_limit.burst': ['Burst', 'How many requests may come at once.'],
  'rate_limit.algorithm': ['Algorithm', 'How a quota fills again.'],
  'rate_limit.count': ['~Counted requests', 'Which answers use up the quota.'],
  'rate_limit.header_names': ['~Names of quota headers', 'How limit and rest are sent.'],
  'rate_limit.reset_header': ['~Name of the reset header', 'How the reset is sent.'],
  'ids.style': ['Form of ids', 'The part after the prefix.'],
  'ids.request_header': ['Request id header', 'Sends the id of a request with its answer.'],
  'time.precision': ['Precision of times', 'Digits after the second.'],
  'variation.unknown_fields': ['Unexpected fields', 'Adds fields that a client must ignore.'],
  'variation.key_order': ['Order of JSON keys', 'Clients must not depend on it.'],
  'variation.bodies': ['~Varied bodies', 'Where the two above apply.'],
  'variation.header_names': ['~Case of header names', 'Clients must not depend on it.'],
  'subscriptions.upsert': ['Same URL again', 'Updates the subscription, or adds another.'],
  'subscriptions.secret_field': ['~Field of the secret', 'Its name in the answer.'],
  'subscriptions.echo_secret': ['~Echo of a secret', 'Sends back a secret that the client chose.'],
  'events.extra': ['More event types', 'Types beyond those of the contract.'],
  'events.data': ['~Event data', 'The default data of events.'],
  'webhooks.scheme': ['Signature scheme', 'How deliveries are signed.'],
  'webhooks.allow_http': ['Plain HTTP receivers', 'Accepts URLs without TLS.'],
  'webhooks.timeout': ['Timeout', 'The time limit of a receiver.'],
  'webhooks.retry.preset': ['Retries', 'When failed attempts are repeated.'],
  'webhooks.retry.schedule': ['Retry pauses', 'The pauses of your own plan.'],
  'webhooks.retry.jitter': ['~Retry jitter', 'Varies the pauses at random.'],
  'webhooks.copies': ['Copies', 'Delivers each event more than once.'],
  'webhooks.order': ['Order', 'Whether a retry delays later events.'],
  'webhooks.scatter': ['Scatter', 'Delays each event at random, so that they arrive out of order.'],
  'webhooks.swap': ['~Swap', 'Lets the next event overtake one.'],
  'webhooks.forwards': ['Forwards', 'Sends deliveries to another address.'],
  'webhooks.forward_host': ['~Host of forwards', 'The Host header of a forwarded delivery.'],
  'webhooks.secret_key': ['~Key of a secret', 'How a secret becomes key bytes.'],
  'webhooks.timestamp': ['~Signed time', 'The clock of signatures.'],
  'webhooks.user_agent': ['~User-Agent', 'The User-Agent of deliveries.'],
  'webhooks.headers': ['More headers', 'Added to each delivery.'],
  'webhooks.framing': ['~Framing', 'How the length of a body is sent.'],
  'webhooks.connect_timeout': ['~Connect timeout', 'The time limit for connecting.'],
  'webhooks.disable_on_gone': ['~Disable on 410', 'Ends a subscription that is gone.'],
  'webhooks.honor_retry_after': ['~Honour Retry-After', 'Waits as long as a receiver asks.'],
  'webhooks.rotation_grace': ['~Rotation grace', 'How long an old secret still signs.'],
  'webhooks.custom': ['~Custom scheme', 'Headers and content of your own scheme.'],
  'hello.body': ['~Hello', 'The answer of GET /v1/hello.'],
};

/** The words for a setting; one that has none is called by its name. @param {string} setting @returns {Words} */
export function wordsOf(setting) {
  const [name, effect] = TEXTS[setting] ?? [`${RARE}${setting.replace(/[._]/g, ' ')}`, ''];
  return { title: name.replace(RARE, ''), effect, isRare: name.startsWith(RARE) };
}
