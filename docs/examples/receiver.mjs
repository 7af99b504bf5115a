import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

// Without the secret it throws here, and not at each delivery.
const webhook = new Webhook(process.env.WRS_WEBHOOK_SECRET);

createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  try {
    const body = Buffer.concat(parts).toString();
    const event = webhook.verify(body, request.headers);
    console.log(event.type, event.id);
    response.writeHead(204).end();
  } catch (problem) {
    console.error(problem.message);
    response.writeHead(401).end();
  }
}).listen(3000, "127.0.0.1", () => console.log("listening"));
