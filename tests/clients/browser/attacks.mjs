// What a page tries against the control API. Each attack is a function that runs inside the browser; it gets the emulator's origin and
// what to ask, and gives what the page could read of the answer as text, or null. It is done when the answer was processed.
//
// They must not use anything from outside themselves: the browser gets their source text.

const JSON_TYPE = "application/json";

/** Calls that change something; `SUBSCRIPTION` and `DELIVERY` stand for ids. */
export const WRITES = [
  ["POST", "reset", { key: "*" }],
  ["POST", "clock", { advance: "1h" }],
  ["POST", "clock", { mode: "real" }],
  ["POST", "events", { type: "workflow.completed" }],
  ["POST", "scenarios/active", { active: ["always-401"] }],
  ["POST", "scenarios/reload", {}],
  ["POST", "sink/app", { respond: [500] }],
  ["POST", "subscriptions/SUBSCRIPTION/rotate", {}],
  ["POST", "deliveries/DELIVERY/redeliver", {}],
  ["PUT", "subscriptions/SUBSCRIPTION", { url: "https://evil.example/" }],
  ["PUT", "scenarios/evil", "[[rule]]\nreply = { status = 422, message = 'evil' }\n", "application/toml"],
  ["PUT", "snapshot", {}],
  ["PATCH", "profile", { rate_limit: { requests: 1 } }],
  ["DELETE", "requests", {}],
  ["DELETE", "subscriptions/SUBSCRIPTION", {}],
].map(([method, path, body, type = JSON_TYPE]) => {
  return { method, path, body: typeof body === "string" ? body : JSON.stringify(body), type };
});

/** Calls whose answer is worth stealing. */
export const READS = ["health", "requests?key=*", "snapshot?key=*", "subscriptions?key=*", "profile", "openapi.json"];

/** Content types that need no preflight, and some that pretend to. */
export const SIMPLE_TYPES = [
  null,
  "text/plain",
  "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=x",
  "text/plain; application/json",
];

/** An ordinary fetch; with a type or method that is not simple, the browser asks by a preflight first. */
export async function fetchCors({ origin, method = "GET", path, body, type }) {
  try {
    const headers = type ? { "content-type": type } : {};
    const answer = await fetch(`${origin}/_emulator/${path}`, { method, body, headers });
    return await answer.text();
  } catch {
    return null;
  }
}

/** A fetch that asks no permission, and gets an answer that it cannot look into. */
export async function fetchNoCors({ origin, method = "GET", path, body, type }) {
  try {
    const headers = type ? { "content-type": type } : {};
    const answer = await fetch(`${origin}/_emulator/${path}`, { mode: "no-cors", method, body, headers });
    return answer.type === "opaque" ? (await answer.text()) || null : await answer.text();
  } catch {
    return null;
  }
}

/** The older way, with the browser's credentials. */
export function xhr({ origin, method = "GET", path, body, type }) {
  return new Promise((done) => {
    const request = new XMLHttpRequest();
    request.open(method, `${origin}/_emulator/${path}`);
    request.withCredentials = true;
    if (type) request.setRequestHeader("content-type", type);
    request.onloadend = () => done(request.responseText || null);
    request.send(body);
  });
}

/** A form that is posted into a frame; as text/plain its one field can be made to look like JSON. */
export function form({ origin, path, body, enctype }) {
  return new Promise((done) => {
    const frame = document.createElement("iframe");
    frame.name = `frame${Math.random()}`;
    document.body.append(frame);
    const made = document.createElement("form");
    Object.assign(made, { method: "POST", action: `${origin}/_emulator/${path}`, enctype, target: frame.name });
    const field = document.createElement("input");
    // `{"key":"*","x":"=` and `"}` with the sign between name and value make one JSON object.
    const cut = body.lastIndexOf("}");
    const comma = body.length > 2 ? "," : "";
    [field.name, field.value] = [`${body.slice(0, cut)}${comma}"x":"`, '"}'];
    made.append(field);
    document.body.append(made);
    frame.onload = () => {
      let read = null;
      try { read = frame.contentDocument?.body?.innerText || null; } catch { /* another origin's document */ }
      frame.remove();
      done(read);
    };
    made.submit();
  });
}

/** What a page sends when it is left. There is no answer. */
export async function beacon({ origin, path, body, type }) {
  navigator.sendBeacon(`${origin}/_emulator/${path}`, type ? new Blob([body], { type }) : body);
  return null;
}

/** An image: its size would tell. */
export function image({ origin, path }) {
  return new Promise((done) => {
    const made = new Image();
    made.onload = () => done(`${made.naturalWidth} x ${made.naturalHeight}`);
    made.onerror = () => done(null);
    made.src = `${origin}/_emulator/${path}`;
  });
}

/** A script: its definitions, or an error message that quotes it, would tell. */
export function script({ origin, path }) {
  return new Promise((done) => {
    let told = null;
    const before = Object.keys(window).length;
    const listen = (event) => { if (event.message && !event.message.startsWith("Script error")) told = event.message; };
    addEventListener("error", listen);
    const finish = () => {
      removeEventListener("error", listen);
      done(told ?? (Object.keys(window).length > before ? "it defines names" : null));
    };
    const made = document.createElement("script");
    Object.assign(made, { onload: finish, onerror: finish, src: `${origin}/_emulator/${path}` });
    document.head.append(made);
  });
}

/** A style sheet, whose rules can be looked into if it is taken as one. */
export function style({ origin, path }) {
  return new Promise((done) => {
    const made = document.createElement("link");
    const finish = () => {
      try { done(made.sheet ? `${made.sheet.cssRules.length} rules` : null); } catch { done(null); }
    };
    Object.assign(made, { rel: "stylesheet", href: `${origin}/_emulator/${path}`, onload: finish, onerror: finish });
    document.head.append(made);
  });
}

/** A frame that shows the answer. */
export function frame({ origin, path }) {
  return new Promise((done) => {
    const made = document.createElement("iframe");
    made.onload = () => {
      let read = null;
      try { read = made.contentDocument?.body?.innerText || null; } catch { /* another origin's document */ }
      made.remove();
      done(read);
    };
    made.src = `${origin}/_emulator/${path}`;
    document.body.append(made);
  });
}

/** The event stream: being connected is enough to read along. */
export function stream({ origin }) {
  return new Promise((done) => {
    const source = new EventSource(`${origin}/_emulator/stream?key=*`);
    source.onopen = () => { source.close(); done("the stream is open"); };
    source.onerror = () => { source.close(); done(null); };
  });
}

/** A socket, which knows no preflight. */
export function socket({ origin, path }) {
  return new Promise((done) => {
    const made = new WebSocket(`${origin.replace("http", "ws")}/_emulator/${path}`);
    made.onopen = () => { made.close(); done("the socket is open"); };
    made.onerror = () => done(null);
  });
}

/** Every attack with its name: its code, its target, and whether it writes. */
export function attacks() {
  const list = [];
  const add = (name, run, ask, kind) => list.push({ name, run, ask, kind });
  for (const write of WRITES) {
    const { method, path } = write;
    add(`fetch ${method} ${path} as ${write.type}`, fetchCors, write, "write");
    if (method !== "POST") continue;
    for (const type of SIMPLE_TYPES) {
      add(`fetch POST ${path} as ${type}`, fetchCors, { ...write, type }, "write");
      add(`no-cors POST ${path} as ${type}`, fetchNoCors, { ...write, type }, "write");
    }
    // Without the right to say so, the browser leaves this type out.
    add(`no-cors POST ${path} as ${JSON_TYPE}`, fetchNoCors, write, "write");
    add(`xhr POST ${path} as text/plain`, xhr, { ...write, type: "text/plain" }, "write");
    for (const enctype of ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"]) {
      add(`form POST ${path} as ${enctype}`, form, { ...write, enctype }, "write");
    }
    add(`beacon POST ${path} as text`, beacon, { ...write, type: null }, "write");
    add(`beacon POST ${path} as ${JSON_TYPE}`, beacon, write, "write");
  }
  for (const path of READS) {
    for (const [name, run] of Object.entries({ fetch: fetchCors, "no-cors": fetchNoCors, xhr, image, script, style, frame, socket })) {
      add(`${name} GET ${path}`, run, { path }, "read");
    }
  }
  add("EventSource GET stream", stream, { path: "stream" }, "read");
  return list;
}
