"""A webhook receiver that can be made to fail: what scripts/incidents plays its incidents with.

moody_receiver.py PORT MOOD_FILE

MOOD_FILE holds words: "refuse" answers payloads that have a member "unknown" with 422, "busy" those of
key 17 with 500. Without the file all is taken.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        mood = ""
        if os.path.exists(self.server.mood_path):
            with open(self.server.mood_path, encoding="ascii") as file:
                mood = file.read()
        if "refuse" in mood and "unknown" in event:
            self.answer(422, '{"error": "unknown article 4711"}')
        elif "busy" in mood and event.get("order") == 17:
            self.answer(500, "could not get a lock on account 17")
        else:
            self.answer(204, "")

    def answer(self, status, text):
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", str(len(text)))
        self.end_headers()
        if status != 204:
            self.wfile.write(text.encode())

    def log_request(self, code="-", size="-"):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[1])), Receiver)
    server.mood_path = sys.argv[2]
    server.serve_forever()
