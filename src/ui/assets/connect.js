// The first look: what this is, and how a program connects to it.

import { exampleLine } from './command.js';
import { h } from './element.js';
import { commandLine, copyButton, documentLinks, pairs, testButton } from './parts.js';
import { literal } from './text.js';

const KEY = 'sk_test_local';

/** The first request in each language. @param {string} url @returns {[string, string][]} */
function snippets(url) {
  return [
    ['curl', exampleLine(url)],
    ['Python', `import urllib.request\n\nrequest = urllib.request.Request(${literal(`${url}/v1/system/status`)}, headers={"Authorization": "Bearer ${KEY}"})\nprint(urllib.request.urlopen(request).read().decode())`],
    ['Node', `const answer = await fetch(${literal(`${url}/v1/system/status`)}, { headers: { authorization: "Bearer ${KEY}" } });\nconsole.log(await answer.json());`],
  ];
}

/** @param {Page} page @returns {Node} */
export function connectPanel(page) {
  const url = new URL(page.base).origin;
  const chosen = page.ui.forms.language ??= 'curl';
  const all = snippets(url);
  const text = all.find(([name]) => name === chosen)?.[1] ?? '';
  const choose = (/** @type {string} */ name) => () => {
    page.ui.forms.language = name;
    page.redraw();
  };
  return h('div.connect', null,
    h('h2', null, 'An emulator of the Workflow Reference Service API'),
    h('p', null, 'It answers as the service would, with no account and no network. No request has arrived yet; requests and webhooks appear here as they happen.'),
    h('div.actions', null, testButton(page)),
    h('section.card', null,
      h('h3', null, 'Connect'),
      pairs([['Base URL', h('span', null, h('code', null, url), ' ', copyButton(page, url, 'the base URL'))], ['API key', h('span', null, h('code', null, KEY), ' or any other that begins with ', h('code', null, 'sk_test_'))]]),
      h('div.choices', { role: 'group', 'aria-label': 'Language of the example' }, all.map(([name]) => h('button', { 'aria-pressed': String(name === chosen), onclick: choose(name) }, name))),
      commandLine(page, text, 'the example'),
      h('h4', null, 'Webhooks to a program of yours on port 3000'),
      commandLine(page, page.cli(['listen', '--forward-to', 'localhost:3000/hooks']), 'the command'),
      h('p.quiet', null, 'It subscribes, prints the signing secret and each delivery, and unsubscribes at the end.')),
    h('p', null, h('a', { href: 'docs/README.md' }, 'Documentation'), ', of this version; every command: ', h('code', null, 'wrs-emulator --help'), '.'),
    documentLinks(page));
}
