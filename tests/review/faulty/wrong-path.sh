curl -s -o /dev/null -H "Authorization: Bearer $WRS_API_KEY" "$WRS_BASE_URL/v1/status"
