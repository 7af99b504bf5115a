curl -s -o /dev/null "$WRS_BASE_URL/v1/system/status?api_key=$WRS_API_KEY"
