// Where a job's payload goes: deliverer("redis:PORT", "http:PORT" or "nothing:FILE", how many at a time). Of
// those that go nowhere the file gets a byte for each.
import { openSync, writeSync } from "node:fs";
import { Redis } from "ioredis";
import { Pool } from "undici";

function toRedis(port) {
  const redis = new Redis({ host: "127.0.0.1", port, enableAutoPipelining: true });
  return {
    send: (id, payload) => redis.xadd("events", "*", "id", id, "payload", payload),
    close: () => redis.quit(),
  };
}

function toReceiver(port, inFlight) {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: inFlight });
  return {
    async send(id, payload) {
      const headers = { "content-type": "application/json", "webhook-id": id };
      const answer = await pool.request({ method: "POST", path: "/1", headers, body: payload });
      await answer.body.dump();
      if (answer.statusCode >= 300) throw new Error(`HTTP ${answer.statusCode}`);
    },
    close: () => pool.close(),
  };
}

function toNothing(path) {
  const file = openSync(path, "a");
  return { send: () => writeSync(file, "."), close() {} };
}

export function deliverer(target, inFlight) {
  const [kind, port] = target.split(":");
  if (kind === "nothing") return toNothing(port);
  return kind === "redis" ? toRedis(Number(port)) : toReceiver(Number(port), inFlight);
}

// Until it is told to end.
export function untilTerminated() {
  return new Promise((resolve) => process.once("SIGTERM", resolve));
}
