/*
 * The token of the admin endpoint: asked for once, kept until the tab is closed.
 */
import { ask } from "./dialog.mjs";

const NAME = "pgcourier-token";
let token = null; /* where the browser keeps nothing for us */

export function authorization() {
  let kept = token;
  try {
    kept = sessionStorage.getItem(NAME);
  } catch {
    /* storage is switched off */
  }
  return kept ? { Authorization: `Bearer ${kept}` } : {};
}

export const hasToken = () => "Authorization" in authorization();

function keep(value) {
  token = value;
  try {
    if (value === null) sessionStorage.removeItem(NAME);
    else sessionStorage.setItem(NAME, value);
  } catch {
    /* then only this page knows it */
  }
  document.dispatchEvent(new CustomEvent("token"));
}

export const forgetToken = () => keep(null);

let asking = null;

/* false: none was given. A call meanwhile waits for the same answer. */
export function askForToken(why) {
  asking ??= ask({
    title: "Token",
    text: `${why} It is what admin.token or admin.token_file of the configuration says, and is kept in this tab until it is closed.`,
    field: { label: "Token", type: "password", isRequired: true },
    confirm: "Use it",
  }).then((answer) => {
    asking = null;
    if (answer !== null) keep(answer.trim());
    return answer !== null;
  });
  return asking;
}
