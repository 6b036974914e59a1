/* What a link with --manage can change: each asks if it is to be asked, and tells what came of it. */
import { $, setHidden, setText } from "./dom.mjs";
import { ask, tell } from "./dialog.mjs";
import { clock } from "./format.mjs";
import { get, post } from "./portal_api.mjs";
import { openEvent, renewList } from "./portal_lists.mjs";

let renew = () => {};
let onClosed = () => {};
let receiverNow = () => null; /* as it was last read */

/* The answer, or null after the reason was told. */
async function change(path, body, done) {
  try {
    const answer = await post(path, body);
    if (done) tell(done);
    return answer;
  } catch (error) {
    if (error.status === 401) onClosed(error);
    else tell(error.message, true);
    return null;
  }
}

async function pause(isPaused) {
  if (isPaused) {
    await change("api/resume", {}, "Deliveries go on.");
  } else {
    const answer = await ask({ title: "Pause deliveries?", text: "Events wait, and are sent in their order when you resume. None is lost while the sender keeps them.", confirm: "Pause" });
    if (answer === null) return;
    await change("api/pause", {}, "Deliveries are paused.");
  }
  renew();
}

async function changeUrl() {
  const url = await ask({
    title: "Change the URL?",
    text: "From now on events are sent to the new URL, those that wait included. The secret stays the same.",
    field: { label: "New URL", type: "url", isRequired: true },
    confirm: "Change it",
  });
  if (url === null) return;
  await change("api/url", { url: url.trim() }, "Events are sent to the new URL.");
  renew();
}

/* GitHub's scheme has room for one signature. Pure. */
export function secretWords(signing) {
  return signing === "github"
    ? "From now on requests are signed with the new secret alone: until your server knows it, it will refuse them, and they are tried again."
    : "Requests are signed with both secrets for 24 hours: put the new one into your server within that time. After that the old one is of no use.";
}

async function changeSecret() {
  const { signing } = receiverNow();
  const answer = await ask({
    title: "Make a new secret?",
    text: secretWords(signing),
    confirm: "Make it",
    isDangerous: true,
  });
  if (answer === null) return;
  const made = await change("api/secret", {});
  if (made === null) return;
  setText($("secret-text"), made.secret);
  setText($("secret-until"), signing === "github" ? "" : `The old one signs too until ${clock(made.old_until)}.`);
  setHidden($("secret"), false);
  $("secret").focus();
  renew();
}

async function resend(event) {
  if ((await change("api/resend", { event: Number(event) }, `Event ${event} is sent again.`)) === null) return;
  await openEvent(event);
  renewList();
  renew();
}

export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    setText(button, "Copied");
  } catch {
    setText(button, "Select and copy it");
  }
  setTimeout(() => setText(button, "Copy"), 3000);
}

export function prepareChanges(renewAll, closed, receiver) {
  renew = renewAll;
  onClosed = closed;
  receiverNow = receiver;
  $("pause").addEventListener("click", () => pause(receiverNow().state !== "active"));
  $("change-url").addEventListener("click", changeUrl);
  $("change-secret").addEventListener("click", changeSecret);
  $("event-resend").addEventListener("click", () => resend($("event-resend").dataset.event));
  $("secret-copy").addEventListener("click", () => copyText($("secret-text").textContent, $("secret-copy")));
  $("secret-done").addEventListener("click", () => {
    setText($("secret-text"), "");
    setHidden($("secret"), true);
    $("change-secret").focus();
  });
}

export const readReceiver = () => get("api/receiver");
