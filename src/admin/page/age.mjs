/* The relay's clock, by which everything here is dated; and how old the figures are. */
import { ago, clock, duration, secondsBetween } from "./format.mjs";

let told = null; /* {now, at}: what the relay's clock showed when ours showed `at` */

export function setRelayClock(now) {
  told = { now: Date.parse(now), at: performance.now() };
}

export const relayNow = () => new Date(told === null ? Date.now() : told.now + performance.now() - told.at).toISOString();

/* Nothing is delivered while PostgreSQL is away, and nothing is known while the relay is. Pure. */
export const isLive = (status) => status.source?.up !== false && !status.isCut;

/* Of what only the database knows: "" while it answers. Pure. */
export function ageOfLook(status) {
  const isOld = status.source?.up === false || Boolean(status.look_error);
  if (!isOld || !status.looked_at) return "";
  return `Backlogs and counts are those of ${clock(status.looked_at, status.now)}, ${ago(secondsBetween(status.looked_at, status.now))}, when the database last answered.`;
}

/* Of all of it, of a relay that does not answer any more. Pure. */
export function ageOfStatus(status, seconds) {
  if (status === null) return "The relay cannot be reached. Is it running?";
  return `Connection lost: these figures are those of ${clock(status.now)}, ${duration(Math.round(seconds))} old. Trying again…`;
}
