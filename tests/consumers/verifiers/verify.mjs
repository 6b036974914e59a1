// Judges requests of a relay by other people's packages: node verify.mjs FOLDER NEWEST OLDER, the two
// secrets. FOLDER/NAME.body and .headers have a request each. A request must pass as it came, with
// each secret that signs it; changed in one place it must not. Prints how many did what.
import { readFileSync } from 'node:fs'
import { Webhooks } from '@octokit/webhooks'
import { Webhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { Webhook as SvixWebhook } from 'svix'

const [folder, newest, older] = process.argv.slice(2)

// The schemes, by the names of the requests. A verifier throws, or answers false.
const standard = { header: 'webhook-signature', covered: ['webhook-id', 'webhook-timestamp'], nSecrets: 2 }
const schemes = {
  standard: { ...standard, verify: (secret, body, headers) => new Webhook(secret).verify(body, headers) },
  svix: { ...standard, verify: (secret, body, headers) => new SvixWebhook(secret).verify(body, headers) },
  stripe: {
    header: 'stripe-signature',
    covered: [],
    nSecrets: 2,
    verify: (secret, body, headers) => Stripe.webhooks.constructEvent(body, headers['stripe-signature'], secret),
  },
  github: {
    header: 'x-hub-signature-256',
    covered: [],
    nSecrets: 1,
    verify: (secret, body, headers) =>
      new Webhooks({ secret }).verify(body.toString(), headers['x-hub-signature-256']),
  },
}

async function passes(scheme, secret, body, headers) {
  try {
    return await scheme.verify(secret, body, headers) !== false
  } catch {
    return false
  }
}

function flipped(bytes, place) {
  const copy = Buffer.from(bytes)
  copy[place] ^= 1
  return copy
}

// The places of a header where the signatures, or the time, are: not the names, dots and commas.
function* changedTexts(text) {
  for (const match of text.matchAll(/[0-9A-Za-z+/]{8,}/g)) {
    for (let i = 0; i < match[0].length; i++) {
      const place = match.index + i
      const other = text[place] === '1' ? '2' : '1'
      yield { text: text.slice(0, place) + other + text.slice(place + 1), signature: match.index }
    }
  }
}

const read = (name) => readFileSync(`${folder}/${name}`)
const fail = (words) => { throw new Error(words) }

for (const [name, scheme] of Object.entries(schemes)) {
  const body = read(`${name}.body`)
  const headers = Object.fromEntries(read(`${name}.headers`).toString().trim().split('\n')
    .map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]))
  const secrets = [newest, older].slice(0, scheme.nSecrets)
  let nRefused = 0
  const refuse = async (secret, wrongBody, wrongHeaders, what) => {
    if (await passes(scheme, secret, wrongBody, wrongHeaders)) fail(`${name}: passes with ${what}`)
    nRefused++
  }

  for (const secret of secrets) {
    if (await scheme.verify(secret, body, headers) === false) fail(`${name}: refused`)
  }
  for (const secret of [newest, older].slice(scheme.nSecrets)) await refuse(secret, body, headers, 'the older secret')
  await refuse('whsec_bm8gc2VjcmV0IG9mIG91cnMsIG9mIGNvdXJzZQ==', body, headers, 'a foreign secret')
  for (let i = 0; i < body.length; i++) await refuse(newest, flipped(body, i), headers, `byte ${i} changed`)
  await refuse(newest, body.subarray(1), headers, 'a byte less')
  // Each signature alone, so that the other cannot stand in for it.
  for (const secret of secrets) {
    const own = []
    for (const { text, signature } of changedTexts(headers[scheme.header])) {
      if (!await passes(scheme, secret, body, { ...headers, [scheme.header]: text })) own.push(signature)
    }
    const length = scheme === schemes.stripe || scheme === schemes.github ? 64 : 43
    const time = scheme === schemes.stripe ? 10 : 0 // stands in the same header
    if (own.length !== length + time) fail(`${name}: ${own.length} changes of a signature refused`)
    nRefused += own.length
  }
  for (const header of scheme.covered) {
    for (const { text } of changedTexts(headers[header])) {
      await refuse(newest, body, { ...headers, [header]: text }, `${header}: ${text}`)
    }
  }
  console.log(`${name}: verified by ${secrets.length}, refused ${nRefused} changed ones`)
}
