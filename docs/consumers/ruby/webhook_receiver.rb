# Books the orders that come as webhooks: each order once, however often its event comes.
#
# The requests are those of a pgcourier sink of kind http with a secret (Standard Webhooks). SIGTERM
# ends it when the requests at hand are answered. In a web framework, copy signed? and process; the
# body must be the bytes that came.
#
# Needs Ruby 3 with the gems pg and webrick: bundle install. Run: ruby webhook_receiver.rb
# Environment: WEBHOOK_SECRET, DATABASE_URL, PORT (8480), WEBHOOK_HEADER_PREFIX (webhook-)

require 'json'
require 'openssl'
require 'pg'
require 'webrick'

CONSUMER = 'billing'
PREFIX = ENV.fetch('WEBHOOK_HEADER_PREFIX', 'webhook-')
KEY = ENV.fetch('WEBHOOK_SECRET').delete_prefix('whsec_').unpack1('m0')
abort 'WEBHOOK_SECRET is empty' if KEY.empty?
TOLERANCE_S = 300
MAX_BODY = 1 << 20

# Whether one of the signatures is that of our secret, for these bytes and about this time.
def signed?(request, body)
  id, sent_at, given = %w[id timestamp signature].map { |name| request[PREFIX + name].to_s }
  return false unless sent_at.match?(/\A\d+\z/) && (Time.now.to_i - sent_at.to_i).abs <= TOLERANCE_S

  mac = OpenSSL::HMAC.digest('SHA256', KEY, "#{id}.#{sent_at}.".b + body.b)
  wanted = "v1,#{[mac].pack('m0')}"
  # While the sender changes its secret, there are two.
  given.split.map { |one| OpenSSL.secure_compare(one, wanted) }.any?
end

# The change. It need not be idempotent.
def book(database, order)
  database.exec_params('INSERT INTO booking (order_id, cents) VALUES ($1, $2)', order.fetch_values('order', 'cents'))
end

# Accepts the event and makes the change in one transaction: both, or neither.
def process(database, id, order)
  database.transaction do
    accepted = database.exec_params('SELECT courier_inbox.accept($1, $2)', [CONSUMER, id]).getvalue(0, 0)
    if accepted == 't'
      book(database, order)
    else
      warn "came again: #{id}"
    end
  end
end

def answer(request)
  return 413 if request['content-length'].to_i > MAX_BODY

  body = request.body.to_s
  return 401 unless signed?(request, body)

  begin
    database = PG.connect(ENV.fetch('DATABASE_URL'), connect_timeout: 5)
  rescue PG::Error
    return 503 # we are down: pgcourier waits, and charges the event nothing
  end
  begin
    process(database, request["#{PREFIX}id"], JSON.parse(body))
    204
  rescue StandardError => e
    warn "#{request["#{PREFIX}id"]}: #{e.message}"
    500 # this event is in trouble: it comes again, and ends as a dead letter
  ensure
    database.close # a pool, as of Rails, would keep it
  end
end

server = WEBrick::HTTPServer.new(BindAddress: '127.0.0.1', Port: ENV.fetch('PORT', '8480').to_i, AccessLog: [],
                                 Logger: WEBrick::Log.new($stderr, WEBrick::Log::WARN))
server.mount_proc('/') { |request, response| response.status = answer(request) }
%w[TERM INT].each { |name| trap(name) { server.shutdown } }
server.start
