"""Books the orders that come as webhooks: each order once, however often its event comes.

The requests are those of a pgcourier sink of kind http with a secret (Standard Webhooks). SIGTERM
ends it when the requests at hand are answered. In a web framework, copy is_signed() and process().

Needs Python 3.9 and psycopg 3: pip install -r requirements.txt. Run: python3 webhook_receiver.py
Environment: WEBHOOK_SECRET, DATABASE_URL, PORT (8480), WEBHOOK_HEADER_PREFIX (webhook-)
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import signal
import threading
import time

import psycopg
import psycopg_pool

CONSUMER = "billing"
KEY = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
if not KEY:
    raise SystemExit("WEBHOOK_SECRET is empty")
PREFIX = os.environ.get("WEBHOOK_HEADER_PREFIX", "webhook-")
TOLERANCE_S = 300
MAX_BODY = 1 << 20


def is_signed(headers, body):
    """Whether one of the signatures is that of our secret, for these bytes and about this time."""
    event_id, sent_at = headers.get(PREFIX + "id", ""), headers.get(PREFIX + "timestamp", "")
    if not (sent_at.isdecimal() and len(sent_at) <= 12 and abs(time.time() - int(sent_at)) <= TOLERANCE_S):
        return False
    signed = f"{event_id}.{sent_at}.".encode() + body
    wanted = b"v1," + base64.b64encode(hmac.digest(KEY, signed, hashlib.sha256))
    # While the sender changes its secret, there are two.
    given = headers.get(PREFIX + "signature", "").encode().split()
    return any([hmac.compare_digest(one, wanted) for one in given])


def book(database, order):
    """The change. It need not be idempotent."""
    database.execute("INSERT INTO booking (order_id, cents) VALUES (%s, %s)", (order["order"], order["cents"]))


def process(event_id, order):
    """Accepts the event and makes the change in one transaction: both, or neither."""
    with databases.connection() as database:
        accepted = database.execute("SELECT courier_inbox.accept(%s, %s)", (CONSUMER, event_id)).fetchone()[0]
        if accepted:
            book(database, order)
        else:
            print("came again:", event_id, flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            return self.answer(413)
        body = self.rfile.read(int(length))
        if not is_signed(self.headers, body):
            return self.answer(401)
        event_id = self.headers[PREFIX + "id"]
        try:
            process(event_id, json.loads(body))
        except (psycopg.OperationalError, psycopg_pool.PoolTimeout):
            return self.answer(503)  # we are down: pgcourier waits, and charges the event nothing
        except Exception as error:
            self.log_error("%s: %r", event_id, error)
            return self.answer(500)  # this event is in trouble: it comes again, and ends as a dead letter
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")  # one thread for each connection: none is kept
        self.end_headers()

    def log_request(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = False  # server_close() waits for the requests at hand
    request_queue_size = 128


if __name__ == "__main__":
    with psycopg_pool.ConnectionPool(os.environ.get("DATABASE_URL", ""), min_size=1, max_size=8, timeout=5) as databases:
        with Server(("127.0.0.1", int(os.environ.get("PORT", "8480"))), Handler) as server:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
            server.serve_forever()
