/*
 * The link's token, and what is asked with it. It comes behind the # of the address, which browsers send to nobody;
 * from there it goes into the tab's memory, and out of the address. There is no cookie.
 */
const KEY = "portal-token";

/* Of an address as it was opened; an older token of the tab gives way. */
export function takeToken() {
  const given = location.hash.slice(1);
  if (given !== "") {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem(KEY) !== null;
}

export const forgetToken = () => sessionStorage.removeItem(KEY);

/* Throws an Error with words for people and its `status`, which is 0 if nothing answered. */
async function ask(path, options) {
  const headers = { ...options.headers, Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` };
  const response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" }).catch(() => {
    throw Object.assign(new Error("The server cannot be reached."), { status: 0 });
  });
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw Object.assign(new Error(answer.error ?? `The server answered ${response.status}.`), { status: response.status });
}

export const get = (path) => ask(path, {});
export const post = (path, body) => ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
