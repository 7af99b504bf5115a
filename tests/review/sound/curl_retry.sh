# curl, whose --retry honours Retry-After.
set -e
for _ in 1 2 3 4; do
  curl -sf --retry 8 -o /dev/null -H "Authorization: Bearer $WRS_API_KEY" "$WRS_BASE_URL/v1/system/status"
done
curl -sf --retry 8 -o /dev/null -H "Authorization: Bearer $WRS_API_KEY" -H 'Content-Type: application/json' \
  -d '{"url":"https://a.sink.localhost/hooks","events":["workflow.completed"]}' "$WRS_BASE_URL/v1/events/subscribe"
