"""A webhook receiver: HTTP/1.1 with keep-alive, checks the Standard Webhooks signature.

http_receiver.py PORT_FILE RECEIVED_FILE SECRET_FILE

Writes the port it was given to PORT_FILE and one JSON line for each accepted event to
RECEIVED_FILE. Anything without a valid signature is refused with 401.
"""

import base64
import hashlib
import hmac
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from arrivals import announce_port

TOLERANCE_S = 300


def signature_problem(secret, headers, body):
    """What is wrong with a request's signature, or None."""
    try:
        event_id = headers["webhook-id"]
        timestamp = headers["webhook-timestamp"]
        if abs(time.time() - int(timestamp)) > TOLERANCE_S:
            return "the timestamp is too far from now"
        signed = f"{event_id}.{timestamp}.".encode() + body
        expected = base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
        for signature in headers["webhook-signature"].split():
            if hmac.compare_digest(signature, "v1," + expected):
                return None
        return "no signature matches"
    except (AttributeError, TypeError, ValueError):
        return "webhook-id, webhook-timestamp and webhook-signature are required"


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        problem = signature_problem(self.server.secret, self.headers, body)
        if problem is not None:
            return self.answer(401, problem)
        line = {"id": self.headers["webhook-id"], "body": body.decode(errors="replace"),
                "signature": self.headers["webhook-signature"]}
        with self.server.lock:
            self.server.received.write(json.dumps(line) + "\n")
        return self.answer(204, "")

    def answer(self, status, text):
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", str(len(text)))
        self.end_headers()
        if status != 204:
            self.wfile.write(text.encode())
            print(f"refused with {status}: {text}", file=sys.stderr)

    def log_request(self, code="-", size="-"):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def main():
    port_file, received_file, secret_file = sys.argv[1:]
    server = Server(("127.0.0.1", 0), Receiver)
    with open(secret_file, encoding="ascii") as file:
        server.secret = base64.b64decode(file.read().strip().removeprefix("whsec_"))
    server.lock = threading.Lock()
    server.received = open(received_file, "a", buffering=1, encoding="utf-8")
    announce_port(port_file, server.server_port)
    server.serve_forever()


main()
