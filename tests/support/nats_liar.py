"""Greets like a NATS server, and then says what no real one can be brought to say.

nats_liar.py PORT INFO ANSWER...

INFO is the JSON object of the first line. Each publication on a connection is answered with the next
ANSWER, and then with the last one again. REPLY stands for its reply subject there, and the text is
taken as Python's escapes have it; "". After the answer SILENCE no PING is answered.
"""

import socket
import sys
import threading


def serve(client, info, answers):
    file = client.makefile("rb")
    answers = list(answers)
    pong = b"PONG\r\n"
    client.sendall(b"INFO " + info + b"\r\n")
    while words := file.readline().split():
        if words[0] == b"PING":
            client.sendall(pong)
        if words[0] in (b"PUB", b"HPUB"):
            file.read(int(words[-1]) + 2)
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if answer == b"SILENCE":
                pong = b""
            else:
                client.sendall(answer.replace(b"REPLY", words[2]))


def main():
    port, info, *answers = sys.argv[1:]
    answers = [one.encode().decode("unicode_escape").encode("latin-1") for one in answers]
    with socket.create_server(("127.0.0.1", int(port))) as listener:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(client, info.encode(), answers),
                             daemon=True).start()


main()
