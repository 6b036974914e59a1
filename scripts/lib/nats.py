"""A small client of NATS JetStream for the demo and the benchmark: makes a stream, and reads it."""

import base64
import json
import socket


class Nats:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        self.file.readline()  # INFO
        self.socket.sendall(b'CONNECT {"verbose":false,"pedantic":true,"headers":true,'
                            b'"no_responders":true,"lang":"python","version":"1"}\r\n'
                            b"SUB _INBOX.reader 1\r\n")

    def close(self):
        self.file.close()
        self.socket.close()

    def request(self, name, /, **body):
        """What JetStream's API answers; an error is raised."""
        text = json.dumps(body).encode() if body else b""
        self.socket.sendall(b"PUB $JS.API.%s _INBOX.reader %d\r\n%s\r\n"
                            % (name.encode(), len(text), text))
        while True:
            words = self.file.readline().split()
            if not words:
                raise ConnectionError("NATS hung up")
            if words[0] == b"PING":
                self.socket.sendall(b"PONG\r\n")
            elif words[0] in (b"MSG", b"HMSG"):
                answer = self.file.read(int(words[-1]) + 2)
                break
            elif words[0] not in (b"INFO", b"PONG", b"+OK"):
                raise RuntimeError(b" ".join(words).decode())
        if words[0] == b"HMSG":  # no one answers
            raise RuntimeError(f"{name}: {answer.decode().strip()}")
        answer = json.loads(answer)
        if "error" in answer:
            raise RuntimeError(f"{name}: {answer['error']['description']}")
        return answer

    def create_stream(self, name, subjects, **settings):
        self.request(f"STREAM.CREATE.{name}", name=name, subjects=subjects, storage="file",
                     **settings)

    def delete_stream(self, name):
        self.request(f"STREAM.DELETE.{name}")

    def state(self, name):
        """messages, bytes, first_seq, last_seq, …"""
        return self.request(f"STREAM.INFO.{name}")["state"]

    def messages(self, name, after=0):
        """(sequence number, subject, headers, body) of each message behind the one of this number."""
        for number in range(after + 1, self.state(name)["last_seq"] + 1):
            message = self.request(f"STREAM.MSG.GET.{name}", seq=number)["message"]
            lines = base64.b64decode(message.get("hdrs", "")).decode().split("\r\n")[1:]
            headers = {name: value.strip() for name, _, value in
                       (line.partition(":") for line in lines if line)}
            yield (number, message["subject"], headers,
                   base64.b64decode(message.get("data", "")).decode())
