await fetch(`${process.env.WRS_BASE_URL}/v1/events/subscribe`, {
  method: "POST",
  headers: { authorization: `Bearer ${process.env.WRS_API_KEY}`, "content-type": "application/json" },
  body: JSON.stringify({ url: "https://a.sink.localhost/", events: ["workflow.completed"], active: true }),
});
