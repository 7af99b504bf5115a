require "net/http"
base = URI(ENV["WRS_BASE_URL"])
request = Net::HTTP::Get.new("/v1/system/status", "X-Api-Key" => ENV["WRS_API_KEY"])
Net::HTTP.start(base.host, base.port) { |http| http.request(request) }
