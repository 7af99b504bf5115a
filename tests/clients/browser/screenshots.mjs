// Pictures of the page and of a report for the documentation, from a lively demo.
// Usage: node screenshots.mjs EMULATOR_BINARY CHROMIUM FOLDER

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { Emulator, binary, openTab, startBrowser, stopAll } from "./site.mjs";

const folder = process.argv[4];
const scratch = mkdtempSync(join(tmpdir(), "page-pictures-"));

async function picture(address, name, options, hash, ready) {
  const tab = await openTab(address, options);
  await tab.page.evaluate((text) => { location.hash = text; }, hash);
  await tab.page.getByText(ready).first().waitFor();
  await tab.page.waitForTimeout(400);
  await tab.page.screenshot({ path: join(folder, `${name}.png`) });
  await tab.verify();
}

try {
  await startBrowser();
  const emulator = await Emulator.start();
  await emulator.liven();
  const request = (await emulator.control("GET", "requests?status=429&limit=1")).data[0].id;
  const delivery = (await emulator.control("GET", "deliveries?type=reference.matched&limit=1")).data[0].id;
  const report = join(scratch, "report.html");
  execFileSync(binary, ["run", "save", report, "--url", emulator.url]);
  const file = pathToFileURL(report).href;
  for (const colorScheme of ["light", "dark"]) {
    for (const [size, width, height] of [["1280", 1280, 800], ["390", 390, 844]]) {
      const options = { colorScheme, width, height };
      await picture(emulator.page, `request-${colorScheme}-${size}`, options, `#/requests/${request}`, /because scenario/);
      await picture(emulator.page, `activity-${colorScheme}-${size}`, options, "#/activity", /rows/);
      await picture(emulator.page, `delivery-${colorScheme}-${size}`, options, `#/deliveries/${delivery}`, /It was forged on purpose/);
      await picture(emulator.page, `scenarios-${colorScheme}-${size}`, options, "#/scenarios/rate-limit-burst", /too many requests/);
      await picture(file, `review-${colorScheme}-${size}`, options, "#/review", /Not ready/);
      await picture(file, `report-${colorScheme}-${size}`, options, "#/summary", /requests and/);
    }
  }
} finally {
  await stopAll();
  rmSync(scratch, { recursive: true });
}
