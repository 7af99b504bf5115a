# curl's own content type for -d is that of a form.
curl -s -o /dev/null -H "Authorization: Bearer $WRS_API_KEY" \
  -d '{"url":"https://a.sink.localhost/","events":["workflow.completed"]}' "$WRS_BASE_URL/v1/events/subscribe"
