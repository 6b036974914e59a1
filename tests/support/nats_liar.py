"""Greets like a NATS server, and then says what no real one can be brought to say.

nats_liar.py PORT INFO ANSWER

INFO is the JSON object of the first line. ANSWER is what each publication is answered with, where
REPLY stands for its reply subject and the text is taken as Python's escapes have it; "".
"""

import socket
import sys
import threading


def serve(client, info, answer):
    file = client.makefile("rb")
    client.sendall(b"INFO " + info + b"\r\n")
    while words := file.readline().split():
        if words[0] == b"PING":
            client.sendall(b"PONG\r\n")
        if words[0] in (b"PUB", b"HPUB"):
            file.read(int(words[-1]) + 2)
            client.sendall(answer.replace(b"REPLY", words[2]))


def main():
    port, info, answer = sys.argv[1:]
    answer = answer.encode().decode("unicode_escape").encode("latin-1")
    with socket.create_server(("127.0.0.1", int(port))) as listener:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(client, info.encode(), answer),
                             daemon=True).start()


main()
