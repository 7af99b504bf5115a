// Walks through every view as a user would: by role and name, by address, by keyboard alone.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Emulator, gate, nginx, openTab, press, rows, tabTo, until } from "./site.mjs";

/** Copies one of the texts that a menu offers, and gives it; the page says so. */
async function copied(page, within, name) {
  await within.getByRole("button", { name: "Copy as…" }).first().click();
  await within.getByRole("button", { name, exact: true }).click();
  await page.getByRole("status").getByText(`Copied: ${name}`).waitFor();
  return page.evaluate(() => navigator.clipboard.readText());
}
const visit = (page, name) => page.getByRole("navigation", { name: "Views" }).getByRole("link", { name, exact: false }).click();

/** Every entry of the open menu can be clicked at its middle and at its ends. */
async function hitsEntries(page) {
  await page.locator(".sheet").waitFor();
  const missed = await page.locator(".sheet button").evaluateAll((all) => all.filter((button) => {
    const box = button.getBoundingClientRect();
    return [box.left + 4, (box.left + box.right) / 2, box.right - 4].some((x) => document.elementFromPoint(x, (box.top + box.bottom) / 2) !== button);
  }).map((button) => button.textContent));
  assert.deepEqual(missed, [], `entries cut off at ${page.viewportSize().width}`);
}

/** A menu opens within what it is in: every one of a request's pane, a delivery's, a key's, a subscription's, and of the views. */
export async function menus(emulator) {
  const { data: [request] } = await emulator.control("GET", "requests?status=429&limit=1");
  const { data: [delivery] } = await emulator.control("GET", "deliveries?limit=1");
  const { data: [subscription] } = await emulator.control("GET", "subscriptions");
  for (const [width, height] of [[1440, 900], [390, 844]]) {
    const { page, verify } = await openTab(emulator.page, { width, height });
    for (const place of [`requests/${request.id}`, `deliveries/${delivery.id}`, "keys/sk_test_local", `subscriptions/${subscription.id}`, "scenarios/rate-limit-burst", "time", "trigger"]) {
      await page.goto(`${emulator.page}#/${place}`);
      const menu = page.getByRole("button", { name: "Copy as…" });
      await menu.first().waitFor();
      for (let i = 0; i < await menu.count(); i++) {
        await menu.nth(i).click();
        await hitsEntries(page);
        await page.keyboard.press("Escape");
        await page.locator(".sheet").waitFor({ state: "detached" });
      }
    }
    await verify();
  }
}

/** Activity and a request: what happened and why, in two clicks. */
export async function activity(emulator) {
  const { page, verify } = await openTab(emulator.page);
  await rows(page).first().waitFor();
  assert.match(await page.title(), /^:\d+ · rate-limit-burst · wrs-emulator$/);
  await rows(page).filter({ hasText: "429" }).first().click();
  const details = page.getByRole("region", { name: "Details" });
  await details.getByText(/^429 Too Many Requests because scenario rate-limit-burst/).waitFor();
  await until(page, () => location.hash.startsWith("#/requests/req_"));
  await details.locator("summary").filter({ hasText: /^Checks: \d+ passed/ }).click();
  await details.getByRole("list", { name: "Checks" }).getByText("scenario", { exact: true }).waitFor();
  await details.getByText(/^\W*decided$/).waitFor();
  // What answered can be stopped; the link leads back.
  await details.getByRole("button", { name: "Stop rate-limit-burst" }).waitFor();
  await details.getByRole("button", { name: "Copy link" }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), page.url());
  await details.getByRole("button", { name: "Filter by status 429" }).click();
  await page.getByRole("combobox", { name: "Filter" }).waitFor();
  assert.equal(await page.getByRole("combobox", { name: "Filter" }).inputValue(), "429");
  await until(page, () => [...document.querySelectorAll("[role=option]")].every((row) => row.textContent.includes("429")));
  assert.match(await copied(page, details, "curl"), /^curl -s .*\/v1\/system\/status\?include_checks=true'?$/);
  assert.match(await copied(page, details, "Test: pytest"), /wrs\.scenario\(toml=[^]*assert status == 429/);
  assert.match(await copied(page, details, "Scenario"), /rate_limit_exceeded/);
  // The reason is the message of the error, and words of a filter match parts.
  await page.getByRole("combobox", { name: "Filter" }).fill("key:local scenario:burst");
  await until(page, () => location.hash.includes("key%3Alocal"));
  await rows(page).filter({ hasText: "rate-limit-burst: " }).first().waitFor();
  await page.getByRole("combobox", { name: "Filter" }).fill("");
  await page.getByRole("combobox", { name: "key", exact: true }).fill("sk_test_local");
  await until(page, () => location.hash.includes("key=sk_test_local"));
  // The text of an event has the room of the detail that it lacks.
  const event = rows(page).filter({ has: page.getByText("event", { exact: true }) }).last();
  const wide = (row) => row.locator("bdi").first().evaluate((node) => node.getBoundingClientRect().width);
  assert.ok(await wide(event) > 1.5 * await wide(rows(page).filter({ hasText: "429" }).first()));
  // An event leads to its deliveries.
  await event.click();
  await details.getByRole("heading", { name: "workflow.completed" }).first().waitFor();
  await details.getByRole("link", { name: /^dlv_/ }).first().click();
  await details.getByRole("heading", { name: /Attempt \d/ }).first().waitFor();
  await verify();
}

/** A tampered delivery: the signature taken apart, what differs, and sending it again. */
export async function delivery(emulator) {
  const { page, verify } = await openTab(`${emulator.page}#/deliveries`);
  await rows(page).filter({ hasText: "reference.matched" }).first().click();
  const details = page.getByRole("region", { name: "Details" });
  await details.getByText(/^Refused, as a forgery should be: the receiver answered 401/).waitFor();
  await details.getByRole("region", { name: "Signed content, in its parts" }).waitFor();
  const differing = details.getByRole("region", { name: "Body signed and body sent" });
  await differing.waitFor();
  assert.ok(await differing.locator("mark").count() >= 2);
  assert.match(await differing.textContent(), /signed.*sent/);
  const before = (await emulator.control("GET", "deliveries?limit=1000")).data.length;
  await details.getByText("forgery refused").first().waitFor();
  assert.match(await details.locator(".tampered").textContent(), /^tampered deliberately/);
  assert.match(await copied(page, details, "CLI: send it again"), /^wrs-emulator deliveries redeliver dlv_/);
  await details.getByRole("button", { name: "Send it again" }).click();
  await details.locator(".result.ok").waitFor();
  assert.equal((await emulator.control("GET", "deliveries?limit=1000")).data.length, before + 1);
  await verify();
}

/** A subscription is made, stopped, given a new secret and deleted, asked once. */
export async function subscriptions(emulator) {
  const { page, verify } = await openTab(`${emulator.page}#/subscriptions`);
  const main = page.getByRole("main");
  await main.getByText("Subscribe a receiver").click();
  await main.getByRole("textbox", { name: /^URL/ }).fill("https://walk.sink.localhost/in");
  await main.getByRole("textbox", { name: /^Events/ }).fill("workflow.completed");
  await main.getByRole("button", { name: "Subscribe", exact: true }).click();
  await main.getByText(/The secret, shown once: whsec_/).waitFor();
  const row = main.getByRole("row").filter({ hasText: "walk.sink.localhost" });
  await row.getByText(/^\W*not used yet$/).waitFor();
  await row.getByRole("link", { name: /walk/ }).click();
  const card = page.getByRole("region", { name: "Details" });
  await card.getByRole("button", { name: "Reveal" }).click();
  const secret = await card.getByText(/^whsec_\w/).textContent();
  await card.getByRole("button", { name: "Copy the secret" }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), secret);
  await card.getByRole("button", { name: "Hide" }).click();
  await card.getByRole("button", { name: "Rotate" }).click();
  await card.getByRole("button", { name: "Yes, rotate" }).click();
  await card.getByText(/^whsec_\w/).waitFor();
  assert.notEqual(await card.getByText(/^whsec_\w/).textContent(), secret);
  assert.match(await copied(page, card, "Disable: CLI"), /^wrs-emulator subscriptions disable sub_/);
  await card.getByRole("button", { name: "Send a test event" }).click();
  await row.getByText(/^\W*healthy$/).waitFor();
  await card.getByRole("button", { name: "Disable" }).click();
  await row.getByText(/^\W*disabled$/).waitFor();
  await card.getByRole("button", { name: "Enable" }).click();
  await row.getByText(/^\W*healthy$/).waitFor();
  await card.getByRole("button", { name: "Delete" }).click();
  await card.getByText(/Its events go nowhere/).waitFor();
  await card.getByRole("button", { name: "Cancel" }).click();
  await card.getByRole("button", { name: "Delete" }).click();
  await card.getByRole("button", { name: "Yes, delete" }).click();
  await row.waitFor({ state: "detached" });
  await card.getByText(/^There is no subscription sub_/).waitFor();
  await verify();
}

/** A scenario is read, made active for all keys or one, and turned off. */
export async function scenarios(emulator) {
  const { page, verify } = await openTab(`${emulator.page}#/scenarios`);
  const main = page.getByRole("main");
  await main.getByRole("link", { name: "always-429" }).click();
  await main.getByRole("heading", { name: "The quota is always used up" }).waitFor();
  assert.match(await main.getByRole("region", { name: "Text of the scenario" }).textContent(), /\[\[rule\]\]/);
  await main.getByRole("button", { name: /^Play (instead )?for all keys/ }).click();
  await main.getByRole("button", { name: "Stop for all keys" }).waitFor();
  await until(page, () => document.title.includes("always-429"));
  assert.equal(await emulator.client("/v1/system/status"), 429);
  // Its progress has a row for each key that met it.
  const met = main.getByRole("region", { name: "Progress of always-429" }).getByRole("row").filter({ hasText: "sk_test_local" });
  await met.getByText("1 time").first().waitFor();
  await main.getByRole("button", { name: "Stop for all keys" }).click();
  await main.getByRole("link", { name: "All scenarios" }).click();
  // A card plays for a key that is typed.
  const card = main.getByRole("article").filter({ hasText: "always-422" });
  await card.getByRole("combobox", { name: "Key that plays always-422" }).fill("sk_test_local");
  await card.getByRole("button", { name: /^Play/ }).click();
  await card.getByRole("button", { name: "Stop for sk_test_local" }).waitFor();
  // It has been used there.
  assert.equal(await card.getByRole("combobox", { name: "Key that plays always-422" }).inputValue(), "");
  assert.deepEqual((await emulator.control("GET", "run?limit=0")).keys.find((one) => one.key === "sk_test_local").scenarios, ["always-422"]);
  await card.getByRole("button", { name: "Stop for sk_test_local" }).click();
  await card.getByRole("button", { name: "Stop for sk_test_local" }).waitFor({ state: "detached" });
  await emulator.control("POST", "scenarios/active", { active: null, key: "sk_test_local" });
  // So does the page, for the key that a part of its name finds.
  await page.getByRole("combobox", { name: "key", exact: true }).fill("local");
  await press(page, "Enter");
  await until(page, () => location.hash.includes("key=sk_test_local"));
  await main.getByRole("link", { name: "rate-limit-burst" }).click();
  await main.getByRole("region", { name: "Text of the scenario" }).waitFor();
  await main.getByRole("button", { name: /^Play (instead )?for sk_test_local/ }).click();
  await until(page, () => document.title.includes("rate-limit-burst"));
  await emulator.control("POST", "scenarios/active", { active: null, key: "sk_test_local" });
  await emulator.control("POST", "scenarios/active", { active: ["rate-limit-burst"] });
  await verify();
}

/** The clock is frozen, moved to the next event, set running; the title follows. */
export async function time(emulator) {
  const { page, verify } = await openTab(`${emulator.page}#/time`);
  const main = page.getByRole("main");
  await main.getByRole("button", { name: "Freeze" }).click();
  await main.getByText(/^\W*frozen$/).waitFor();
  await until(page, () => document.title.includes("(frozen)"));
  await emulator.control("POST", "sink/orders", { respond: [500, 200] });
  await emulator.control("POST", "events?wait=2s", { type: "reference.matched" });
  await main.getByRole("link", { name: /attempt 2 to deliver reference.matched/ }).waitFor();
  await main.getByRole("button", { name: "To what is due next" }).click();
  await main.getByText("Nothing waits for the clock.").waitFor();
  await main.getByRole("textbox", { name: /^Advance by/ }).fill("72h");
  const before = Date.parse((await emulator.control("GET", "clock")).now);
  await main.getByRole("button", { name: "Advance 72h" }).click();
  await main.getByText(/The clock is at/).first().waitFor();
  assert.ok(Date.parse((await emulator.control("GET", "clock")).now) - before >= 72 * 3_600_000);
  await main.getByRole("button", { name: "+1 h", exact: true }).click();
  await until(page, async (from) => Date.parse((await (await fetch("clock")).json()).now) - from >= 73 * 3_600_000, before);
  assert.match(await copied(page, main, "Advance 72h: CLI"), /^wrs-emulator clock advance 72h/);
  await main.getByRole("button", { name: "Run" }).click();
  await main.getByText(/^\W*runs$/).waitFor();
  // While the clock runs, so does the page's.
  const shown = await page.locator(".now").textContent();
  await until(page, (old) => document.querySelector(".now").textContent !== old, shown);
  await until(page, () => !document.title.includes("(frozen)"));
  await verify();
}

/** Quotas of keys; a reset is asked once and empties the view. */
export async function keys(emulator) {
  await emulator.client("/v1/system/status", { headers: { authorization: "Bearer sk_test_walk" } });
  const { page, verify } = await openTab(`${emulator.page}#/keys`);
  const main = page.getByRole("main");
  const row = main.getByRole("row").filter({ hasText: "sk_test_walk" });
  await row.getByText("99 of 100").waitFor();
  // Sorted by what is clicked; the other way when it is clicked again.
  const first = () => main.getByRole("rowheader").first().textContent();
  await main.getByRole("button", { name: "Requests" }).click();
  await main.getByRole("columnheader", { name: "Requests" }).and(page.locator("[aria-sort=descending]")).waitFor();
  const busiest = await first();
  await main.getByRole("button", { name: "Requests" }).click();
  await main.getByRole("columnheader", { name: "Requests" }).and(page.locator("[aria-sort=ascending]")).waitFor();
  assert.notEqual(await first(), busiest);
  await main.getByRole("searchbox", { name: "Search" }).fill("walk");
  await main.getByText(/^1 of \d+ keys/).waitFor();
  await row.getByRole("link", { name: "sk_test_walk" }).click();
  const details = page.getByRole("region", { name: "Details" });
  await details.getByText(/^ws_/).waitFor();
  await details.getByRole("button", { name: "Reset" }).click();
  await details.getByText(/This forgets all requests.*of sk_test_walk/).waitFor();
  await details.getByRole("button", { name: "Yes, reset" }).click();
  await until(page, () => !document.querySelector("main").textContent.includes("99 of 100"));
  await visit(page, "Activity");
  await rows(page).first().waitFor();
  await until(page, () => ![...document.querySelectorAll("[role=option]")].some((row) => row.textContent.includes("GET") && row.textContent.includes("sk_test_walk")));
  await verify();
}

/** A setting is found, changed for all keys and changed back. */
export async function settings(emulator) {
  const { page, verify } = await openTab(`${emulator.page}#/settings`);
  const main = page.getByRole("main");
  await main.getByRole("searchbox", { name: "Search" }).fill("rate_limit.requests");
  await until(page, () => location.hash.includes("filter=rate_limit.requests"));
  const field = main.getByRole("spinbutton", { name: "Value of rate_limit.requests" });
  await field.fill("7");
  await main.getByRole("button", { name: "Set", exact: true }).click();
  await main.getByText(/rate_limit.requests = 7 \(was 100\)/).waitFor();
  await main.getByRole("button", { name: "Undo the change of rate_limit.requests" }).waitFor();
  await main.getByText("rate_limit.requests", { exact: true }).click();
  assert.match(await copied(page, main, "CLI"), /^wrs-emulator profile set rate_limit.requests=7/);
  // A switch and a choice change at once.
  await main.getByRole("searchbox", { name: "Search" }).fill("lenient_booleans");
  const toggle = main.getByRole("switch", { name: "Value of validation.lenient_booleans" });
  assert.equal(await toggle.isChecked(), false);
  await toggle.click();
  await main.getByText(/lenient_booleans = true/).waitFor();
  assert.equal(await toggle.isChecked(), true);
  await main.getByRole("button", { name: "Undo the change of validation.lenient_booleans" }).click();
  await until(page, () => !document.querySelector("[role=switch]").checked);
  await main.getByRole("searchbox", { name: "Search" }).fill("retry_after");
  await main.getByRole("combobox", { name: "Value of rate_limit.retry_after" }).selectOption("seconds");
  await main.getByText(/rate_limit.retry_after = .*seconds/).waitFor();
  await main.getByRole("button", { name: "Undo the change of rate_limit.retry_after" }).click();
  await until(page, () => document.querySelector("main select").value === "off");
  await main.getByRole("searchbox", { name: "Search" }).fill("changed");
  await main.getByText(/1 of \d+ settings/).waitFor();
  await main.getByRole("button", { name: "Undo the change of rate_limit.requests" }).click();
  await main.getByText(/0 of \d+ settings/).waitFor();
  await verify();
}

/** An event is triggered; wrong data is refused before it is sent; the outcome is linked. */
export async function trigger(emulator) {
  const { page, verify } = await openTab(`${emulator.page}#/trigger`);
  const main = page.getByRole("main");
  await main.getByRole("combobox", { name: "Type" }).selectOption("reference.matched");
  await main.getByRole("textbox", { name: /^Data/ }).fill("{");
  await main.getByRole("alert").waitFor();
  await main.getByRole("textbox", { name: /^Data/ }).fill('{"note":"<b>walk</b>"}');
  assert.match(await copied(page, main, "CLI"), /^wrs-emulator trigger reference.matched --key sk_test_local --data-json/);
  await main.getByRole("button", { name: "Trigger", exact: true }).click();
  await main.getByText("1 event fired").waitFor();
  await main.getByRole("link", { name: /orders.sink.localhost/ }).click();
  await page.getByRole("region", { name: "Details" }).getByText(/<b>walk<\/b>/).first().waitFor();
  // What an action led to is not said again when one comes back.
  await visit(page, "Trigger");
  await main.getByRole("button", { name: "Trigger", exact: true }).waitFor();
  assert.equal(await main.getByText("1 event fired").count(), 0);
  await verify();
}

/** Pasted headers and body are checked with a secret, in the page alone. */
export async function check(emulator) {
  const attempt = (await emulator.control("GET", `deliveries/${(await emulator.control("GET", "deliveries?type=workflow.completed&limit=50")).data.find((one) => one.url.includes("orders") && !one.damage).id}`)).attempts[0];
  const { page, verify } = await openTab(`${emulator.page}#/check`);
  const main = page.getByRole("main");
  await main.getByRole("textbox", { name: /^Headers/ }).fill(attempt.request.headers.map(([name, value]) => `${name}: ${value}`).join("\n"));
  await main.getByRole("textbox", { name: /^Body/ }).fill(attempt.request.body);
  await main.getByLabel(/^Secret/).fill(emulator.secret);
  await main.getByRole("button", { name: "Check", exact: true }).click();
  await main.getByText("The signature is right.").first().waitFor();
  await main.getByRole("textbox", { name: /^Body/ }).fill(`${attempt.request.body} `.replace("completed", "c0mpleted"));
  await main.getByRole("button", { name: "Check", exact: true }).click();
  await main.getByText("The signature is wrong.").first().waitFor();
  await main.getByRole("region", { name: "Signatures compared" }).waitFor();
  // A recent delivery fills the form, with its secret.
  await main.getByRole("combobox", { name: "Use a recent delivery" }).selectOption({ index: 1 });
  await until(page, () => document.querySelector("main input[type=password]").value.startsWith("whsec_"));
  await verify();
}

/** The summary leads to its evidence. */
export async function summary(emulator) {
  const { page, verify } = await openTab(`${emulator.page}#/summary`, { expected: [/404/] });
  const main = page.getByRole("main");
  // A report that is saved now begins with the same sentence.
  const { verification } = await emulator.control("GET", "run");
  await main.getByText(verification.headline.sentence, { exact: true }).waitFor();
  // A number filters; what went wrong is grouped by cause, with its first and last.
  await main.getByRole("link", { name: /refused · / }).click();
  await rows(page).filter({ hasText: "statuss" }).first().waitFor();
  await page.goBack();
  await main.getByRole("img", { name: /^Timeline: \d+ marks/ }).waitFor();
  const cause = main.getByRole("article").filter({ hasText: "GET /v1/system/statuss: no endpoint" });
  await cause.locator("summary").first().click();
  await cause.getByRole("link", { name: /req_/ }).first().click();
  await page.getByRole("region", { name: "Details" }).getByText(/no endpoint/).first().waitFor();
  // Of a key that is chosen, it has what that key did.
  await emulator.client("/v1/system/status", { headers: { authorization: "Bearer sk_test_once" } });
  await page.goto(`${emulator.page}#/summary`);
  await main.getByRole("article").filter({ hasText: "statuss: no endpoint" }).waitFor();
  await page.getByRole("combobox", { name: "key", exact: true }).fill("sk_test_once");
  await main.getByRole("list", { name: "Numbers" }).getByRole("link", { name: "1 request", exact: true }).waitFor();
  await main.getByRole("img", { name: /^Timeline: 1 mark / }).waitFor();
  assert.equal(await main.getByText("statuss: no endpoint").count(), 0);
  await page.goto(`${emulator.page}#/summary?key=wrong`);
  await main.getByText(/is not an API key/).waitFor();
  await emulator.control("POST", "reset", { key: "sk_test_once" });
  await verify();
}

/** From a request: the same answer next time, and the request as a test. */
export async function again(emulator) {
  const { page, verify } = await openTab(emulator.page);
  await emulator.client("/v1/hello?again");
  await rows(page).filter({ hasText: "/v1/hello?again" }).first().click();
  const details = page.getByRole("region", { name: "Details" });
  await details.getByRole("combobox", { name: "Status" }).selectOption("429");
  await details.getByRole("button", { name: "Save as a scenario and activate it" }).click();
  await details.getByRole("region", { name: "The scenario" }).getByText(/rate_limit_exceeded/).waitFor();
  assert.deepEqual([await emulator.client("/v1/hello?again"), await emulator.client("/v1/hello?again")], [429, 200]);
  assert.match(await copied(page, details, "Test: pytest"), /def test_get_hello\(wrs\)/);
  await emulator.control("POST", "scenarios/active", { active: ["rate-limit-burst"] });
  await emulator.control("POST", "scenarios/active", { active: null, key: "sk_test_local" });
  await emulator.control("DELETE", "scenarios/again-429-hello");
  await verify();
}

/** The review: ready or not and why, a finding with its evidence and by its address, filters in the address, news. */
export async function review(emulator) {
  const { page, verify } = await openTab(emulator.page);
  const main = page.getByRole("main");
  await rows(page).first().waitFor();
  await press(page, "r");
  await main.getByText(/^\W*\d+ findings? to fix(\. The worst)?: /).waitFor();
  const finding = main.getByRole("article").filter({ hasText: "A request matches no endpoint" });
  assert.doesNotMatch(await main.textContent(), /`/, "quoted text is shown as code");
  for (const word of ["medium", "certain"]) await finding.getByText(word, { exact: true }).waitFor();
  await main.getByText(/^\d+ of \d+ checks had something to judge; \d+ of them found nothing\.$/).waitFor();
  await finding.locator("summary").click();
  for (const part of [/^It does nothing/, /^Correct the path/, /^Endpoints; Versioning/]) await finding.getByText(part).waitFor();
  await finding.getByRole("link", { name: "wrong-path" }).click();
  await until(page, () => location.hash === "#/review/wrong-path" && document.querySelectorAll("main article").length === 1);
  await main.getByRole("list", { name: "Seen for wrong-path" }).getByRole("link").first().click();
  await page.getByRole("region", { name: "Details" }).getByText(/no endpoint/).first().waitFor();
  await page.goBack();
  await main.getByRole("link", { name: "The whole review" }).click();
  // What had nothing to judge comes with what gives it something; one of another key is news.
  await main.getByRole("heading", { name: "Not tested yet" }).waitFor();
  await main.getByText(/^wrs-emulator trigger workflow.completed --tamper timestamp/).first().waitFor({ state: "attached" });
  await main.getByRole("heading", { name: "Not visible in traffic" }).waitFor();
  assert.equal(await main.getByRole("link", { name: "live-key-in-the-sandbox" }).locator("xpath=ancestor::article").count(), 0);
  await emulator.client("/v1/system/status", { headers: { authorization: "Bearer sk_live_abcdefgh1234" } });
  await main.getByRole("article").filter({ hasText: "A live key is sent to the sandbox" }).waitFor();
  await page.getByRole("combobox", { name: "key", exact: true }).fill("sk_test_local");
  await main.getByText(/^wrs-emulator review findings --key sk_test_local/).waitFor();
  await page.goto(`${emulator.page}#/review/no-such-finding`);
  await main.getByText(/is not among the findings/).waitFor();
  await verify();
}

/** Addresses name the view, and back and forward walk through it. */
export async function history(emulator) {
  const id = (await emulator.control("GET", "requests?status=404&limit=1")).data[0].id;
  const { page, verify } = await openTab(`${emulator.page}#/requests/${id}?filter=404&key=sk_test_local`, { expected: [/404/] });
  const details = page.getByRole("region", { name: "Details" });
  await details.getByRole("heading", { name: /statuss/ }).waitFor();
  assert.equal(await page.getByRole("combobox", { name: "Filter" }).inputValue(), "404");
  assert.equal(await page.getByRole("combobox", { name: "key", exact: true }).inputValue(), "sk_test_local");
  await visit(page, "Scenarios");
  await page.getByRole("link", { name: "always-401" }).click();
  await page.goBack();
  await page.getByRole("link", { name: "always-401" }).waitFor();
  await page.goBack();
  await details.getByRole("heading", { name: /statuss/ }).waitFor();
  await page.goForward();
  await page.goForward();
  await page.getByRole("heading", { name: "The key is never accepted" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "The key is never accepted" }).waitFor();
  await page.goto(`${emulator.page}#/requests/req_unknown`);
  await details.getByText(/no request `req_unknown`/).waitFor();
  await verify();
}

/** Each task with the keyboard alone. */
export async function keyboard(emulator) {
  const { page, verify } = await openTab(emulator.page);
  const details = page.getByRole("region", { name: "Details" });
  await rows(page).first().waitFor();
  await press(page, "/");
  await page.keyboard.type("404");
  await until(page, () => [...document.querySelectorAll("[role=option]")].every((row) => row.textContent.includes("404")));
  await press(page, "Enter");
  assert.ok(await page.getByRole("listbox").evaluate((node) => node === document.activeElement), "Enter goes from the filter to the list");
  await press(page, "j", "Enter");
  await details.getByRole("heading", { name: /statuss/ }).waitFor();
  await tabTo(page, details.getByRole("button", { name: "Copy as…" }));
  await press(page, "Enter");
  await tabTo(page, details.getByRole("button", { name: "curl", exact: true }));
  await press(page, "Enter");
  await page.getByRole("status").getByText("Copied: curl").waitFor();
  await press(page, "Escape");
  await details.waitFor({ state: "detached" });
  assert.ok(await page.getByRole("listbox").evaluate((node) => node === document.activeElement), "Esc goes back to the list");
  // j and k go on in the pane.
  await page.getByRole("combobox", { name: "Filter" }).fill("path:include_checks");
  await until(page, () => [...document.querySelectorAll("[role=option]")].every((row) => row.textContent.includes("include_ch")));
  await press(page, "Escape", "j", "Enter");
  await details.getByRole("heading", { name: "GET /v1/system/status?include_checks=true" }).waitFor();
  const opened = new URL(page.url()).hash;
  await until(page, () => document.activeElement.id === "pane");
  await press(page, "j");
  await until(page, (old) => location.hash !== old && document.activeElement.id === "pane", opened);
  await press(page, "k");
  await until(page, (old) => location.hash === old, opened);
  await press(page, "Escape");
  await details.waitFor({ state: "detached" });
  await page.getByRole("combobox", { name: "Filter" }).fill("");
  await press(page, "Escape", "p");
  await page.getByRole("button", { name: /^Paused/ }).waitFor();
  await press(page, "p", "?");
  await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
  await press(page, "Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  await press(page, "t");
  await tabTo(page, page.getByRole("button", { name: "Trigger", exact: true }));
  await press(page, "Enter");
  await page.getByText("1 event fired").waitFor();
  await press(page, "r");
  await tabTo(page, page.locator("summary[data-id=wrong-path]"));
  await press(page, "Enter");
  await tabTo(page, page.getByRole("list", { name: "Seen for wrong-path" }).getByRole("link").first());
  await press(page, "Enter");
  await details.getByText(/no endpoint/).first().waitFor();
  await press(page, "Escape");
  const nav = async (name) => {
    await tabTo(page, page.getByRole("navigation").getByRole("link", { name }));
    await press(page, "Enter");
    await until(page, (view) => document.querySelector("nav [aria-current]")?.textContent.includes(view), name);
  };
  await nav("Time");
  await tabTo(page, page.getByRole("button", { name: "Freeze" }));
  await press(page, "Enter");
  await page.getByRole("main").getByText(/^\W*frozen$/).waitFor();
  await tabTo(page, page.getByRole("button", { name: "Run" }));
  await press(page, "Enter");
  await page.getByRole("button", { name: "Freeze" }).waitFor();
  await nav("Keys");
  // j and k walk through tables too, and Enter opens.
  await page.getByRole("main").getByRole("rowheader").first().waitFor();
  await press(page, "j", "j", "k", "Enter");
  await details.getByText(/^ws_/).waitFor();
  await tabTo(page, page.getByRole("button", { name: "Reset", exact: true }));
  await press(page, "Enter");
  await tabTo(page, page.getByRole("button", { name: "Cancel" }));
  await press(page, "Enter", "Escape");
  await details.waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement.className), "go", "Esc goes back to the row");
  await nav("Scenarios");
  await tabTo(page, page.getByRole("link", { name: "slow-responses" }));
  await press(page, "Enter");
  await tabTo(page, page.getByRole("button", { name: "Add after rate-limit-burst" }));
  await press(page, "Enter");
  await until(page, () => document.title.includes("slow-responses"));
  await tabTo(page, page.getByRole("button", { name: "Stop for all keys" }));
  await press(page, "Enter");
  await until(page, () => !document.title.includes("slow-responses"));
  await nav("Settings");
  await page.getByRole("searchbox", { name: "Search" }).waitFor();
  await press(page, "/");
  await page.keyboard.type("time.precision");
  await tabTo(page, page.getByRole("combobox", { name: "Value of time.precision" }));
  await page.keyboard.type("seconds");
  await page.getByText(/time.precision = .*was/).last().waitFor();
  await press(page, "Control+k");
  await page.getByRole("dialog", { name: "Go to or do" }).waitFor();
  await page.keyboard.type("always 429");
  await press(page, "Enter");
  await page.getByRole("heading", { name: "The quota is always used up" }).waitFor();
  await until(page, () => location.hash.startsWith("#/scenarios/always-429"));
  await emulator.control("PATCH", "profile", { "time.precision": null });
  await verify();
}

/** New rows wait behind a button while something is read, and behind a count while the list is paused. */
export async function pause(emulator) {
  const { page, verify } = await openTab(emulator.page);
  await rows(page).first().waitFor();
  await rows(page).first().click();
  const first = await rows(page).first().textContent();
  for (let i = 0; i < 3; i++) await emulator.client("/v1/hello");
  await page.getByRole("button", { name: "3 new" }).waitFor();
  assert.equal(await rows(page).first().textContent(), first, "rows in view stay where they are");
  await page.getByRole("button", { name: "3 new" }).click();
  await until(page, () => document.querySelector("[role=option]").textContent.includes("/v1/hello"));
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "Pause" }).click();
  for (let i = 0; i < 2; i++) await emulator.client("/v1/hello?paused");
  await page.getByRole("button", { name: "Paused · 2 new" }).click();
  await until(page, () => document.querySelector("[role=option]").textContent.includes("paused"));
  await verify();
}

/** The link saves an OpenAPI document with this path. */
async function saves(page, name, path) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name }).click()]);
  assert.ok(JSON.parse(readFileSync(await download.path(), "utf8")).paths[path], name);
}

/** An empty emulator says what to do first. */
export async function empty() {
  const emulator = await Emulator.start();
  const { page, verify } = await openTab(emulator.page);
  await page.getByRole("heading", { name: "An emulator of the Workflow Reference Service API" }).waitFor();
  await page.getByText(`curl -s -g -H 'Authorization: Bearer sk_test_local' ${emulator.url}/v1/system/status`).waitFor();
  await page.getByRole("button", { name: "Send a test request" }).waitFor();
  await page.getByRole("button", { name: "Python" }).click();
  await page.getByText(/^import urllib.request/).waitFor();
  await page.getByText(/^wrs-emulator listen --forward-to localhost:3000/).waitFor();
  await page.getByRole("link", { name: "Documentation" }).click();
  await page.getByRole("link", { name: "testing" }).first().click();
  await page.getByText(/pytest/).first().waitFor();
  await page.goBack();
  await page.goBack();
  await saves(page, "the emulated API", "/v1/system/status");
  await saves(page, "the control API", "/_emulator/health");
  await visit(page, "Subscriptions");
  await page.getByText(/No subscription. Create one/).waitFor();
  await visit(page, "Deliveries");
  await page.getByText(/No deliveries yet/).waitFor();
  await visit(page, "Keys");
  await page.getByText(/No key was used yet/).waitFor();
  // The counter of failed tests leads to their keys.
  for (const [key, outcome] of [["sk_test_red", "failed"], ["sk_test_green", "passed"]]) await emulator.control("POST", "outcome", { key, test: `of ${key}`, outcome });
  await page.reload();
  await visit(page, "Summary");
  await page.getByText("1 problem", { exact: true }).waitFor();
  await page.getByRole("article").getByText("of sk_test_red").waitFor();
  await page.getByRole("link", { name: "2 tests · 1 failed" }).click();
  await page.getByText("1 of 2 keys").waitFor();
  assert.equal(await page.getByRole("rowheader").count(), 1);
  await visit(page, "Review");
  await page.getByText(/^\W*Not tested: no requests/).waitFor();
  await page.getByText(`curl -s -g -H 'Authorization: Bearer sk_test_local' ${emulator.url}/v1/system/status`).waitFor();
  await visit(page, "Trigger");
  await page.getByText("Choose the key whose subscriptions get the event.").waitFor();
  await page.getByRole("main").getByRole("combobox", { name: "Key" }).fill("sk_test_red");
  await page.getByText(/the event would go nowhere/).waitFor();
  assert.equal(await page.getByRole("button", { name: "Trigger", exact: true }).count(), 0);
  await page.getByRole("button", { name: "Subscribe", exact: true }).click();
  await page.getByText(/the event would go nowhere/).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Trigger", exact: true }).click();
  await page.getByText("1 event fired").waitFor();
  await page.getByRole("main").getByRole("listitem").filter({ hasText: "demo.sink.localhost" }).getByText("200").waitFor();
  await verify();
  await emulator.stop();
}

/** A test request is sent from the first look, and shown; it leaves nothing for the review to find. */
export async function testRequest() {
  // A warning about a file that is no scenario does not hide how to begin.
  const folder = mkdtempSync(join(tmpdir(), "page-stray-"));
  writeFileSync(join(folder, "stray.yaml"), "a: 1\n");
  const emulator = await Emulator.start("--scenarios", folder);
  const { page, verify } = await openTab(emulator.page);
  await page.getByRole("button", { name: "Send a test request" }).click();
  await rows(page).filter({ hasText: "GET /v1/hello" }).waitFor();
  assert.deepEqual((await emulator.control("GET", "findings")).data, []);
  // What a runner reports is on the page soon, although nothing else happens.
  await visit(page, "Summary");
  await emulator.control("POST", "outcome", { key: "sk_test_red", test: "of red", outcome: "failed", message: "assert 1 == 2" });
  await page.getByRole("main").getByText("the test made no request with its key").first().waitFor();
  await verify();
  await emulator.stop();
  rmSync(folder, { recursive: true });
}

/** A scenario is written on the page: problems show as one types, and a valid text is kept. */
export async function writeScenario() {
  const emulator = await Emulator.start();
  const { page, verify } = await openTab(`${emulator.page}#/scenarios`, { expected: [/422/] });
  const main = page.getByRole("main");
  await main.getByRole("button", { name: "New scenario" }).click();
  await main.getByRole("textbox", { name: "Name" }).fill("mine");
  await main.getByText("Valid.", { exact: true }).waitFor();
  await main.getByRole("textbox", { name: "Text" }).fill('[[rule]]\nreply = { statu = 500 }\n');
  await main.getByText(/statu/).last().waitFor();
  await main.getByText(/line 2, column/).waitFor();
  // What cannot be pressed looks so, and not only the primary button.
  const looks = () => main.getByRole("button", { name: "Save", exact: true }).evaluate((node) => ["backgroundColor", "color"].map((name) => getComputedStyle(node)[name]));
  const disabled = await looks();
  await main.getByRole("textbox", { name: "Text" }).fill('title = "Mine"\n\n[[rule]]\nreply = { status = 503 }\n');
  await main.getByText("Valid.", { exact: true }).waitFor();
  const enabled = await looks();
  assert.ok(disabled.every((value, i) => value !== enabled[i]), String([disabled, enabled]));
  // A click in the middle of a line puts the cursor there.
  const line = await main.locator("pre.source > span").nth(2).boundingBox();
  const parts = await main.locator("pre.source b").first().boundingBox();
  await page.mouse.click(line.x + parts.width / "title".length * 4, line.y + line.height / 2);
  await page.keyboard.type("X");
  assert.match(await main.getByRole("textbox", { name: "Text" }).inputValue(), /^\[\[ruXle\]\]$/m);
  await page.keyboard.press("Backspace");
  await main.getByText("Valid.", { exact: true }).waitFor();
  const [language] = await Promise.all([page.waitForEvent("popup"), main.getByRole("link", { name: "The language of scenarios" }).click()]);
  await language.getByRole("heading", { level: 1 }).waitFor();
  await language.close();
  // Typing changed nothing at the emulator.
  assert.ok(!(await emulator.control("GET", "scenarios")).data.some((one) => one.name === "mine"));
  // The text of a shipped one is a beginning.
  await main.getByRole("combobox", { name: "Start from…" }).selectOption("always-401");
  await main.locator("pre.source").getByText("The key is never accepted").first().waitFor();
  await main.getByText("Valid.", { exact: true }).waitFor();
  assert.match(await main.getByRole("textbox", { name: "Text" }).inputValue(), /The key is never accepted/);
  await main.getByRole("textbox", { name: "Text" }).fill('title = "Mine"\n\n[[rule]]\nreply = { status = 503 }\n');
  await main.getByRole("button", { name: "Save and play" }).click();
  await main.getByText(/^It ends with the emulator/).waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), main.getByRole("button", { name: "Save mine.toml" }).click()]);
  assert.match(readFileSync(await download.path(), "utf8"), /status = 503/);
  await main.getByRole("button", { name: "Stop for all keys" }).waitFor();
  assert.equal(await emulator.client("/v1/system/status"), 503);
  await verify();
  await emulator.stop();
}

/** A record opened by its link is in view, on a narrow screen once it is closed; the timeline shows what the filter leaves. */
export async function linked() {
  const emulator = await Emulator.start();
  for (let i = 0; i < 200; i++) await emulator.client(`/v1/hello?n=${i}`);
  await emulator.client("/v1/nothing");
  const { id } = (await emulator.control("GET", "requests?key=*&limit=300")).data.find((one) => one.query === "n=40");
  for (let i = 0; i < 30; i++) await emulator.control("POST", "subscriptions", { key: "sk_test_local", url: `https://s${i}.sink.localhost/h`, events: ["workflow.completed"] });
  const subscriptions = (await emulator.control("GET", "subscriptions?key=*")).data;
  for (const [width, height] of [[1440, 900], [390, 844]]) {
    const { page, verify } = await openTab(`${emulator.page}#/requests/${id}`, { width, height });
    const details = page.getByRole("region", { name: "Details" });
    await details.getByRole("heading", { name: "GET /v1/hello?n=40" }).waitFor();
    if (width < 900) await page.getByRole("button", { name: "Close" }).click();
    await until(page, () => {
      const [row, list] = [document.querySelector(".row.active"), document.querySelector(".list")].map((node) => node?.getBoundingClientRect());
      return row && row.top >= list.top && row.bottom <= list.bottom && document.querySelector(".row.active").textContent.includes("n=40");
    });
    await page.goto(`${emulator.page}#/activity?filter=404`);
    await page.getByRole("img", { name: /^Timeline: 1 mark / }).waitFor();
    await verify();
    // Views that are no lists scroll to what is chosen as well.
    for (const place of ["settings/variation.header_names", ...(width < 900 ? [] : [`subscriptions/${subscriptions.at(-1).id}`])]) {
      const tab = await openTab(`${emulator.page}#/${place}`, { width, height });
      await until(tab.page, () => {
        const box = document.querySelector("#main .chosen")?.getBoundingClientRect();
        return box && box.top >= 0 && box.top < innerHeight;
      });
      await tab.verify();
    }
  }
  await emulator.stop();
}

/** The palette acts: the clock, a scenario, the report as a file that shows itself. */
export async function acted(emulator) {
  const { page, verify } = await openTab(emulator.page);
  await rows(page).first().waitFor();
  const act = async (words) => {
    await press(page, "Control+k");
    await page.getByRole("dialog", { name: "Go to or do" }).waitFor();
    await page.keyboard.type(words);
    await press(page, "Enter");
  };
  const before = Date.parse((await emulator.control("GET", "clock")).now);
  await act("advance 1 min");
  await page.getByRole("status").getByText(/^Advance the clock by 1 min/).waitFor();
  assert.ok(Date.parse((await emulator.control("GET", "clock")).now) - before >= 60_000);
  await act("play always-429");
  await until(page, () => document.title.includes("always-429"));
  await emulator.client("/v1/system/status?palette");
  // What to do about a scenario's answer is a button.
  await rows(page).filter({ hasText: "palette" }).first().click();
  const details = page.getByRole("region", { name: "Details" });
  await details.getByRole("button", { name: "Turn always-429 off for all keys" }).click();
  await details.getByText(/the scenario is no longer active/).waitFor();
  assert.equal(await emulator.client("/v1/system/status"), 200);
  await emulator.control("POST", "scenarios/active", { active: ["rate-limit-burst"] });
  const [download] = await Promise.all([page.waitForEvent("download"), act("save the report")]);
  assert.equal(download.suggestedFilename(), "report.html");
  const saved = readFileSync(await download.path(), "utf8");
  assert.match(saved, /id="run"/);
  await visit(page, "Summary");
  await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save the report" }).click()]);
  await verify();
}

/** What became of a triggered event follows its attempts, without anything else happening. */
export async function followed(emulator) {
  await emulator.control("POST", "sink/orders", { respond: [500, 200] });
  const { page, verify } = await openTab(`${emulator.page}#/trigger`);
  const main = page.getByRole("main");
  await main.getByRole("combobox", { name: "Type" }).selectOption("reference.matched");
  await main.getByRole("button", { name: "Trigger", exact: true }).click();
  const line = main.getByRole("listitem").filter({ hasText: "orders.sink.localhost" });
  await line.getByText("500").first().waitFor();
  await emulator.control("POST", "clock", { advance: "1h" });
  await line.getByText(/^\W*200$/).waitFor();
  await line.getByRole("link").click();
  for (const name of [/^Attempt 1/, /^Attempt 2/]) await page.getByRole("region", { name: "Details" }).getByRole("heading", { name }).waitFor();
  await verify();
}

/** A drag over the timeline filters by time, a click opens. */
export async function brushed(emulator) {
  const { page, verify } = await openTab(emulator.page);
  await rows(page).first().waitFor();
  const drawing = page.getByRole("img", { name: /^Timeline: / });
  const box = await drawing.boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 8);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 8, { steps: 4 });
  await page.mouse.up();
  await until(page, () => /since%3A.*until%3A/.test(location.hash));
  await page.getByRole("combobox", { name: "Filter" }).fill("");
  await drawing.locator(".mark").first().dispatchEvent("click");
  await page.getByRole("region", { name: "Details" }).getByRole("heading").first().waitFor();
  await verify();
}

/** With a control token the page asks once, keeps it in memory and never writes it anywhere. */
export async function token() {
  const emulator = await Emulator.start("--control-token", "walk-token-1");
  await emulator.client("/v1/hello");
  const { page, context, verify } = await openTab(emulator.page, { expected: [/401/] });
  await page.getByRole("heading", { name: "Control token" }).waitFor();
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Show the page" }).click();
  await page.getByRole("alert").getByText(/refused/).waitFor();
  await page.getByLabel("Token").fill("walk-token-1");
  await press(page, "Enter");
  await rows(page).filter({ hasText: "/v1/hello" }).first().waitFor();
  await emulator.client("/v1/hello?second");
  await rows(page).filter({ hasText: "second" }).first().waitFor();
  await press(page, "t");
  await visit(page, "Subscriptions");
  assert.match(await copied(page, page.getByRole("main"), "curl"), /\$WRS_EMULATOR_CONTROL_TOKEN.*"url":"https:\/\/demo.sink.localhost/);
  await visit(page, "Settings");
  await saves(page, "the emulated API", "/v1/system/status");
  assert.equal(await page.evaluate(() => `${document.documentElement.outerHTML}${location.href}${JSON.stringify(localStorage)}${JSON.stringify(sessionStorage)}${document.cookie}`.includes("walk-token-1")), false);
  assert.deepEqual((await context.storageState()).origins, []);
  await page.reload();
  await page.getByRole("heading", { name: "Control token" }).waitFor();
  await verify();
  await emulator.stop();
}

/** The page resumes after a break without losing or repeating a row. */
export async function resume(emulator) {
  const between = await gate(emulator);
  const { page, verify } = await openTab(between.address, { expected: [/Failed to load resource/] });
  await rows(page).first().waitFor();
  await page.getByText(/^\W*live$/).waitFor();
  await emulator.client("/v1/hello?break-before");
  await rows(page).filter({ hasText: "break-before" }).waitFor();
  between.break(true);
  await page.getByText(/^\W*connection lost$/).waitFor();
  for (let i = 0; i < 5; i++) await emulator.client(`/v1/hello?break-${i}`);
  between.break(false);
  await page.getByText(/^\W*live$/).waitFor();
  await page.getByRole("combobox", { name: "Filter" }).fill("path:break-");
  await until(page, () => document.querySelectorAll("[role=option]").length === 6);
  assert.ok(between.state.streams >= 2);
  await verify();
  between.close();
}

/** After a restart the page says so and shows the new run. */
export async function restart() {
  const first = await Emulator.start();
  await first.client("/v1/hello?old");
  await first.client("/v1/system/status");
  const { page, verify } = await openTab(first.page, { expected: [/Failed to load resource/] });
  await rows(page).filter({ hasText: "old" }).waitFor();
  await page.getByText(/^\W*live$/).waitFor();
  await first.stop();
  await page.getByText(/^\W*connection lost$/).waitFor();
  const second = await Emulator.start("--listen", new URL(first.url).host);
  assert.equal(second.url, first.url);
  await page.getByText(/The emulator was restarted/).first().waitFor();
  await second.client("/v1/hello?new");
  await until(page, () => !document.querySelector("#keys option[value=sk_test_local]"));
  await second.client("/v1/system/status", { headers: { authorization: "Bearer sk_test_after" } });
  await until(page, () => [...document.querySelectorAll("#keys option")].map((one) => one.value).join() === "sk_test_after");
  await rows(page).filter({ hasText: "new" }).waitFor();
  assert.equal(await rows(page).filter({ hasText: "old" }).count(), 0);
  await page.getByRole("button", { name: "OK", exact: true }).click();
  await verify();
  await second.stop();
}

/** A scenario whose file was broken shows the problem and its line; its last good version stays. */
export async function brokenScenario() {
  const folder = mkdtempSync(join(tmpdir(), "page-scenarios-"));
  const file = join(folder, "mine.toml");
  const rules = ["a rule whose name is long", "another one with a long name", "and a third rule, of which nothing is met"].map((name) => `\n[[rule]]\nname = "${name}"\nwhen = { operation = "hello" }\nreply = { status = 500 }\n`).join("");
  const text = (status) => `title = "mine"\n\n[[rule]]\nwhen = { operation = "hello" }\nreply = { status = ${status} }\n${rules}`;
  writeFileSync(file, text("500"));
  const emulator = await Emulator.start("--scenarios", folder, "--scenario", "mine");
  await emulator.client("/v1/hello");
  const { page, verify } = await openTab(`${emulator.page}#/scenarios`);
  const main = page.getByRole("main");
  await main.getByRole("link", { name: "mine" }).waitFor();
  writeFileSync(file, text("1000000"));
  await main.getByText(/^\W*broken$/).waitFor();
  await main.getByRole("link", { name: "mine" }).click();
  await main.getByText(/line 5, column/).first().waitFor();
  await main.getByText(/^wrs-emulator check .*mine\.toml lists all that is wrong; the last good version, shown here, is still playing\.$/).waitFor();
  const [left, right] = await main.locator(".halves > *").all();
  const { x: edge } = await right.boundingBox();
  const over = await left.locator("*").evaluateAll((all, most) => all.filter((node) => !node.closest(".scroll *, svg") && node.getBoundingClientRect().right > most).map((node) => node.outerHTML.slice(0, 80)), edge);
  assert.deepEqual(over, [], "parts lie over the text");
  writeFileSync(file, text("501"));
  await until(page, () => !document.querySelector("main").textContent.includes("broken"));
  await main.getByText(/^This is a file: edit /).waitFor();
  // One that was deleted plays on until it is stopped.
  rmSync(file);
  await main.getByText(/^The file .*mine\.toml was deleted; the last good version, shown here, is still playing\. To keep it, save it in /).waitFor();
  assert.equal(await main.getByText(/^This is a file: edit /).count(), 0);
  const [download] = await Promise.all([page.waitForEvent("download"), main.getByRole("button", { name: "Save mine.toml" }).click()]);
  assert.match(readFileSync(await download.path(), "utf8"), /status = 501/);
  await main.getByRole("button", { name: "Stop for all keys" }).click();
  await main.getByText(/last good version, shown here, is not playing\./).waitFor();
  await verify();
  await emulator.stop();
  rmSync(folder, { recursive: true });
}

/** What a change for all keys leaves alone is named, and follows on demand. */
export async function ownLists() {
  const emulator = await Emulator.start();
  const keys = ["sk_test_a", "sk_test_b"];
  for (const key of keys) await emulator.control("POST", "scenarios/active", { active: ["always-429"], key });
  await emulator.control("PUT", "scenarios/third", { rule: [{ skip: 2, reply: { status: 503 } }] });
  await emulator.control("POST", "scenarios/active", { active: ["third"] });
  await emulator.client("/v1/system/status");
  const { page, verify } = await openTab(`${emulator.page}#/scenarios`);
  const main = page.getByRole("main");
  const card = main.getByRole("article").filter({ hasText: "third" });
  // A request that a rule skipped did match.
  await card.getByText("None of its rules has applied yet.").waitFor();
  await main.getByRole("button", { name: "Turn all off" }).click();
  const left = main.getByText("Off for all keys except those with their own list: sk_test_a, sk_test_b.");
  await left.first().waitFor();
  await main.getByRole("button", { name: "Let these follow" }).click();
  await until(page, () => !document.querySelector("main").textContent.includes("except those"));
  await main.getByRole("heading", { name: "Playing" }).waitFor({ state: "detached" });
  assert.deepEqual((await emulator.control("GET", "scenarios")).active_by_key, []);
  await page.goto(`${emulator.page}#/scenarios/nothing`);
  await main.getByText("There is no scenario nothing. If its file was deleted, it no longer plays.").waitFor();
  await verify();
  await emulator.stop();
}

/** Tests of one name in two files have lanes of their own, which name the files. */
export async function lanes() {
  const emulator = await Emulator.start();
  const files = { sk_test_a: "tests/orders/test_api.py", sk_test_b: "tests/bills/test_api.py" };
  for (const [key, file] of Object.entries(files)) {
    await emulator.control("POST", "outcome", { key, test: `${file}::test_refund`, outcome: "passed" });
    await emulator.client("/v1/hello", { headers: { authorization: `Bearer ${key}` } });
    await emulator.client("/v1/system/status", { headers: { authorization: `Bearer ${key}` } });
  }
  const { page, verify } = await openTab(emulator.page);
  const names = () => page.locator("svg.lanes text title").allTextContents();
  for (const view of ["activity", "summary"]) {
    await page.goto(`${emulator.page}#/${view}`);
    await page.getByRole("img", { name: /^Timeline: / }).waitFor();
    await until(page, () => document.querySelectorAll("svg.lanes text title").length === 2);
    assert.deepEqual(await names(), ["bills/test_api.py::test_refund", "orders/test_api.py::test_refund"], view);
  }
  await verify();
  await emulator.stop();
}

/** Below a path of another server. */
export async function belowPath(emulator) {
  const between = await nginx(emulator, "/tools/emu");
  const { page, verify } = await openTab(between.address);
  await rows(page).first().waitFor();
  await emulator.client("/v1/hello?below");
  await rows(page).filter({ hasText: "below" }).first().click();
  await page.getByRole("region", { name: "Details" }).getByText(/^Checks: /).waitFor();
  await visit(page, "Trigger");
  await page.getByRole("button", { name: "Trigger", exact: true }).click();
  await page.getByText("1 event fired").waitFor();
  await verify();
  await between.close();
}
