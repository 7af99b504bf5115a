import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  try {
    const body = Buffer.concat(parts).toString();
    const event = new Webhook(process.env.WRS_WEBHOOK_SECRET).verify(body, request.headers);
    console.log(event.type, event.id);
    response.writeHead(204).end();
  } catch {
    response.writeHead(401).end();
  }
}).listen(3000, "127.0.0.1", () => console.log("listening"));
