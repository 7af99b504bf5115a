// Requests and texts as an attacker would send them, from a fixed seed.

/** Numbers below a bound, the same ones for each seed. */
export function randomOf(seed) {
  let state = seed;
  return (bound) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * bound);
  };
}

export const pick = (random, list) => list[random(list.length)];

/** What a shell, curl, printf, TOML, a template, Python or JavaScript would act on. */
export const TEXTS = [
  "`touch$IFS.pwned`", "$(touch .pwned)", "';touch .pwned;'", '";touch .pwned;"', "\u0001';touch .pwned;#'", "\\';touch .pwned;#", "$'\\x27'", "@.pwned", "@-", "!!", "!-1:p", "^a^b", "a\n!!\nb",
  "=ls", "~", "~root", "*", "?", "[1-3]", "a[b]=1", "{a,b}", "{}", "{{ now }}", "{{", "}}", "{% if %}", "{{{", "{{{%", "{{ '{{' }}", "%", "%s%n", "%41", "\\", "\\\\", "\\n", "\\0101", "\\u0041", "${HOME}", "$HOME", "${1}", "#", "#{x}", "-", "--", "-X", "-n a",
  "", "'", "''", '"', '""', '"""', "'''", "`", "a b", "\t", "\n", "\n\n", "x\n", "\r\n", "\r", "\u0000", "\u0000a", "a\u0000", "\u007f", "\u001b[31m", "\u001b[201~\n", "\u0085", "\u00a0", "\u2028\u2029", "\u202e", "\ufeff", "\u200d", "ü", "日本", "\u{1f600}", "\u{10ffff}",
  "/*", "*/", "//", "<!--", "</script", "&", "&&", "|", ";", "<x", ">x", "(", ")", "a=b", "1", "true", "null", "1e400",
];

/** A few of the texts, one after the other. */
export function textOf(random) {
  let text = "";
  for (let parts = 1 + random(4); parts > 0; parts--) text += random(4) ? pick(random, TEXTS) : String.fromCodePoint(random(random(2) ? 0x80 : 0x2100));
  return random(60) ? text : text.padEnd(1 + random(60_000), pick(random, ["x", "{", "'", "\\", "%", "\u0000", "ü", "{{"]));
}

/** Bytes that are not UTF-8, as the control API has them. */
export function bytesOf(random) {
  const bytes = Uint8Array.from({ length: 1 + random(200) }, () => random(256));
  bytes[random(bytes.length)] = 0xff;
  return { base64: Buffer.from(bytes).toString("base64") };
}

/** The characters of a method or of a header's name. */
export const TOKEN = "!#$%&'*+-.^_`|~0123456789ABCXYZabcxyz";

const some = (random, characters, most) => Array.from({ length: 1 + random(most) }, () => pick(random, characters)).join("");

/** The characters of a target that servers let pass: all that can be seen but the space, and some that are not ASCII. */
const TARGET = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i)).join("");

/** A request as the control API shows it. */
export function requestOf(random) {
  const start = pick(random, ["/", "/", "/v1/hello", "/v1/events/subscribe", "//", "//host/x", "/../", "/./", "/a/../b", "/%2e%2E/", "/-", "*", "host:443", "/~", "/:"]);
  const method = random(2) ? pick(random, ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "get", "-X", "`touch$IFS.pwned`", "|touch", "!!", "'"]) : some(random, TOKEN, 12);
  const query = random(3) ? pick(random, ["", "x[1-3]", "a[b]=1", "{a,b}", "a={}", "a=%20+b", "'", "\"", "`id`", "$(id)", "a&b;c|d", "x=\\"]) + (random(2) ? some(random, TARGET, 20) : "") : null;
  const headers = [];
  for (let count = random(4); count > 0; count--) {
    const value = textOf(random).slice(0, 200).replaceAll(/[\u0000-\u0008\u000a-\u001f\u007f]/g, "").toWellFormed?.() ?? "";
    headers.push([`x-${some(random, TOKEN, 8)}`, value.replaceAll(/^[ \t]+|[ \t]+$/g, "")]);
  }
  if (random(2)) headers.push(["content-type", pick(random, ["application/json", "text/plain; charset=\"utf-8\"", "a/b;c='d'"])]);
  const body = pick(random, ["", "{}", "it's", '{"a":1}', "{\n  \"a\": [1]\n}\n", textOf(random), textOf(random), textOf(random), bytesOf(random)]);
  return { id: "req_1", method, path: start + (random(2) ? some(random, TARGET.replace("?", ""), 12) : ""), query, headers, body, operation: null, status: 200, key: "sk_test_a", reason: "answered", answer: { headers: [], body: "" } };
}
