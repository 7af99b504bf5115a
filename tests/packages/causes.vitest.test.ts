// A red run for each cause: CAUSE names the one test that is run, and the report has to say why it failed.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, test, vi } from "vitest";
import { type Emulator, withEmulator } from "wrs-emulator";

const status = async (wrs: Emulator, query = "") => (await fetch(`${wrs.url}/v1/system/status${query}`, { headers: wrs.headers })).status;

let receiver: Server | undefined;
// Before the body of a test that took too long has ended.
afterAll(() => {
  receiver?.closeAllConnections();
  receiver?.close();
});

const causes: Record<string, (wrs: Emulator) => Promise<void>> = {
  async invalid(wrs) {
    expect(await status(wrs, "?include_checks=True")).toBe(200);
  },

  async hammering(wrs) {
    await wrs.set({ rate_limit: { requests: 5, window: "60s" } });
    for (let turn = 0; turn < 6; turn += 1) {
      let tries = 0;
      // It tries again at once.
      while ((await status(wrs)) !== 200) if ((tries += 1) === 10) throw new Error("no status within 10 tries");
    }
  },

  async forged(wrs) {
    // It verifies nothing.
    const receiver = createServer((request, response) => request.resume().on("end", () => response.writeHead(204).end())).listen(0, "127.0.0.1");
    await new Promise((done) => receiver.once("listening", done));
    try {
      await wrs.forward("https://app.example.com", `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`);
      await wrs.post("subscriptions", { url: "https://app.example.com/hooks" });
      const [sent] = await wrs.trigger("workflow.completed", { tamper: "secret" });
      expect(sent.status).toBe("exhausted");
    } finally {
      receiver.closeAllConnections();
      receiver.close();
    }
  },

  async hanging(wrs) {
    receiver = createServer(() => {}).listen(0, "127.0.0.1");
    await new Promise((done) => receiver?.once("listening", done));
    await wrs.forward("https://app.example.com", `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`);
    await wrs.post("subscriptions", { url: "https://app.example.com/hooks" });
    const [sent] = await wrs.trigger("workflow.completed");
    expect(sent.status).toBe("delivered");
  },

  async waiting(wrs) {
    await wrs.post("subscriptions", { url: wrs.sinkUrl });
    await vi.waitUntil(() => false, { timeout: 100 });
  },

  async refused(wrs) {
    await wrs.set({ rate_limit: { request: 5 } });
  },

  async silent() {
    expect([]).toEqual(["reported"]);
  },
};

test("a cause", withEmulator((wrs) => causes[process.env.CAUSE as string](wrs)));
