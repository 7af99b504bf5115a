source ./emulator.sh
test_a_wrong_query() { is 422 "$(status '/v1/system/status?include_checks=x')"; }
test_a_wrong_key() { is 401 "$(key=wrong status /v1/system/status)"; }
run_tests
