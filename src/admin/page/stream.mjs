/*
 * The status document, once a second: read from /api/events as it streams, or
 * asked for if streams do not come through (a proxy that buffers).
 *
 * By fetch() and not by EventSource, which can neither send the token nor tell
 * "wrong token" from "gone".
 */
import { askForToken, authorization } from "./token.mjs";

const SILENCE_MS = 8000; /* the relay writes every second */
const PAUSE_MS = 2000;
const POLLS_PER_STREAM = 15;

/* Splits what has arrived into whole events ({event, data}) and the rest. Pure. */
export function splitEvents(text) {
  const parts = text.replaceAll("\r\n", "\n").split("\n\n");
  const rest = parts.pop();
  const events = [];
  for (const part of parts) {
    const event = { event: "message", data: [] };
    for (const line of part.split("\n")) {
      if (line.startsWith("event:")) event.event = line.slice(6).trim();
      else if (line.startsWith("data:")) event.data.push(line.slice(5).replace(/^ /, ""));
    }
    if (event.data.length > 0) events.push({ event: event.event, data: event.data.join("\n") });
  }
  return { events, rest };
}

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/* By the button on top, if the question was cancelled. */
const tokenGiven = () => new Promise((resolve) => document.addEventListener("token", resolve, { once: true }));

/* Breaks off what has been silent for too long. */
function makePatience() {
  const abort = new AbortController();
  let timer;
  const stop = () => clearTimeout(timer);
  const renew = () => {
    stop();
    timer = setTimeout(() => abort.abort(), SILENCE_MS);
  };
  const end = () => {
    stop();
    abort.abort();
  };
  return { signal: abort.signal, renew, stop, end };
}

async function open(path, patience) {
  for (let why = "This endpoint shows its figures only with its token."; ; why = "That token was refused.") {
    patience.renew();
    const response = await fetch(path, { headers: authorization(), cache: "no-store", signal: patience.signal });
    if (response.ok) return response;
    if (response.status !== 401) throw new Error(`the relay answered ${response.status}`);
    patience.stop();
    if (!(await askForToken(why))) await tokenGiven();
  }
}

/* A mistake of ours in showing it is no reason to connect again. */
function show(onStatus, status) {
  try {
    onStatus(status);
  } catch (error) {
    reportError(error);
  }
}

/* Ends when the stream does; answers whether a status came. */
async function readStream(onStatus) {
  const patience = makePatience();
  let hasCome = false;
  try {
    const response = await open("api/events", patience);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      patience.renew();
      const { value, done } = await reader.read();
      if (done) return hasCome;
      const { events, rest } = splitEvents(text + value);
      text = rest;
      const status = events.findLast((event) => event.event === "status");
      if (status) {
        hasCome = true;
        show(onStatus, JSON.parse(status.data));
      }
    }
  } catch {
    return hasCome;
  } finally {
    patience.end();
  }
}

async function poll(onStatus) {
  const patience = makePatience();
  try {
    show(onStatus, await (await open("api/status", patience)).json());
  } finally {
    patience.end();
  }
}

/* For ever. onLost() is told when neither way works. */
export async function followStatus(onStatus, onLost) {
  for (;;) {
    let polls = (await readStream(onStatus)) ? 1 : POLLS_PER_STREAM;
    try {
      for (; polls > 0; polls--) {
        await poll(onStatus);
        await sleep(PAUSE_MS);
      }
    } catch {
      onLost();
      await sleep(PAUSE_MS);
    }
  }
}
