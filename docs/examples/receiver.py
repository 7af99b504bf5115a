import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from standardwebhooks import Webhook, WebhookVerificationError

# Without the secret it ends here, and not at each delivery.
webhook = Webhook(os.environ["WRS_WEBHOOK_SECRET"])

class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            event = webhook.verify(body, headers)
        except WebhookVerificationError as problem:
            print(problem, flush=True)
            return self.answer(401)
        print(event["type"], event["id"], flush=True)
        self.answer(204)

    def body(self):
        # This server leaves chunks to its handler.
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

server = HTTPServer(("127.0.0.1", 3000), Receiver)
print("listening", flush=True)
server.serve_forever()
