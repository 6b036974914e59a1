"""Reads what a NATS server has, by its protocol and with nothing of pgcourier's.

nats_reader.py subscribe PORT SUBJECT   says "reading", and reads until it is killed
nats_reader.py stream PORT STREAM       prints a JSON line for each message of a stream, in order
"""

import json
import socket
import sys
import uuid


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        self.file = self.socket.makefile("rb")
        self.file.readline()
        self.say(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')

    def say(self, data):
        self.socket.sendall(data)

    def read(self):
        """The next message: subject, reply, headers as a list of pairs, payload."""
        while True:
            words = self.file.readline().split()
            if not words:
                raise EOFError("the server has hung up")
            if words[0] == b"PING":
                self.say(b"PONG\r\n")
            if words[0] not in (b"MSG", b"HMSG"):
                continue
            with_headers = words[0] == b"HMSG"
            body = self.file.read(int(words[-1]))
            self.file.read(2)
            n = int(words[-2]) if with_headers else 0
            lines = body[:n].decode().split("\r\n")[1:]
            has_reply = len(words) == (6 if with_headers else 5)
            return (words[1].decode(), words[3].decode() if has_reply else "",
                    [line.split(":", 1) for line in lines if line], body[n:])


def print_stream(client, stream):
    """By a consumer that pushes, in order and without acknowledgements."""
    # A consumer outlives its reader for some seconds: it must not push to the next one, too.
    inbox = f"pushed.{uuid.uuid4()}"
    client.say(b"SUB answers 1\r\nSUB %s 2\r\n" % inbox.encode())
    wanted = {"stream_name": stream,
              "config": {"deliver_subject": inbox, "ack_policy": "none",
                         "deliver_policy": "all", "replay_policy": "instant"}}
    body = json.dumps(wanted).encode()
    client.say(b"PUB $JS.API.CONSUMER.CREATE.%s answers %d\r\n%s\r\n"
               % (stream.encode(), len(body), body))
    n_left = None
    while n_left is None or n_left > 0:
        subject, reply, headers, payload = client.read()
        if reply.startswith("$JS.ACK."):
            print(json.dumps({"subject": subject, "sequence": int(reply.split(".")[5]),
                              "headers": [[name, value.strip()] for name, value in headers],
                              "payload": payload.decode("latin-1")}))
            n_left = int(reply.split(".")[8])
            continue
        answer = json.loads(payload)
        if "error" in answer:
            raise SystemExit(f"{stream}: {answer['error']['description']}")
        if answer["num_pending"] == 0:
            return


def main():
    what, port, name = sys.argv[1:]
    client = Client(int(port))
    if what == "stream":
        print_stream(client, name)
        return
    client.say(b"SUB %s 1\r\nPING\r\n" % name.encode())
    while not client.file.readline().startswith(b"PONG"):
        pass
    print("reading", flush=True)
    while True:
        client.read()


main()
