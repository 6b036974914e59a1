/*
 * The sheet at the side: one receiver, or one event. Which of them stands behind the # of the page's address,
 * so each can be linked to, and the browser's Back works; the links of the page are plain links.
 *
 * It is no dialog: the page beside it can be used, and a click there shows another receiver.
 */
import { $, setAttribute, setHidden, setText } from "./dom.mjs";
import { path } from "./api.mjs";

const RENEW_MS = 3000;

let hasPlaces = false;

/* Where a link leads to; null where the relay cannot tell more. */
export const receiverHref = (sink, name) => (hasPlaces ? `#/receiver/${path(sink, name)}` : null);
export const eventHref = (id) => (hasPlaces ? `#/event/${path(String(id))}` : null);

/* {kind, parts} of "#/receiver/webhooks/acme", or null. Pure. */
export function parsePlace(hash) {
  const [kind, ...parts] = hash.split("/").slice(1);
  const wanted = { receiver: 2, event: 1 }[kind];
  if (parts.length !== wanted || parts.includes("")) return null;
  try {
    return { kind, parts: parts.map(decodeURIComponent) };
  } catch {
    return null;
  }
}

/* {kind: {panel: its id, title(parts), read(parts, signal), show(answer, parts), isFinal?(answer)}} */
let views = {};
let reading = null; /* AbortController of what is shown now */
let opener = null; /* gets the focus back */
let trail = []; /* the places that led here, the present one at the end */

const sleep = (signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, RENEW_MS);
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    resolve();
  });
});

/* Until another place is shown. What has arrived stays when a later answer fails, with the reason above it. */
async function follow(view, parts, signal) {
  for (; !signal.aborted; await sleep(signal)) {
    try {
      const answer = await view.read(parts, signal);
      if (signal.aborted) return;
      view.show(answer, parts);
      setHidden($(view.panel), false);
      say("");
      if (view.isFinal?.(answer)) return;
    } catch (error) {
      if (signal.aborted) return;
      say(`${$(view.panel).hidden ? "" : "These figures are old: "}${error.message}`);
      if (error.status === 404) return;
    }
    setHidden($("sheet-wait"), true);
  }
}

function say(words) {
  setHidden($("sheet-error"), words === "");
  setText($("sheet-error"), words);
  setHidden($("sheet-wait"), true);
}

/* Shows what has just been changed. */
export function renewSheet() {
  const place = parsePlace(location.hash);
  if (place !== null && reading !== null) start(place);
}

function start({ kind, parts }) {
  reading?.abort();
  reading = new AbortController();
  follow(views[kind], parts, reading.signal);
}

function open(place) {
  const isOpen = !$("sheet").hidden;
  if (!isOpen) opener = document.activeElement;
  if (location.hash === trail.at(-2)) trail.pop();
  else if (location.hash !== trail.at(-1)) trail.push(location.hash);
  for (const view of Object.values(views)) setHidden($(view.panel), true);
  say("");
  setHidden($("sheet-wait"), false);
  setText($("sheet-title"), views[place.kind].title(place.parts));
  const before = trail.length > 1 ? parsePlace(trail.at(-2)) : null;
  setHidden($("sheet-back"), before === null);
  setAttribute($("sheet-back"), "href", before && trail.at(-2));
  setText($("sheet-back"), before ? `‹ ${views[before.kind].title(before.parts)}` : "");
  setHidden($("sheet"), false);
  setAttribute(document.body, "data-sheet", "yes");
  $("sheet").scrollTop = 0;
  $("sheet-title").focus();
  start(place);
}

function close() {
  if ($("sheet").hidden) return;
  reading?.abort();
  reading = null;
  trail = [];
  setHidden($("sheet"), true);
  setAttribute(document.body, "data-sheet", null);
  if (parsePlace(location.hash)) history.replaceState(null, "", location.pathname + location.search);
  opener?.focus({ preventScroll: true });
}

function followPlace() {
  const place = parsePlace(location.hash);
  if (place) open(place);
  else close();
}

/* From now on, for a relay that has something to show there. */
export function openPlaces() {
  hasPlaces = true;
  addEventListener("hashchange", followPlace);
  if (parsePlace(location.hash)) followPlace();
}

export function prepareSheet(all) {
  views = all;
  $("sheet-close").addEventListener("click", close);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open]")) close();
  });
}
