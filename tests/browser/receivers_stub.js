/*
 * Answers for the routes of receivers and traces, within the browser, so that the page can be looked at with ten
 * thousand receivers, and with a relay that has none of these routes. Everything else goes to the relay.
 */
(() => {
  if (location.protocol === "about:") return; /* has no storage */
  const ask = window.fetch.bind(window);
  const names = Array.from({ length: 10000 }, (_, i) => `customer-${String(i).padStart(5, "0")}`);
  const ago = (seconds) => new Date(Date.now() - seconds * 1000).toISOString();
  const html = "<img src=x onerror=alert(1)>";
  const stub = { isMissing: sessionStorage.getItem("stub") === "missing", isDown: false, asked: [], changed: {}, most: 0 };
  window.receiversStub = stub;

  const isFailing = (i) => i % 1000 === 7;
  const isDisabled = (i) => i % 2000 === 9;
  const isPaused = (i, name) => stub.changed[name] === "pause" || (i % 2500 === 11 && stub.changed[name] !== "resume");

  function receiver(name) {
    const i = Number(name.slice(-5));
    const state = isDisabled(i) ? "disabled" : isPaused(i, name) ? "paused" : "active";
    const fails = state === "active" && isFailing(i);
    return {
      sink: "webhooks", name, lane: i + 1, state, state_since: ago(7200), state_reason: { disabled: "410 Gone", paused: "their migration" }[state] ?? null,
      failing_since: fails ? ago(900) : null, last_error: fails ? `503 Service Unavailable: ${html}` : null, last_failed_at: fails ? ago(2) : null,
      last_delivered_at: ago(fails ? 960 : 3), waiting: fails ? 40 + i : i % 3, waiting_is_exact: !fails, waiting_since: fails || i % 3 ? ago(900) : null,
      retrying: fails ? 2 : 0, blocked_keys: fails ? 1 : 0, dead: 0, rate: fails ? 0 : 1.5, p50: fails ? null : 0.004, p99: fails ? null : 0.1,
      url: `https://${name}.example/hook`, topics: ["**"], types: [], filter: null,
    };
  }

  const rank = (one) => (one.failing_since ? 0 : { disabled: 1, paused: 2, active: 3 }[one.state]);

  function listed(query) {
    const search = query.get("search") ?? "";
    const state = query.get("state") ?? "";
    const fits = (one) => state === "" || state === (one.failing_since ? "failing" : one.state);
    const found = names.filter((name) => `https://${name}.example/hook`.includes(search)).map(receiver).filter(fits)
      .sort((a, b) => rank(a) - rank(b) || b.waiting - a.waiting || (a.name < b.name ? -1 : 1));
    const offset = Number(query.get("offset") ?? 0);
    const receivers = found.slice(offset, offset + Number(query.get("limit") ?? 50));
    stub.most = Math.max(stub.most, receivers.length);
    return { total: found.length, receivers };
  }

  function story(name) {
    const attempt = (n) => ({
      at: ago(n * 10), outbox_id: 500 - n, event_id: "1e37750b-9cd0-47a0-af10-c56ddddf0004", topic: "orders.created", key: "42", type: null, number: n + 1,
      took: 0.012, outcome: n % 2 ? "delivered" : "retry", status: n % 2 ? 200 : 503, answer: n % 2 ? "200 OK" : html,
    });
    return { ...receiver(name), filter: null, concurrency: 8, rate_limit: 0, burst: 0, attempts: [0, 1, 2, 3].map(attempt) };
  }

  function trace(id) {
    const states = ["delivered", "delivered", "retrying", "waiting", "dead", "not_taken"];
    const delivery = (name, i) => {
      const state = i === 0 ? "retrying" : i < states.length ? states[i] : "delivered";
      return { sink: "webhooks", receiver: name, state, reason: state === "dead" ? "422 Unprocessable Content" : null, at: ago(5), took: 0.01,
        status: state === "delivered" ? 200 : null, attempts: 3, next_at: state === "retrying" ? ago(-60) : null };
    };
    const deliveries = [{ sink: "audit", receiver: null, state: "delivered", reason: null, at: ago(29), took: 0.001, status: null, attempts: 1, next_at: null }, ...names.map(delivery)];
    const order = ["dead", "retrying", "waiting", "delivered", "not_taken"];
    deliveries.sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
    return {
      event: { id: 499, event_id: "1e37750b-9cd0-47a0-af10-c56ddddf0004", topic: "orders.created", type: null, key: html, created_at: ago(30) },
      counts: Object.fromEntries(order.map((state) => [state, deliveries.filter((one) => one.state === state).length])),
      deliveries: deliveries.slice(0, 1000),
    };
  }

  function answer(url, method) {
    const [, , kind, name, verb] = url.pathname.split("/").map(decodeURIComponent);
    if (stub.isMissing) return [404, { error: "there is nothing at this path; see docs/admin.md" }];
    if (stub.isDown) return [503, { error: "PostgreSQL cannot be reached" }];
    if (kind === "trace") return name === "404" ? [404, { error: "there is no trace of that event" }] : [200, trace(name)];
    if (name === undefined) return [200, listed(url.searchParams)];
    if (method === "POST") stub.changed[name] = verb;
    return [200, method === "POST" ? {} : story(name)];
  }

  window.fetch = (path, options = {}) => {
    const url = new URL(path, location.href);
    if (!/^\/api\/(receivers|trace)(\/|$)/.test(url.pathname)) return ask(path, options);
    stub.asked.push(`${options.method ?? "GET"} ${url.pathname}${url.search}`);
    const [status, body] = answer(url, options.method ?? "GET");
    return Promise.resolve(new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } }));
  };
})();
