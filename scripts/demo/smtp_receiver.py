"""A mail server that keeps what it is sent: smtp_receiver.py PORT_FILE RECEIVED_FILE

Writes the port it was given to PORT_FILE and one JSON line for each mail to RECEIVED_FILE. The
event's id is the left side of the Message-ID.
"""

import asyncio
import email
import email.policy
import json
import sys

from aiosmtpd.smtp import SMTP

from arrivals import announce_port


class Mailbox:
    def __init__(self, received):
        self.received = received

    async def handle_DATA(self, _server, _session, envelope):
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        line = {"id": mail["message-id"].strip("<> ").partition("@")[0],
                "to": envelope.rcpt_tos, "subject": mail["subject"]}
        self.received.write(json.dumps(line) + "\n")
        return "250 OK"


async def main():
    port_file, received_file = sys.argv[1:]
    mailbox = Mailbox(open(received_file, "a", buffering=1, encoding="utf-8"))
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(mailbox, hostname="receiver.example.org"), "127.0.0.1", 0)
    announce_port(port_file, server.sockets[0].getsockname()[1])
    await server.serve_forever()


asyncio.run(main())
