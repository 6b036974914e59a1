"""A webhook receiver that shows what comes: echo.py PORT"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer()

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        print(self.headers.get("webhook-id", "-"), body.decode(errors="replace"))
        self.answer()

    def answer(self):
        self.send_response(204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("", int(sys.argv[1])), Echo).serve_forever()
