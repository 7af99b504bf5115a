curl -s -o /dev/null -H "Authorization: Bearer $WRS_API_KEY" -H 'Content-Type: application/json' \
  -d '{"url":"https://b.sink.localhost/","events":["workflow.completed"],"url":"https://a.sink.localhost/"}' "$WRS_BASE_URL/v1/events/subscribe"
