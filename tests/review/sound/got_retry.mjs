// got, whose retries honour Retry-After.
import got from "got";
const client = got.extend({ prefixUrl: process.env.WRS_BASE_URL, headers: { authorization: `Bearer ${process.env.WRS_API_KEY}` }, retry: { limit: 8, methods: ["GET", "POST"], statusCodes: [429] } });
for (let i = 0; i < 4; i++) await client.get("v1/system/status").json();
await client.post("v1/events/subscribe", { json: { url: "https://a.sink.localhost/hooks", events: ["workflow.completed"] } }).json();
