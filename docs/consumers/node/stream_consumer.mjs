// Books the orders of a Redis stream: each order once, however often its event comes.
//
// The events are those of a pgcourier sink of kind redis. Any number of these may run: they are the
// workers of one consumer group. SIGTERM ends it after the event at hand.
//
// Needs Node 18, pg and redis: npm install. Run: node stream_consumer.mjs
// Environment: REDIS_URL, DATABASE_URL, STREAM (events:orders.created), WORKER (the host's name),
// CLAIM_AFTER_MS (60000)
import { hostname } from 'node:os'
import pg from 'pg'
import { createClient } from 'redis'

const STREAM = process.env.STREAM ?? 'events:orders.created'
const CONSUMER = 'billing' // the group's name, and the consumer's in the inbox
const WORKER = process.env.WORKER ?? hostname() // another one for each process
const CLAIM_AFTER_MS = Number(process.env.CLAIM_AFTER_MS ?? 60000) // longer than an event takes

let stopping = false
for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => { stopping = true })

// The change. It need not be idempotent.
async function book(database, event) {
  const { order, cents } = JSON.parse(event.payload)
  await database.query('INSERT INTO booking (order_id, cents) VALUES ($1, $2)', [order, cents])
}

// Accepts the event and makes the change in one transaction: both, or neither.
async function processEvent(database, event) {
  await database.query('BEGIN')
  try {
    const answer = await database.query('SELECT courier_inbox.accept($1, $2) AS accepted', [CONSUMER, event.id])
    if (answer.rows[0].accepted) await book(database, event)
    else console.log('came again:', event.id)
    await database.query('COMMIT')
  } catch (error) {
    await database.query('ROLLBACK') // fails if the connection is lost, and that ends the process
    return error
  }
}

async function makeGroup(stream) {
  try {
    await stream.xGroupCreate(STREAM, CONSUMER, '0', { MKSTREAM: true })
  } catch (error) {
    if (!error.message.startsWith('BUSYGROUP')) throw error // it exists
  }
}

// What some worker took long ago and has not acknowledged; or else what is new.
async function nextEntries(stream) {
  const left = await stream.xAutoClaim(STREAM, CONSUMER, WORKER, CLAIM_AFTER_MS, '0-0', { COUNT: 100 })
  if (left.messages.length > 0) return left.messages
  const fresh = await stream.xReadGroup(CONSUMER, WORKER, { key: STREAM, id: '>' }, { COUNT: 100, BLOCK: 1000 })
  return fresh?.[0].messages ?? []
}

// A lost connection ends the process: systemd or the like starts it again.
const stream = createClient({ url: process.env.REDIS_URL, socket: { reconnectStrategy: false } })
stream.on('error', (error) => { throw error })
await stream.connect()
const database = new pg.Client({ connectionString: process.env.DATABASE_URL })
await database.connect()
await makeGroup(stream)
while (!stopping) {
  for (const { id, message: event } of await nextEntries(stream)) {
    if (stopping) break // the rest is claimed by another worker, or by the next start
    const error = await processEvent(database, event)
    if (error) console.log(`${event.id} comes again later: ${error.message}`)
    else await stream.xAck(STREAM, CONSUMER, id) // after the commit, never before
  }
}
await stream.disconnect()
await database.end()
