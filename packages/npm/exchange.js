// One request and its answer, over a separate socket.
//
// Not by `fetch` or `node:http`: tests, and recorders such as nock and msw, replace both, some as soon as they are imported; and both may be
// made to use a proxy.
"use strict";

const { connect: plain } = require("node:net");
const { connect: secure } = require("node:tls");

/** Most bytes of an answer: whatever answers at the address may be no emulator. */
const MAX_ANSWER = 64 * 1024 * 1024;

/** Status and text of an answer. */
async function exchange(address, method, headers, body = "") {
  const url = new URL(address);
  const isSecure = url.protocol === "https:";
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const port = Number(url.port) || (isSecure ? 443 : 80);
  // A name that is an address is not sent.
  const socket = isSecure ? secure({ host, port, servername: /^[\d.]+$|:/.test(host) ? "" : host }) : plain({ host, port });
  const fields = { host: url.host, connection: "close", "content-length": Buffer.byteLength(body), ...headers };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`).join("");
  socket.write(`${method} ${url.pathname}${url.search} HTTP/1.1\r\n${lines}\r\n${body}`);
  const parts = [];
  let size = 0;
  for await (const part of socket) {
    size += part.length;
    if (size > MAX_ANSWER) throw new Error(`the answer has more than ${MAX_ANSWER >> 20} MiB; is that a wrs-emulator?`);
    parts.push(part);
  }
  return read(Buffer.concat(parts));
}

/** The answer in the bytes that came until the end of the connection. */
function read(received) {
  const end = received.indexOf("\r\n\r\n");
  const [first, ...lines] = received.subarray(0, Math.max(end, 0)).toString("latin1").split("\r\n");
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(first)?.[1]);
  if (!status) throw new Error("the answer is not HTTP; is that a wrs-emulator?");
  const rest = received.subarray(end + 4);
  // Before the answer itself.
  if (status < 200) return read(rest);
  const field = (name) => lines.find((line) => line.toLowerCase().startsWith(`${name}:`))?.slice(name.length + 1).trim();
  if (/chunked$/i.test(field("transfer-encoding") ?? "")) return { status, text: joined(rest).toString() };
  const length = field("content-length");
  if (rest.length < Number(length ?? 0)) throw new Error("the answer broke off");
  return { status, text: rest.subarray(0, length === undefined ? rest.length : Number(length)).toString() };
}

/** The content of chunks. */
function joined(chunked) {
  const parts = [];
  for (let at = 0; ;) {
    const end = chunked.indexOf("\r\n", at);
    const size = end < 0 ? NaN : parseInt(chunked.subarray(at, end).toString("latin1"), 16);
    if (!(end + 2 + size <= chunked.length)) throw new Error("the answer broke off");
    if (size === 0) return Buffer.concat(parts);
    parts.push(chunked.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
}

exports.exchange = exchange;
