"""Plants secrets and payloads, and looks for them in everything that pgcourier says.

Every way in which a secret gets into a relay, and every way in which people look at one: while all goes
well, while nothing can be reached, and when the configuration is wrong.
"""

import base64
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "browser"))
# pylint: disable=wrong-import-position
from stack import Stack  # noqa: E402
from webdriver import Browser, free_port  # noqa: E402

SIGNING = b"canary-signing-secret-0123456789"
CANARIES = {
    "canary-postgres": "postgres.password",
    "canary-in-the-environment": "the dsn, from an environment variable",
    "canary-admin-token": "admin.token_file",
    base64.b64encode(SIGNING).decode(): "http.secret",
    "canary-basic": "http.auth.password",
    "canary-bearer": "http.auth.bearer",
    "canary-header": "http.set_headers",
    "canary-redis": "the password in redis.url",
    "canary-dsn": "a piece of the dsn",
    "canary-mail": "email.password",
    "canary-token": "nats.token",
    "canary-rabbit": "rabbitmq.password",
    "canary-kafka": "kafka.password",
    "canary-payload": "an event's payload",
    "canary-of-an-event": "an event's header",
}

CONFIG = """
postgres: {postgres}
admin: {{ listen: "127.0.0.1:{port}", token_file: {folder}/token }}
relay: {{ modules: {modules} }}
log: {{ level: debug, format: {format} }}
sinks:
  - name: refused
    topics: ["**"]
    retry: {{ first: 10ms, max: 10ms, attempts: 3 }}
    http:
      url: "http://127.0.0.1:{receiver}/hook"
      secret: "whsec_{signing}"
      set_headers: [{{ name: x-key, value: canary-header }}]
      auth: {{ user: shop, password: canary-basic }}
  - name: away
    topics: ["**"]
    http: {{ url: "http://127.0.0.1:{closed}/hook", signing: none, auth: {{ bearer: canary-bearer }} }}
  - name: stream
    topics: ["**"]
    redis: {{ url: "redis://shop:canary-redis@127.0.0.1:{closed}" }}
  - name: mails
    topics: ["**"]
    email: {{ url: "smtp://127.0.0.1:{closed}", from: shop@example.org, user: shop, password: canary-mail, tls: none }}
  - name: bus
    topics: ["**"]
    nats: {{ servers: ["127.0.0.1:{closed}"], token: canary-token }}
  - name: rabbit
    topics: ["**"]
    rabbitmq: {{ servers: ["127.0.0.1:{closed}"], exchange: e, user: shop, password: canary-rabbit }}
  - name: kafka
    topics: ["**"]
    kafka: {{ brokers: ["127.0.0.1:{closed}"], sasl: plain, user: shop, password: canary-kafka }}
"""

# Wrong in a way that tempts a message to quote what is beside the fault.
BROKEN = [
    "postgres: { dsn: \"host=h passwort=canary-postgres\" }\nsinks: []\n",
    "postgres: { dsn: \"postgresql://relay:canary-postgres@h:port:port/shop\" }\nsinks: []\n",
    "postgres: { dsn: host=h, password: [canary-postgres] }\nsinks: []\n",
    "postgres: { dsn: host=h }\nsinks: [{ name: a, topics: [a], redis: { url: \"redis://:canary-redis@h:no\" } }]\n",
    "postgres: { dsn: host=h }\nsinks: [{ name: a, topics: [a], http: { url: \"https://shop:canary-basic@h/\" } }]\n",
    "postgres: { dsn: host=h }\nsinks: [{ name: a, topics: [a], http: { url: \"https://h/\", secret: canary-header } }]\n",
    "postgres: { dsn: host=h }\nsinks: [{ name: a, topics: [a], nats: { servers: [\"nats://canary-token@h\"] } }]\n",
    "postgres: { dsn: host=h }\nsinks: [{ name: a, topics: [a], rabbitmq: { servers: [\"amqp://u:canary-rabbit@h/v\"], exchange: e } }]\n",
    "postgres: { dsn: host=h }\nsinks: [{ name: a, topics: [a], kafka: { brokers: [h], properties: [\"sasl.password=canary-kafka\"] } }]\n",
    "postgres: { dsn: host=h }\nadmin: { token: canary-admin }\nsinks: []\n",
    "postgres: { dsn: host=h }\nadmin: { token: canary-admin-token, tokn: a }\nsinks: []\n",
]


# A password where libpq looks for something else: alone in the file, or not percent-encoded.
BROKEN_DSNS = [
    "canary-dsn",
    "canary-dsn=",
    "postgresql://relay:canary-dsn/more@127.0.0.1/shop",
    "postgresql://relay:1234/canary-dsn@127.0.0.1/shop",
    "postgresql://relay:more@canary-dsn@127.0.0.1/shop",
    "postgresql://relay:more@canary-dsn/x@127.0.0.1/shop",
    "postgresql://relay:more@canary-dsn:x@127.0.0.1/shop",
    "postgresql://relay:1?canary-dsn/more@127.0.0.1/shop",
    "postgresql://relay:%zzcanary-dsn@127.0.0.1/shop",
    "host=127.0.0.1 port=canary-dsn",
    "host=127.0.0.1 password=more canary-dsn user=relay",
    "host=127.0.0.1 password=more sslmode=canary-dsn",
    "hostaddr=canary-dsn",
]


class Outputs:
    """What was said so far, by whom."""

    def __init__(self):
        self.found = []
        self.n = 0

    def add(self, name, text):
        self.n += 1
        if not text:
            raise AssertionError(f"{name}: nothing was said")
        for canary, planted in CANARIES.items():
            if canary in text:
                line = next(line for line in text.splitlines() if canary in line)
                self.found.append(f"{name} tells {planted}: {line[:400]}")


def run(stack, outputs, *words):
    said = subprocess.run([stack.program, *words], cwd=stack.folder, capture_output=True, text=True, check=False,
                          env={**os.environ, "CANARY": "canary-in-the-environment"})
    outputs.add("pgcourier " + " ".join(words), said.stdout + said.stderr)


def ask(stack, outputs, method, path, body=None):
    request = urllib.request.Request(stack.url + path, method=method, data=body, headers={
        "Authorization": "Bearer canary-admin-token", "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            text = answer.read(1 << 20) if path != "api/events" else answer.read1(1 << 16) + answer.read1(1 << 16)
    except urllib.error.HTTPError as error:
        text = error.read()
    outputs.add(f"{method} /{path}", text.decode())


def look_at(stack, log_format, postgres, outputs):
    config = CONFIG.format(postgres=postgres.replace("FOLDER", stack.folder), folder=stack.folder, port=stack.port, format=log_format, receiver=stack.receivers[0].port,
                           closed=free_port(), modules=os.path.join(os.path.dirname(stack.program), "modules"), signing=base64.b64encode(SIGNING).decode())
    path = f"{stack.folder}/secrets.yaml"
    log_path = f"{stack.folder}/{log_format}.log"
    with open(path, "w", encoding="utf-8") as file:
        file.write(config)
    with open(f"{stack.folder}/token", "w", encoding="ascii") as file:
        file.write("canary-admin-token\n")
    control = Outputs()
    control.add("the configuration itself", config)
    assert control.found, "a secret would not be found"

    with open(log_path, "wb") as log:
        relay = subprocess.Popen([stack.program, "run", "-c", path], stderr=log, stdout=log,
                                 env={**os.environ, "CANARY": "canary-in-the-environment"})
    try:
        Browser.await_true(lambda: b"lane_owned" in open(log_path, "rb").read(), "lane")
        for mood in ("poison", "poison", "poison", ""):
            stack.execute("SELECT courier.publish('orders.created', %s, headers => %s)",
                          json.dumps({"mood": mood, "card": "canary-payload"}),
                          json.dumps({"x-trace": "canary-of-an-event"}))
        for event in (b"dead_letter", b"delivered"):
            Browser.await_true(lambda: event in open(log_path, "rb").read(), event)
        outputs.add("the process's words", open(f"/proc/{relay.pid}/cmdline", encoding="ascii").read())
        for words in (["check"], ["check", "--connect"], ["doctor"], ["doctor", "--json"], ["config", "show"],
                      ["config", "show", "--json"], ["status"], ["status", "--json"], ["health"], ["health", "--ready"],
                      ["dead", "list"], ["dead", "list", "--json"], ["parked", "list"], ["parked", "list", "--json"],
                      ["cursor", "list"], ["reload"], ["send", "orders.created", "--data", "{}", "--timeout", "1s"]):
            run(stack, outputs, *words, "-c", path)
        for page in ("", "livez", "readyz", "metrics", "api/status", "api/dead", "api/events"):
            ask(stack, outputs, "GET", page)
        for action in ("api/sinks/refused/pause", "api/sinks/refused/resume", "api/sinks/nobody/pause", "api/log"):
            ask(stack, outputs, "POST", action, b'{"level": "canary"}' if action == "api/log" else b"{}")
    finally:
        relay.terminate()
        code = relay.wait(timeout=30)
    assert code == 0, f"the relay ended with {code}: {open(log_path).read()[-2000:]}"
    outputs.add(f"the log ({log_format})", open(log_path, encoding="utf-8").read())


def look_at_errors(stack, outputs):
    for number, text in enumerate(BROKEN):
        path = f"{stack.folder}/broken-{number}.yaml"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        run(stack, outputs, "check", "-c", path)
        run(stack, outputs, "run", "-c", path)
        run(stack, outputs, "config", "show", "-c", path)


def look_at_dsns(stack, outputs):
    path = f"{stack.folder}/dsn.yaml"
    for dsn in BROKEN_DSNS:
        with open(f"{stack.folder}/dsn", "w", encoding="ascii") as file:
            file.write(dsn + "\n")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"postgres: {{ dsn_file: {stack.folder}/dsn, connect_timeout: 2s }}\n"
                       f"admin: {{ listen: \"unix:{stack.folder}/dsn.sock\" }}\n"
                       "sinks: [{ name: a, topics: [\"**\"], stdout: {} }]\n")
        for words in (["check"], ["check", "--connect"], ["doctor"], ["doctor", "--json"], ["status"], ["run", "--once"],
                      ["migrate"], ["migrate", "status"], ["publish", "a", "--payload", "{}"], ["dead", "list"],
                      ["cursor", "list"], ["config", "show"], ["maintain"]):
            run(stack, outputs, *words, "-c", path)
        for words in (["doctor"], ["status"], ["migrate"], ["init", "--yes", "--sink", "stdout", "--force"]):
            run(stack, outputs, *words, "--dsn", dsn)
        with open(f"{stack.folder}/dsn.log", "wb") as log:
            relay = subprocess.Popen([stack.program, "run", "-c", path], stderr=log, stdout=log)
        try:
            relay.wait(timeout=3)  # most end at once; the others try again
        except subprocess.TimeoutExpired:
            run(stack, outputs, "status", "-c", path)
            relay.terminate()
            relay.wait(timeout=30)
        outputs.add(f"the log with {BROKEN_DSNS.index(dsn)}", open(f"{stack.folder}/dsn.log", encoding="utf-8").read())


def main():
    outputs = Outputs()
    with Stack() as stack:
        stack.execute("CREATE ROLE relay LOGIN IN ROLE courier_relay")
        stack.receiver()
        look_at(stack, "logfmt", '{ dsn: "host=FOLDER user=relay dbname=shop password=${CANARY}" }', outputs)
        look_at(stack, "json", '{ dsn: "host=FOLDER user=relay dbname=shop", password: canary-postgres }', outputs)
        look_at_errors(stack, outputs)
        look_at_dsns(stack, outputs)
    for line in outputs.found:
        print(line)
    print(f"{outputs.n} outputs, {len(outputs.found)} with a secret or a payload")
    sys.exit(bool(outputs.found))


if __name__ == "__main__":
    main()
