"""Speaks AMQP like RabbitMQ, and then says what no real one can be brought to say.

rabbitmq_liar.py PORT PULSE ANSWER

Every PULSE milliseconds comes a heartbeat. ANSWER is what each message is answered with: frames in
hexadecimal, without the channel's answers to opening and declaring, which are honest; "".
"""

import socket
import struct
import sys
import threading
import time

START, START_OK, TUNE, OPEN, OPEN_OK = (10, 10), (10, 11), (10, 30), (10, 40), (10, 41)
PUBLISH = (60, 40)
HONEST = {(20, 10): ((20, 11), b"\0\0\0\0"), (40, 10): ((40, 11), b""), (85, 10): ((85, 11), b"")}
HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"


def method(channel, number, fields=b""):
    payload = struct.pack(">HH", *number) + fields
    return struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce"


def frames(file):
    while len(head := file.read(7)) == 7:
        kind, channel, size = struct.unpack(">BHI", head)
        payload = file.read(size)
        file.read(1)
        yield kind, channel, payload


def answer_to(number, answer):
    if number == START_OK:
        return method(0, TUNE, struct.pack(">HIH", 1, 131072, 60))
    if number == OPEN:
        return method(0, OPEN_OK, b"\0")
    if number in HONEST:
        return method(1, *HONEST[number])
    return answer if number == PUBLISH else b""


def beat(client, pulse):
    try:
        while True:
            time.sleep(pulse)
            client.sendall(HEARTBEAT)
    except OSError:
        pass


def serve(client, pulse, answer):
    file = client.makefile("rb")
    file.read(8)
    client.sendall(method(0, START, b"\0\x09" + bytes(4) + b"\0\0\0\x05PLAIN" + b"\0\0\0\x05en_US"))
    threading.Thread(target=beat, args=(client, pulse), daemon=True).start()
    for kind, _, payload in frames(file):
        if kind == 1:
            client.sendall(answer_to(struct.unpack(">HH", payload[:4]), answer))


def main():
    port, pulse, answer = sys.argv[1:]
    with socket.create_server(("127.0.0.1", int(port))) as listener:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(client, int(pulse) / 1000, bytes.fromhex(answer)),
                             daemon=True).start()


main()
