// axios with an interceptor that waits.
import axios from "axios";
const client = axios.create({ baseURL: process.env.WRS_BASE_URL, headers: { authorization: `Bearer ${process.env.WRS_API_KEY}` } });
client.interceptors.response.use(undefined, async (error) => {
  if (error.response?.status !== 429) throw error;
  await new Promise((done) => setTimeout(done, 1000 * Number(error.response.headers["retry-after"])));
  return client.request(error.config);
});
for (let i = 0; i < 4; i++) await client.get("/v1/system/status");
await client.post("/v1/events/subscribe", { url: "https://a.sink.localhost/hooks", events: ["workflow.completed"] });
