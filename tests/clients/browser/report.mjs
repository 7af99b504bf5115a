// The report: one file, opened from disk without a network; the same document served by `run view`.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

import { objections } from "./access.mjs";
import { STRINGS, lookAround, poison } from "./hostile.mjs";
import { Emulator, binary, openTab, rows, visit } from "./site.mjs";

/** Runs with a folder for files that is removed afterwards. */
async function withFolder(use) {
  const folder = mkdtempSync(join(tmpdir(), "page-report-"));
  try { return await use(folder); } finally { rmSync(folder, { recursive: true }); }
}

const save = (emulator, file) => execFileSync(binary, ["run", "save", file, "--url", emulator.url]);

/** A reader's walk: the sentence, a problem, its evidence, the timeline, settings, print. */
async function walk(tab) {
  const { page } = tab;
  const main = page.getByRole("main");
  await main.getByRole("heading", { name: "Report" }).waitFor();
  await main.getByRole("list", { name: "Numbers" }).getByRole("link").nth(3).waitFor();
  await main.getByRole("img", { name: /^Timeline: \d+ marks/ }).waitFor();
  await main.getByText("rate-limit-burst").first().waitFor();
  const cause = main.getByRole("article").filter({ hasText: "GET /v1/system/statuss: no endpoint" });
  await cause.locator("summary").first().click();
  await cause.getByRole("link", { name: /req_/ }).first().click();
  const details = page.getByRole("region", { name: "Details" });
  await details.getByText(/no endpoint/).first().waitFor();
  await details.getByText(/^Checks: \d+ passed/).waitFor();
  await page.goBack();
  await main.getByRole("heading", { name: "Report" }).waitFor();
  // The review, from the summary: ready or not, a finding, its evidence.
  await main.getByRole("link", { name: "The review" }).click();
  await main.getByText(/^\W*\d+ findings? to fix/).waitFor();
  await main.getByRole("heading", { name: "Not tested yet" }).waitFor();
  assert.deepEqual(await objections(page), []);
  await main.locator("summary[data-id=wrong-path]").click();
  await main.getByRole("list", { name: "Seen for wrong-path" }).getByRole("link").first().click();
  await details.getByText(/no endpoint/).first().waitFor();
  await page.getByRole("navigation").getByRole("link", { name: "Deliveries" }).click();
  await rows(page).filter({ hasText: "forgery" }).first().click();
  await details.getByRole("region", { name: "Signed content, in its parts" }).first().waitFor();
  // A report acts on nothing.
  for (const name of ["Send it again", "Pause", "Reset", "Freeze", "Play for all keys"]) assert.equal(await page.getByRole("button", { name }).count(), 0, name);
  for (const view of ["keys", "time", "settings/rate_limit.requests?filter=rate_limit", "scenarios/rate-limit-burst", "subscriptions"]) {
    await visit(page, view);
    assert.equal(await page.getByRole("main").getByRole("button", { name: /^(Set|Undo|Trigger|Play|Rotate)/ }).count(), 0, view);
    assert.ok((await main.textContent()).length > 60, view);
  }
  await page.evaluate(() => { location.hash = "#/summary"; });
  await main.getByRole("heading", { name: "Report" }).waitFor();
  assert.deepEqual(await objections(page), []);
}

/** From disk, with no network. */
export async function report(emulator) {
  return withFolder(async (folder) => {
    const file = join(folder, "report.html");
    save(emulator, file);
    for (const options of [{ colorScheme: "light" }, { colorScheme: "dark" }, { width: 390, height: 844 }]) {
      const tab = await openTab(pathToFileURL(file).href, { offline: true, ...options });
      if (options.width) assert.deepEqual(await objections(tab.page), []);
      else await walk(tab);
      assert.equal(await tab.page.locator("#plain").count(), 0, "with scripts there is the page alone");
      const pdf = await tab.page.pdf();
      assert.ok(pdf.length > 10_000);
      await tab.verify();
    }
    const text = readFileSync(file, "utf8");
    const data = /<script type="application\/json" id="run">(.*?)<\/script>/s.exec(text)[1];
    const page = Buffer.byteLength(text) - Buffer.byteLength(data);
    // With what it says without scripts, beside the page of tests/it/run.rs.
    assert.ok(page <= 255 * 1024, `${page} bytes without the data`);
    return `${statSync(file).size} bytes, ${page} without the data`;
  });
}

/** Policies under which CI systems show files of a build: without scripts the report still says what failed. */
const POLICIES = ["sandbox allow-same-origin; default-src 'none'; img-src 'self'; style-src 'self';", "default-src 'self'", "script-src 'none'"];

export async function forbidden(emulator) {
  await withFolder(async (folder) => {
    const file = join(folder, "report.html");
    save(emulator, file);
    for (const policy of POLICIES) {
      const server = createServer((_, answer) => answer.writeHead(200, { "content-type": "text/html; charset=utf-8", "content-security-policy": policy }).end(readFileSync(file)));
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const tab = await openTab(`http://127.0.0.1:${server.address().port}/`, { expected: [/Content Security Policy/, /sandboxed/, /404/] });
      for (const text of ["no endpoint `/v1/system/statuss`", "wrs-emulator verdict --from report.html"]) await tab.page.getByText(text).first().waitFor();
      assert.equal(await tab.page.getByText("requests list").count(), 0);
      await tab.context.close();
      server.closeAllConnections();
      server.close();
    }
  });
}

/** What a red run has to say first, by its cause. */
const CAUSES = {
  invalid: [/^GET \/v1\/system\/status was refused with 422 Unprocessable Entity: include_checks must be true or false, found "True"$/, /req_/],
  hammering: [/^GET \/v1\/system\/status was refused with 429 Too Many Requests: the quota of 5 requests in 60 s is used up; requests follow each 429 at once \((likely )?no-back-off\)$/, /growing pauses.*\d+ times/],
  forged: [/^https:\/\/app.example.com\/hooks accepted a forged delivery with 204; tampered: /, /Verify the signature/],
  silent: [/; 0 requests arrived$/, /WRS_BASE_URL/],
};

/** The reports of red runs, made by tests/packages/plugins.py: the first thing that one reads is the cause, on the first screen. */
export async function red() {
  const folder = join(process.cwd(), "target/ci-red");
  const files = readdirSync(folder).filter((name) => name.endsWith(".html"));
  assert.equal(files.length, 2 * Object.keys(CAUSES).length);
  for (const file of files) {
    const [title, detail] = CAUSES[file.split("-")[0]];
    const { page, verify } = await openTab(pathToFileURL(join(folder, file)).href, { offline: true, width: 1440, height: 900 });
    const card = page.getByRole("main").getByRole("article").first();
    await card.waitFor();
    if (process.env.WRS_PICTURES) await page.screenshot({ path: join(folder, file.replace("html", "png")) });
    const sentence = await card.locator(".sentence").first().textContent();
    assert.match(await page.getByRole("main").getByRole("heading").first().textContent(), /^(pytest|vitest) · exit 1 · (\d.* · )?1 of 1 failed$/);
    assert.match(sentence.replace("Forgery accepted: ", ""), title, file);
    assert.equal(await page.locator(".verdict").textContent(), `Failed: ${sentence.replace("Forgery accepted: ", "")}`, file);
    assert.match(await card.textContent(), detail, file);
    const { y, height } = await card.boundingBox();
    assert.ok(y + height <= 900, `${file}: the first card ends at ${y + height} pixels`);
    await verify();
  }
}

/** Served again from a file: the same views, read-only. */
export async function viewed(emulator) {
  await withFolder(async (folder) => {
    const file = join(folder, "run.json");
    save(emulator, file);
    const viewer = spawn(binary, ["run", "view", file], { stdio: ["ignore", "pipe", "inherit"] });
    Emulator.running.add(viewer);
    const [line] = await once(createInterface({ input: viewer.stdout }), "line");
    const address = /http:\S+/.exec(line)[0];
    const tab = await openTab(`${address}#/summary`);
    await walk(tab);
    assert.match(await tab.page.title(), /run\.json/);
    await tab.verify();
    viewer.kill("SIGTERM");
    await once(viewer, "exit");
    Emulator.running.delete(viewer);
  });
}

/** Hostile text is as inert in a file. */
export async function hostileReport() {
  const emulator = await Emulator.start("--set", "rate_limit.enabled=false");
  await poison(emulator);
  const ids = (await emulator.control("GET", "requests?key=*&limit=1000")).data.slice(0, 150).map((one) => one.id);
  await withFolder(async (folder) => {
    const file = join(folder, "hostile.html");
    save(emulator, file);
    const tab = await openTab(pathToFileURL(file).href, { offline: true });
    await lookAround(tab.page, ids, ["summary", "review", "review/unknown-field", "activity", "deliveries", "subscriptions", "scenarios", "keys", "settings", "time"]);
    await tab.verify();
  });
  await emulator.stop();
  return `${STRINGS.length} strings`;
}
