/* Questions to the relay: a GET with the token, if there is one. */
import { authorization } from "./token.mjs";

/* Throws an Error with the relay's words and its `status`, which is 0 if nothing answered. */
export async function get(path, signal = undefined) {
  const response = await fetch(path, { headers: authorization(), cache: "no-store", signal }).catch((error) => {
    throw error.name === "AbortError" ? error : Object.assign(new Error("the relay cannot be reached"), { status: 0 });
  });
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw Object.assign(new Error(answer.error ?? `the relay answered ${response.status}`), { status: response.status });
}

/* The parts of a path as they may stand in it. */
export const path = (...parts) => parts.map(encodeURIComponent).join("/");
