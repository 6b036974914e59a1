/* The portal: one receiver, for its owner, who came by a link. */
import { $, list, make, setAttribute, setHidden, setIcon, setText } from "./dom.mjs";
import { prepareDialog } from "./dialog.mjs";
import { ago, brief, clock, count, duration, rate, secondsBetween, unknown } from "./format.mjs";
import { forgetToken, takeToken } from "./portal_api.mjs";
import { copyText, prepareChanges, readReceiver } from "./portal_change.mjs";
import { prepareLists, renewList, setListRules } from "./portal_lists.mjs";
import { languages, snippet } from "./snippets.mjs";

const RENEW_MS = 10000;

let shown = null; /* the receiver as it was last read */
let isClosed = false;

/* What stands on top: a level, and in words how it is. Pure. */
export function headlineOf(receiver, now) {
  const since = (time) => (time ? ` for ${brief(secondsBetween(time, now))}` : "");
  if (receiver.state === "disabled") return ["error", `Deliveries have been stopped${since(receiver.state_since)}`];
  if (receiver.state === "paused") return ["warning", `Deliveries are paused${since(receiver.state_since)}`];
  if (receiver.failing_since) return ["error", `Deliveries fail${since(receiver.failing_since)}`];
  if (receiver.is_held) return ["warning", "The sender holds deliveries back"];
  if (receiver.retrying > 0) return ["warning", `${count(receiver.retrying)} ${receiver.retrying === 1 ? "event is" : "events are"} tried again`];
  return ["ok", "Deliveries work"];
}

/* Why, and what helps. Pure. */
export function reasonOf(receiver) {
  if (receiver.state === "disabled") return `Your server failed for too long, or said that it wants no more. ${receiver.last_error ?? ""}`.trim();
  if (receiver.state === "paused" && !receiver.is_paused_by_owner) return "The sender of the events has paused them.";
  if (receiver.failing_since || receiver.retrying > 0) return receiver.last_error ?? "";
  return receiver.dead > 0 ? `${count(receiver.dead)} ${receiver.dead === 1 ? "event was" : "events were"} given up.` : "";
}

function factsOf(receiver, now) {
  const at = (time, none) => (time ? ago(secondsBetween(time, now)) : none);
  return [
    ["Waiting", `${count(receiver.waiting, receiver.waiting_is_exact)}${receiver.waiting > 0 && receiver.waiting_since ? `, since ${brief(secondsBetween(receiver.waiting_since, now))}` : ""}`],
    ["Tried again", count(receiver.retrying), receiver.retrying > 0 ? "warn" : ""],
    ["Given up", count(receiver.dead), receiver.dead > 0 ? "bad" : ""],
    ["Last success", at(receiver.last_delivered_at, "none yet")],
    ["Last failure", at(receiver.last_failed_at, "none")],
    ["Delivered", rate(receiver.rate)],
    ["Your server takes", receiver.p50 === null ? unknown : `${duration(receiver.p50)}, p99 ${duration(receiver.p99)}`],
  ];
}

function showActions(receiver) {
  const may = (right) => receiver.may.includes(right);
  const isActive = receiver.state === "active";
  setHidden($("actions"), !["pause", "url", "secret"].some(may));
  setHidden($("pause"), !may("pause") || (receiver.state === "paused" && !receiver.is_paused_by_owner));
  setText($("pause").lastElementChild, isActive ? "Pause" : "Resume");
  setIcon($("pause").firstElementChild, isActive ? "pause" : "play");
  setAttribute($("pause"), "class", isActive ? "" : "primary");
  setHidden($("change-url"), !may("url"));
  setHidden($("change-secret"), !may("secret") || receiver.signing === "none");
}

function showSnippet() {
  const { signing, is_gzip: isGzip } = shown;
  const text = snippet(signing, $("language").value);
  setHidden($("verify"), text === null);
  if (text === null) return;
  setText($("snippet-text"), text);
  setText($("verify-note"), isGzip ? "verify the body as it comes, then unpack it (gzip)" : "verify the body as it comes, before you parse it");
}

function show(receiver) {
  const now = new Date().toISOString();
  const [level, words] = headlineOf(receiver, now);
  const why = reasonOf(receiver);
  shown = receiver;
  document.title = `${receiver.name}: webhooks`;
  setText($("name"), receiver.name);
  setText($("ends"), `This link works until ${clock(receiver.expires_at, now)}`);
  setAttribute($("top"), "data-level", level);
  setIcon($("top-icon"), level === "ok" ? "check" : receiver.state === "paused" ? "pause" : "alert");
  setText($("headline"), words);
  setText($("why"), why);
  setHidden($("why"), why === "");
  list($("facts"), factsOf(receiver, now), (fact) => fact[0], (fact) => make("div", {}, make("dt", {}, fact[0]), make("dd")),
    (node, [, text, tone = ""]) => {
      setText(node.lastElementChild, text);
      setAttribute(node, "data-tone", tone);
    });
  setText($("url"), receiver.url);
  setText($("old-secret"), receiver.old_secret_until && receiver.signing !== "github" ? `The secret before signs too until ${clock(receiver.old_secret_until, now)}.` : "");
  setText($("takes"), `topics ${receiver.topics.join(", ")}${receiver.types.length > 0 ? `; types ${receiver.types.join(", ")}` : ""}`);
  setListRules(receiver);
  showActions(receiver);
  showSnippet();
  setHidden($("main"), false);
}

/* The link has ended, or there is none: nothing of what was shown stays. */
function close(error) {
  isClosed = true;
  forgetToken();
  setHidden($("main"), true);
  if ($("event").open) $("event").close();
  for (const id of ["rows", "facts", "event-body"]) $(id).replaceChildren();
  setText($("closed-title"), error === null ? "This page needs a link" : "This link has expired");
  setText($("closed-words"), error === null ? "Open the link that you were sent, with everything behind its #." : "Ask for a new one: whoever sent you this link can make another.");
  setHidden($("closed"), false);
  document.title = "Webhooks";
  setText($("name"), "");
  setText($("ends"), "");
  $("closed-title").focus();
}

async function renew() {
  if (isClosed) return;
  try {
    show(await readReceiver());
    setHidden($("old"), true);
  } catch (error) {
    if (error.status === 401) {
      close(error);
      return;
    }
    setText($("old"), shown === null ? error.message : `These figures are old: ${error.message}`);
    setHidden($("main"), false);
    setHidden($("old"), false);
  }
}

async function follow() {
  for (; !isClosed; await new Promise((resolve) => setTimeout(resolve, RENEW_MS))) if (!document.hidden) await renew();
}

function start() {
  prepareDialog();
  prepareLists(close);
  prepareChanges(renew, close, () => shown);
  for (const name of languages) $("language").append(make("option", {}, name));
  $("language").addEventListener("change", showSnippet);
  $("snippet-copy").addEventListener("click", () => copyText($("snippet-text").textContent, $("snippet-copy")));
  addEventListener("hashchange", () => location.hash !== "" && location.reload());
  if (!takeToken()) {
    close(null);
    return;
  }
  follow();
  renewList();
}

if (typeof document !== "undefined") start();
