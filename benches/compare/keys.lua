-- For wrk: each request carries the next of as many API keys as the argument says. Usage: wrk … -s keys.lua URL -- COUNT
local requests, turn = {}, 0

function init(arguments)
  for number = 1, tonumber(arguments[1]) do
    wrk.headers["Authorization"] = "Bearer sk_test_crowd" .. number
    requests[number] = wrk.format("GET")
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end
