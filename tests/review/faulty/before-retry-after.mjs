// Waits, but for its own time.
const headers = { authorization: `Bearer ${process.env.WRS_API_KEY}` };
for (let i = 0; i < 4; i++) {
  const answer = await fetch(`${process.env.WRS_BASE_URL}/v1/system/status`, { headers });
  await answer.text();
  if (answer.status === 429) await new Promise((done) => setTimeout(done, 300));
}
