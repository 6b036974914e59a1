#!/usr/bin/python3
"""A mail server for tests and benchmarks: aiosmtpd on 127.0.0.1, scripted.

Each accepted mail becomes one JSON line in --mailbox:
  mail_from, rcpt_tos   the envelope
  message_id, event_id  from the headers, or null
  received_at           Unix time
  connection            its number: mails of one connection have the same
  data                  the mail as it arrived, dots unstuffed
  headers               [[name, decoded value], ...]
  parts                 [[content type, decoded text], ...], containers left out; of a part with a
                        Content-Disposition [type, base64, disposition, file name, Content-ID]

What a recipient's local part says is done to the mail, for any domain. With "+N" at its end only
the first N times, e.g. defer450+2@example.org is a greylist that lets the third try pass:
  reject550  defer450   RCPT is answered with that code
  grey300               RCPT is answered with 450 and the wish to be asked again in 300 seconds
  hangup                the connection is dropped at RCPT
  data451               DATA is answered with that code; data0 drops the connection there
  after554              the code is the answer to the final dot
  drop                  accepted and recorded, but the connection is dropped instead of answering
  slow3000              the answer to the final dot waits that many milliseconds

What the file --mood says, if anything, is done to all mails at the moment:
  mail 450 4.7.1 later  MAIL is answered with that; after a 421 the connection is closed
  slow 500, drop        as above, for any recipient
"""

import argparse
import asyncio
import base64
import collections
import email
import email.policy
import json
import re
import signal
import ssl
import time

from aiosmtpd.smtp import SMTP, AuthResult

RULE = re.compile(r"(reject|defer|grey|hangup|data|after|drop|slow)(\d*)(?:\+(\d+))?@")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--mailbox", required=True, help="file of JSON lines, appended to")
    parser.add_argument("--commands", help="file with one line for each command: connection, command")
    parser.add_argument("--raw", help="file of all bytes that came in, as they came")
    parser.add_argument("--greeting", help="greet with this line and hang up")
    parser.add_argument("--ehlo", help="answer to every EHLO and HELO, e.g. '502 5.5.1 what'")
    parser.add_argument("--starttls", help="answer to every STARTTLS, e.g. '454 4.7.0 not now'")
    parser.add_argument("--mail", help="answer to every MAIL, e.g. '550 5.7.1 not you'")
    parser.add_argument("--mood", help="file that says how mails fail at the moment, see above")
    parser.add_argument("--second-mail", help="answer to MAIL on a connection that has delivered, after "
                        "which it is closed; 'drop' closes it without an answer")
    parser.add_argument("--auth", help="USER:PASSWORD, required before MAIL")
    parser.add_argument("--auth-reply", help="answer to a wrong login; {password} is what was tried")
    parser.add_argument("--auth-without-tls", action="store_true", help="offer AUTH in clear")
    parser.add_argument("--auth-not-by", help="a login method that is not offered, e.g. PLAIN")
    parser.add_argument("--client-ca", help="asks for a certificate of this authority within TLS")
    parser.add_argument("--tls-cert", help="offers STARTTLS (or, with --implicit-tls, speaks TLS)")
    parser.add_argument("--tls-key")
    parser.add_argument("--implicit-tls", action="store_true")
    parser.add_argument("--require-starttls", action="store_true")
    parser.add_argument("--delay", type=int, default=0, help="milliseconds before the final answer")
    parser.add_argument("--max-size", type=int, default=33554432)
    return parser.parse_args()


def describe_part(part):
    disposition = part.get_content_disposition()
    if disposition is None:
        return [part.get_content_type(), part.get_content()]
    return [part.get_content_type(), base64.b64encode(part.get_payload(decode=True)).decode(),
            disposition, part.get_filename(), part["Content-ID"]]


class Mailbox:
    """What outlives a connection."""

    def __init__(self, options):
        self.options = options
        self.file = open(options.mailbox, "a", encoding="utf-8")
        self.commands = open(options.commands, "a", encoding="utf-8") if options.commands else None
        self.raw = open(options.raw, "ab", buffering=0) if options.raw else None
        self.n_connections = 0
        self.times_used = collections.Counter()

    def mood(self):
        """The kind and the rest of what is done to all mails now."""
        try:
            with open(self.options.mood or "", encoding="utf-8") as file:
                kind, _, rest = file.read().strip().partition(" ")
                return kind, rest
        except FileNotFoundError:
            return "", ""

    def rule(self, address, kinds):
        """The (kind, number) that this address asks for now, or None."""
        match = RULE.match(address)
        if not match or match[1] not in kinds:
            return None
        if match[3] is not None:
            self.times_used[address] += 1
            if self.times_used[address] > int(match[3]):
                return None
        return match[1], int(match[2] or 0)

    def first_rule(self, addresses, kinds):
        for address in addresses:
            rule = self.rule(address, kinds)
            if rule:
                return rule
        return None

    def record_command(self, connection, command):
        if self.commands:
            self.commands.write(f"{connection} {command}\n")
            self.commands.flush()

    def record_mail(self, connection, envelope):
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        parts = [describe_part(part) for part in message.walk() if not part.is_multipart()]
        self.file.write(json.dumps({
            "mail_from": envelope.mail_from,
            "rcpt_tos": envelope.rcpt_tos,
            "message_id": message["Message-ID"],
            "event_id": message["X-Event-Id"],
            "received_at": time.time(),
            "connection": connection,
            "data": envelope.content.decode("utf-8", "backslashreplace"),
            "headers": [[name, str(value)] for name, value in message.items()],
            "parts": parts,
        }) + "\n")
        self.file.flush()


class Connection(SMTP):
    """aiosmtpd's server with the refusals that it has no hook for."""

    def __init__(self, mailbox, **settings):
        self.mailbox = mailbox
        self.number = 0
        self.n_mails = 0
        self.has_greeted = False
        super().__init__(self, **settings)

    def connection_made(self, transport):
        # STARTTLS comes here again.
        if self.number == 0:
            self.mailbox.n_connections += 1
            self.number = self.mailbox.n_connections
        super().connection_made(transport)

    def data_received(self, data):
        if self.mailbox.raw:
            self.mailbox.raw.write(data)
        super().data_received(data)

    async def push(self, status):
        greeting = self.mailbox.options.greeting
        if not self.has_greeted and greeting:
            status = greeting
        await super().push(status)
        if not self.has_greeted and greeting:
            self.transport.close()
        self.has_greeted = True

    def record(self, command, argument):
        self.mailbox.record_command(self.number, f"{command} {argument or ''}".rstrip())

    async def smtp_EHLO(self, hostname):
        self.record("EHLO", hostname)
        if self.mailbox.options.ehlo:
            await self.push(self.mailbox.options.ehlo)
        else:
            await super().smtp_EHLO(hostname)

    async def smtp_HELO(self, hostname):
        self.record("HELO", hostname)
        if self.mailbox.options.ehlo:
            await self.push(self.mailbox.options.ehlo)
        else:
            await super().smtp_HELO(hostname)

    async def smtp_STARTTLS(self, arg):
        self.record("STARTTLS", arg)
        if self.mailbox.options.starttls:
            await self.push(self.mailbox.options.starttls)
        else:
            await super().smtp_STARTTLS(arg)

    async def smtp_AUTH(self, arg):
        self.record("AUTH", arg.split()[0] if arg else "")
        await super().smtp_AUTH(arg)

    async def smtp_NOOP(self, arg):
        self.record("NOOP", arg)
        await super().smtp_NOOP(arg)

    async def smtp_QUIT(self, arg):
        self.record("QUIT", arg)
        await super().smtp_QUIT(arg)

    async def smtp_MAIL(self, arg):
        options = self.mailbox.options
        self.record("MAIL", arg)
        if self.n_mails > 0 and options.second_mail:
            if options.second_mail != "drop":
                await self.push(options.second_mail)
            self.transport.close()
        elif self.mailbox.mood()[0] == "mail":
            reply = self.mailbox.mood()[1]
            await self.push(reply)
            if reply.startswith("421"):
                self.transport.close()
        elif options.mail:
            await self.push(options.mail)
        else:
            await super().smtp_MAIL(arg)

    async def smtp_RCPT(self, arg):
        self.record("RCPT", arg)
        address = re.sub(r".*<(.*)>.*", r"\1", arg or "")
        rule = self.mailbox.rule(address, ("reject", "defer", "grey", "hangup"))
        if not rule:
            await super().smtp_RCPT(arg)
        elif rule[0] == "hangup":
            self.transport.close()
        elif rule[0] == "grey":
            await self.push(f"450 4.2.0 Greylisted, try again in {rule[1]} seconds")
        elif rule[0] == "reject":
            await self.push(f"{rule[1]}-5.1.1 no such mailbox:\r\n{rule[1]} 5.1.1 ask the postmaster")
        else:
            await self.push(f"{rule[1]} 4.2.0 greylisted, try again later")

    async def smtp_DATA(self, arg):
        self.record("DATA", arg)
        rule = self.mailbox.first_rule(self.envelope.rcpt_tos, ("data",))
        if rule and rule[1] == 0:
            self.transport.close()
        elif rule:
            await self.push(f"{rule[1]} 4.3.0 no mail now")
        else:
            await super().smtp_DATA(arg)

    async def handle_DATA(self, server, session, envelope):
        rule = self.mailbox.first_rule(envelope.rcpt_tos, ("after", "drop", "slow"))
        kind, number = rule or ("", 0)
        mood, argument = self.mailbox.mood()
        if mood in ("slow", "drop"):
            kind, number = mood, int(argument or 0)
        delay_ms = number if kind == "slow" else self.mailbox.options.delay
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
        if kind == "after":
            return f"{number} 5.6.0 content refused"
        self.n_mails += 1
        self.mailbox.record_mail(self.number, envelope)
        if kind == "drop":
            self.transport.abort()
        return "250 2.0.0 taken"


def authenticator(options):
    user, _, password = (options.auth or "").partition(":")

    def authenticate(server, session, envelope, mechanism, data):
        tried = data.password.decode()
        if data.login.decode() == user and tried == password:
            return AuthResult(success=True)
        reply = options.auth_reply or "535 5.7.8 Authentication credentials invalid"
        return AuthResult(success=False, handled=False, message=reply.replace("{password}", tried))

    return authenticate if options.auth else None


async def serve(options):
    mailbox = Mailbox(options)
    tls = None
    if options.tls_cert:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(options.tls_cert, options.tls_key)
    if options.client_ca:
        tls.load_verify_locations(options.client_ca)
        tls.verify_mode = ssl.CERT_REQUIRED

    def connect():
        return Connection(
            mailbox,
            hostname="receiver.test",
            data_size_limit=options.max_size,
            tls_context=None if options.implicit_tls else tls,
            require_starttls=options.require_starttls,
            auth_required=bool(options.auth),
            auth_require_tls=not (options.auth_without_tls or options.implicit_tls),
            auth_exclude_mechanism=[options.auth_not_by] if options.auth_not_by else [],
            authenticator=authenticator(options))

    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    server = await loop.create_server(
        connect, "127.0.0.1", options.port, ssl=tls if options.implicit_tls else None,
        backlog=1024)
    await stopped.wait()
    server.close()


asyncio.run(serve(parse_arguments()))
