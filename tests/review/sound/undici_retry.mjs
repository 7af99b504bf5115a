// undici with its RetryAgent.
import { Agent, RetryAgent, request } from "undici";
const { WRS_BASE_URL: base, WRS_API_KEY: key } = process.env;
const dispatcher = new RetryAgent(new Agent(), { maxRetries: 8, statusCodes: [429], methods: ["GET", "POST"] });
async function send(path, options = {}) {
  const answer = await request(base + path, { dispatcher, ...options, headers: { authorization: `Bearer ${key}`, ...options.headers } });
  await answer.body.text();
  if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode}`);
}
for (let i = 0; i < 4; i++) await send("/v1/system/status");
await send("/v1/events/subscribe", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ url: "https://a.sink.localhost/hooks", events: ["workflow.completed"] }) });
await dispatcher.close();
