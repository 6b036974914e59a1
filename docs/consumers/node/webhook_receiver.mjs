// Books the orders that come as webhooks: each order once, however often its event comes.
//
// The requests are those of a pgcourier sink of kind http with a secret (Standard Webhooks). SIGTERM
// ends it when the requests at hand are answered. In a web framework, copy isSigned() and
// processEvent(); the body must be the bytes that came, not JSON that was parsed and written again.
//
// Needs Node 18 and pg: npm install. Run: node webhook_receiver.mjs
// Environment: WEBHOOK_SECRET, DATABASE_URL, PORT (8480), WEBHOOK_HEADER_PREFIX (webhook-)
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'
import pg from 'pg'

const CONSUMER = 'billing'
const KEY = Buffer.from(process.env.WEBHOOK_SECRET.replace(/^whsec_/, ''), 'base64')
if (KEY.length === 0) throw new Error('WEBHOOK_SECRET is empty')
const PREFIX = process.env.WEBHOOK_HEADER_PREFIX ?? 'webhook-'
const TOLERANCE_S = 300
const MAX_BODY = 1 << 20

const databases = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 8, connectionTimeoutMillis: 5000 })
databases.on('error', (error) => console.error(error.message)) // of an idle connection

// Whether one of the signatures is that of our secret, for these bytes and about this time.
function isSigned(headers, body) {
  const [id, sentAt, given] = ['id', 'timestamp', 'signature'].map((name) => headers[PREFIX + name] ?? '')
  if (!/^\d+$/.test(sentAt) || Math.abs(Date.now() / 1000 - Number(sentAt)) > TOLERANCE_S) return false
  const digest = createHmac('sha256', KEY).update(`${id}.${sentAt}.`).update(body).digest('base64')
  const wanted = Buffer.from(`v1,${digest}`)
  // While the sender changes its secret, there are two.
  return given.split(' ').map((one) => Buffer.from(one))
    .some((one) => one.length === wanted.length && timingSafeEqual(one, wanted))
}

// The change. It need not be idempotent.
async function book(database, { order, cents }) {
  await database.query('INSERT INTO booking (order_id, cents) VALUES ($1, $2)', [order, cents])
}

// Accepts the event and makes the change in one transaction: both, or neither.
async function processEvent(database, id, order) {
  await database.query('BEGIN')
  const answer = await database.query('SELECT courier_inbox.accept($1, $2) AS accepted', [CONSUMER, id])
  if (answer.rows[0].accepted) await book(database, order)
  else console.log('came again:', id)
  await database.query('COMMIT')
}

async function answer(request) {
  if (!(Number(request.headers['content-length']) <= MAX_BODY)) return 413
  const parts = []
  for await (const part of request) parts.push(part)
  const body = Buffer.concat(parts)
  if (!isSigned(request.headers, body)) return 401

  const id = request.headers[PREFIX + 'id']
  let database
  try {
    database = await databases.connect()
  } catch {
    return 503 // we are down: pgcourier waits, and charges the event nothing
  }
  try {
    await processEvent(database, id, JSON.parse(body))
    database.release()
    return 204
  } catch (error) {
    database.release(error) // and its transaction with it
    console.error(`${id}: ${error.message}`)
    return 500 // this event is in trouble: it comes again, and ends as a dead letter
  }
}

const server = createServer((request, response) => {
  answer(request).then((status) => {
    if (stopping) response.setHeader('Connection', 'close')
    response.writeHead(status).end()
  }, () => response.destroy())
})
server.requestTimeout = 30000
let stopping = false
for (const name of ['SIGTERM', 'SIGINT']) {
  process.on(name, () => {
    stopping = true
    server.close(() => databases.end())
    server.closeIdleConnections()
  })
}
server.listen(Number(process.env.PORT ?? 8480), '127.0.0.1')
