require "base64"
require "openssl"
require "webrick"

KEY = Base64.strict_decode64(ENV.fetch("WRS_WEBHOOK_SECRET").delete_prefix("whsec_"))

def verified?(request)
  id, timestamp = request["webhook-id"], request["webhook-timestamp"]
  return false if (Time.now.to_i - Integer(timestamp, 10)).abs > 300

  mac = OpenSSL::HMAC.digest("SHA256", KEY, "#{id}.#{timestamp}.#{request.body}")
  expected = "v1,#{Base64.strict_encode64(mac)}"
  # There are two signatures while a secret is being rotated.
  request["webhook-signature"].split.any? { |signature| OpenSSL.secure_compare(expected, signature) }
rescue ArgumentError, NoMethodError, TypeError
  false
end

server = WEBrick::HTTPServer.new(
  BindAddress: "127.0.0.1", Port: 3000, AccessLog: [], Logger: WEBrick::Log.new(File::NULL),
  StartCallback: -> { puts "listening"; $stdout.flush }
)
server.mount_proc("/") { |request, response| response.status = verified?(request) ? 204 : 401 }
server.start
