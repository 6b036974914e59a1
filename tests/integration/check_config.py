"""Holds `pgcourier config schema` against `pgcourier check`: what the schema refuses, check refuses,
and files that are right pass both. And what `pgcourier config show` says, and does not say."""

import json
import os
import subprocess
import sys
import tempfile

import jsonschema
import yaml

PROGRAM = os.environ["PGCOURIER"]
HEAD = "postgres: {dsn: dbname=x}\nsinks:\n"
SINK = HEAD + "  - {name: a, topics: [x], "

GOOD = [
    SINK + "stdout: {}}\n",
    SINK + "redis: {url: 'redis://h', db: 0, maxlen: 1000}}\n",
    SINK + "max_in_flight: 10, max_event_bytes: 64KiB, retry: {delays: [1m, 90s]}, stdout: {}}\n",
    SINK + "http: {url: 'https://h/', http_version: 1.1, gzip: true, batch: {linger: 0}}}\n",
    SINK + "email: {url: 'smtp://h', from: a@b.c, tls: none}}\n",
    SINK + "nats: {servers: [h], stream: s, create_stream: {subjects: ['a.>']}, duplicates: none}}\n",
    SINK + "rabbitmq: {servers: [h], exchange: '', routing_key: '', declare: {queues: [{name: q}]}}}\n",
    f"relay: {{modules: {os.path.dirname(PROGRAM)}/modules}}\n" + SINK
    + "kafka: {brokers: [h], compression: none, properties: ['socket.keepalive.enable=true']}}\n",
    SINK + "max_in_flight: '${FLIGHT:-5}', order: '${ORDER:-none}', stdout: {payload: '${P:-false}'}}\n",
    "postgres: {dsn_file: %s}\nlog: {level: debug}\n" + SINK[len("postgres: {dsn: dbname=x}\n"):] + "stdout: {}}\n",
]
BAD = [
    HEAD + "  []\n",
    "sinks: [{name: a, topics: [x], stdout: {}}]\n",
    SINK + "stdout: {}, colour: red}\n",
    SINK + "stdout: {payload: maybe}}\n",
    SINK + "stdout: {}, redis: {url: 'redis://h'}}\n",
    SINK + "nats: {servers: [h], password: ''}}\n",
    SINK + "rabbitmq: {servers: [h]}}\n",
    SINK + "kafka: {brokers: []}}\n",
    SINK + "kafka: {brokers: [h]}, nats: {servers: [h]}}\n",
    SINK + "max_in_flight: 1}\n",
    SINK + "max_in_flight: many, stdout: {}}\n",
    SINK + "order: sometimes, stdout: {}}\n",
    SINK + "park_after: 5, stdout: {}}\n",
    SINK + "retry: {delays: 1m}, stdout: {}}\n",
    SINK + "max_event_bytes: 1 MB, stdout: {}}\n",
    HEAD + "  - {name: a, topics: [], stdout: {}}\n",
    HEAD + "  - {topics: [x], stdout: {}}\n",
    "postgres: {dsn: dbname=x, dsn_file: %s}\n" + SINK[len("postgres: {dsn: dbname=x}\n"):] + "stdout: {}}\n",
]


SHOWN = """postgres: {dsn: dbname=canary, password_file: %s}
log: {level: '${LEVEL:-warn}'}
sinks:
  - {name: a, topics: [x], http: {url: 'https://h/canary', timeout: 7s,
     secrets_file: %s, auth: {bearer: 'canary-${TOKEN}'}, set_headers: [{name: n, value: canary}]}}
  - {name: b, topics: ['${file:%s}'], stdout: {}}
"""
LINES = [
    "postgres.dsn: ***  # file, line 1",
    "postgres.password: ***  # secret file %s",
    "relay.sweep: 5s  # default",
    "log.level: warn  # variable LEVEL, line 2",
    "sinks[0].max_event_bytes: 1MiB  # default",
    "sinks[0].http.timeout: 7s  # file, line 4",
    "sinks[0].http.secrets[0]: ***  # secret file %s",
    "sinks[0].http.auth.bearer: ***  # variable TOKEN, line 5",
    "sinks[1].topics[0]: ***  # secret file %s, line 6",
]


def count_wrong_lines(folder):
    """Lines that `config show` lacks, and secrets that it tells."""
    secret = os.path.join(folder, "secret")
    path = os.path.join(folder, "shown.yaml")
    with open(secret, "w", encoding="utf-8") as file:
        file.write("whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write(SHOWN.replace("%s", secret))
    wrong = 0
    for more in [], ["--json"]:
        run = subprocess.run([PROGRAM, "config", "show", "-c", path, *more], capture_output=True, text=True,
                             check=False, env={**os.environ, "TOKEN": "canary"})
        if run.returncode != 0 or "canary" in run.stdout.replace(folder, "") or "whsec" in run.stdout:
            wrong += 1
            print(run.stdout, run.stderr)
        if not more:
            missing = [line for line in LINES if line.replace("%s", secret) not in run.stdout.splitlines()]
            wrong += len(missing)
            print("\n".join(missing), end="")
        else:
            json.loads(run.stdout)
    return wrong


def main():
    schema = json.loads(subprocess.run([PROGRAM, "config", "schema"], check=True, stdout=subprocess.PIPE).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        failures += count_wrong_lines(folder)
        dsn = os.path.join(folder, "dsn")
        with open(dsn, "w", encoding="utf-8") as file:
            file.write("dbname=x\n")
        for text, is_good in [(t, True) for t in GOOD] + [(t, False) for t in BAD]:
            text = text.replace("%s", dsn)
            path = os.path.join(folder, "c.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            checked = subprocess.run([PROGRAM, "check", "-c", path], capture_output=True, text=True, check=False)
            errors = [error.message for error in validator.iter_errors(yaml.safe_load(text))]
            if (checked.returncode == 0) != is_good or (not errors) != is_good:
                failures += 1
                print(f"{text}check: {checked.returncode} {checked.stdout}{checked.stderr}schema: {errors}\n")
    print(f"{len(GOOD)} good files and {len(BAD)} bad ones, {failures} misjudged")
    sys.exit(failures > 0)


main()
