"""What the page is looked at with: a private PostgreSQL, a receiver with moods, and a real relay."""

import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import traceback
import urllib.error
import urllib.request

import psycopg2

from webdriver import Browser, free_port

TOKEN = "a-token-for-this-test-only"


def find_programs():
    folder = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True).stdout.strip()
    if os.path.exists(f"{folder}/initdb"):
        return folder
    return str(max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name)))


class PatientServer(http.server.ThreadingHTTPServer):
    request_queue_size = 1024  # with 5, as it is, a burst of connections waits a second


class Receiver:
    """Answers each webhook as its payload's `mood` says; can be off, and then nothing listens."""

    def __init__(self):
        self.port = free_port()
        self.server = None
        self.mended = set()  # moods that are answered with 200 from now on
        self.seen = []
        self.turn_on()

    def turn_on(self):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                mood = body.get("mood", "")
                receiver.seen.append(body)
                if mood == "" or mood in receiver.mended:
                    self.answer(200, "")
                elif mood == "fails":
                    self.answer(500, "database is locked")
                else:
                    self.answer(422, '{"error":"unknown article"}', ("webhook-delivery", "abort-message"))

            def answer(self, status, text, *headers):
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        self.server = PatientServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def turn_off(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None


class Stack:
    """Use it with `with`."""

    def __init__(self):
        self.program = os.path.abspath(os.environ["PGCOURIER"])
        self.folder = tempfile.mkdtemp(prefix="pgcourier-page-")
        os.chmod(self.folder, 0o755)
        self.processes = []
        self.server = None
        self.receivers = []
        self.relay = None
        self.sinks = []
        self.settings = ""  # more lines of the configuration
        self.port = free_port()
        self.admin = f'listen: "127.0.0.1:{self.port}", token: "{TOKEN}"'
        self.url = f"http://127.0.0.1:{self.port}/"
        self.dsn = f"host={self.folder} user=postgres dbname=shop"
        try:
            self.start_postgres()
            subprocess.run([self.program, "migrate", "--dsn", self.dsn], check=True, stdout=subprocess.DEVNULL)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def start_postgres(self):
        user = "postgres" if os.geteuid() == 0 else None
        programs = find_programs()
        data = f"{self.folder}/data"
        if user:
            shutil.chown(self.folder, user)
        common = {"user": user, "group": user, "extra_groups": [], "cwd": self.folder} if user else {"cwd": self.folder}
        subprocess.run([f"{programs}/initdb", "-D", data, "-N", "-A", "trust", "-E", "UTF8", "--locale", "C", "-U", "postgres"],
                       check=True, stdout=subprocess.DEVNULL, **common)
        self.server_arguments = [f"{programs}/postgres", "-D", data, "-k", self.folder, "-c", "listen_addresses=", "-c", "fsync=off",
                                 "-c", "autovacuum_naptime=1"]
        self.server_options = common
        self.start_server()
        self.execute("CREATE DATABASE shop", database="postgres")

    def start_server(self):
        self.server = subprocess.Popen(self.server_arguments, stderr=open(f"{self.folder}/postgres.log", "ab"), **self.server_options)
        Browser.await_true(lambda: self.try_connect("postgres"), "answer from PostgreSQL")

    def stop_postgres(self):
        self.server.send_signal(signal.SIGINT)
        self.server.wait()

    def try_connect(self, database):
        try:
            psycopg2.connect(self.dsn.replace("dbname=shop", f"dbname={database}")).close()
            return True
        except psycopg2.OperationalError:
            return False

    def connect(self, database="shop"):
        connection = psycopg2.connect(self.dsn.replace("dbname=shop", f"dbname={database}"))
        connection.autocommit = True
        return connection

    def execute(self, statement, *parameters, database="shop"):
        connection = self.connect(database)
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement, parameters)
                return cursor.fetchall() if cursor.description else None
        finally:
            connection.close()

    def publish(self, topic, key, **payload):
        self.execute("SELECT courier.publish(%s, %s, key => %s)", topic, json.dumps(payload), key)

    def receiver(self):
        receiver = Receiver()
        self.receivers.append(receiver)
        return receiver

    def start_relay(self):
        config = f"{self.folder}/pgcourier.yaml"
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'postgres: {{ dsn: "{self.dsn}" }}\nadmin: {{ {self.admin} }}\n{self.settings}'
                       "sinks:\n" + "".join(f"  - {sink}\n" for sink in self.sinks))
        os.chmod(config, 0o600)
        self.relay = subprocess.Popen([self.program, "run", "-c", "pgcourier.yaml"], cwd=self.folder, stdout=open(f"{self.folder}/out.log", "ab"),
                                      stderr=open(f"{self.folder}/relay.log", "ab"))

    def try_page(self):
        assert self.relay.poll() is None, self.relay_log()
        try:
            with urllib.request.urlopen(self.url, timeout=5) as answer:
                return answer.read().startswith(b"<!doctype html>")
        except urllib.error.URLError:
            return False

    def start_relay_anew(self, browser):
        """With other settings; the page is opened again, without a token."""
        browser.run("sessionStorage.clear()")
        browser.open("about:blank")
        self.stop_relay()
        self.start_relay()
        browser.await_true(self.try_page, "page")
        browser.open(self.url)

    def relay_log(self):
        with open(f"{self.folder}/relay.log", encoding="utf-8", errors="replace") as log:
            return log.read()[-4000:]

    def stop_relay(self):
        relay, self.relay = self.relay, None
        if relay:
            relay.send_signal(signal.SIGTERM)
            assert relay.wait(timeout=20) == 0, self.relay_log()

    def close(self):
        if self.relay:
            self.relay.kill()
            self.relay.wait()
        for process, by in reversed(self.processes):
            process.send_signal(by)
            process.wait()
        if self.server:
            self.stop_postgres()
        for receiver in self.receivers:
            receiver.turn_off()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_checks(checks, make_sinks, prepare=lambda stack: None):
    """Each of {name: check} that begins with check_, in order, as check(stack, browser, receiver); 0 if all pass."""
    checks = [(name, check) for name, check in checks.items() if name.startswith("check_")]
    passed = 0
    with Stack() as stack, Browser() as browser:
        receiver = stack.receiver()
        stack.sinks = make_sinks(receiver)
        prepare(stack)
        stack.start_relay()
        browser.await_true(stack.try_page, "page")
        try:
            for name, check in checks:
                check(stack, browser, receiver)
                passed += 1
                print(f"ok {passed} - {name.removeprefix('check_').replace('_', ' ')}", flush=True)
            stack.stop_relay()
        except Exception:
            print(f"not ok - {name}\n{traceback.format_exc()}\nconsole: {browser.log()}\npage:\n{browser.text('body')[:4000]}\n"
                  f"relay:\n{stack.relay_log()}")
    print(f"# pass {passed}\n# fail {len(checks) - passed}")
    return 0 if passed == len(checks) else 1
