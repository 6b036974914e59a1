# Books the orders of a Redis stream: each order once, however often its event comes.
#
# The events are those of a pgcourier sink of kind redis. Any number of these may run: they are the
# workers of one consumer group. SIGTERM ends it after the event at hand.
#
# Needs Ruby 3 with the gems pg and redis: bundle install. Run: ruby stream_consumer.rb
# Environment: REDIS_URL, DATABASE_URL, STREAM (events:orders.created), WORKER (the host's name),
# CLAIM_AFTER_MS (60000)

require 'json'
require 'pg'
require 'redis'
require 'socket'

STREAM = ENV.fetch('STREAM', 'events:orders.created')
CONSUMER = 'billing' # the group's name, and the consumer's in the inbox
WORKER = ENV.fetch('WORKER', Socket.gethostname) # another one for each process
CLAIM_AFTER_MS = Integer(ENV.fetch('CLAIM_AFTER_MS', '60000')) # longer than an event takes

# The change. It need not be idempotent.
def book(database, event)
  order = JSON.parse(event['payload'])
  database.exec_params('INSERT INTO booking (order_id, cents) VALUES ($1, $2)', order.fetch_values('order', 'cents'))
end

# Accepts the event and makes the change in one transaction: both, or neither.
def process(database, event)
  database.transaction do
    accepted = database.exec_params('SELECT courier_inbox.accept($1, $2)', [CONSUMER, event['id']]).getvalue(0, 0)
    if accepted == 't'
      book(database, event)
    else
      puts "came again: #{event['id']}"
    end
  end
end

def make_group(stream)
  stream.xgroup(:create, STREAM, CONSUMER, '0', mkstream: true)
rescue Redis::CommandError => e
  raise unless e.message.start_with?('BUSYGROUP') # it exists
end

# What some worker took long ago and has not acknowledged; or else what is new.
def next_entries(stream)
  left = stream.xautoclaim(STREAM, CONSUMER, WORKER, CLAIM_AFTER_MS, '0-0', count: 100)['entries']
  return left unless left.empty?

  stream.xreadgroup(CONSUMER, WORKER, STREAM, '>', count: 100, block: 1000).fetch(STREAM, [])
end

$stdout.sync = true
stopping = false
%w[TERM INT].each { |name| trap(name) { stopping = true } }
# A lost connection ends the process: systemd or the like starts it again.
stream = Redis.new(url: ENV.fetch('REDIS_URL', 'redis://localhost'), reconnect_attempts: 0)
database = PG.connect(ENV.fetch('DATABASE_URL'))
make_group(stream)
until stopping
  next_entries(stream).each do |entry_id, event|
    break if stopping # the rest is claimed by another worker, or by the next start

    begin
      process(database, event)
    rescue StandardError => e
      raise if database.finished? || database.status != PG::CONNECTION_OK

      puts "#{event['id']} comes again later: #{e.message}"
      next
    end
    stream.xack(STREAM, CONSUMER, entry_id) # after the commit, never before
  end
end
