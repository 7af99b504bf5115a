// axios-retry: exponential pauses from 25 ms.
import axios from "axios";
import axiosRetry from "axios-retry";
const client = axios.create({ baseURL: process.env.WRS_BASE_URL, headers: { authorization: `Bearer ${process.env.WRS_API_KEY}` } });
axiosRetry(client, { retries: 12, retryCondition: (error) => error.response?.status === 429, retryDelay: (count) => 25 * 2 ** (count - 1) });
for (let i = 0; i < 4; i++) await client.get("/v1/system/status");
await client.post("/v1/events/subscribe", { url: "https://a.sink.localhost/hooks", events: ["workflow.completed"] });
