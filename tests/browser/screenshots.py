#!/usr/bin/python3
"""Pictures of the live page for the documentation: screenshots.py FOLDER"""

import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time

from stack import Stack
from webdriver import Browser, free_port

BUSY_S = 100  # enough for charts that show something
INCIDENT_S = 45
STORY_S = 70  # a receiver counts as failing after a minute


class Shop(threading.Thread):
    """Publishes as a shop of middling size would."""

    def __init__(self, stack):
        super().__init__(daemon=True)
        self.stack = stack
        self.is_over = False
        self.dice = random.Random(6)

    def run(self):
        connection = self.stack.connect()
        order = 0
        with connection.cursor() as cursor:
            while not self.is_over:
                for _ in range(self.dice.randrange(1, 9)):
                    order += 1
                    for topic in ("orders.created", "orders.paid", "mail.receipt"):
                        if topic == "mail.receipt" and order % 9:
                            continue
                        payload = {"to": "ann@example.org", "subject": f"Your order {order}", "text": "Thank you"}
                        cursor.execute("SELECT courier.publish(%s, %s, key => %s)", (topic, json.dumps(payload), str(order)))
                time.sleep(0.05)
        connection.close()


def is_listening(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def start_servers(stack):
    """Redis and a mail server; what they listen on."""
    redis_port, mail_port = free_port(), free_port()
    support = pathlib.Path(__file__).resolve().parent.parent / "support/smtp_receiver.py"
    for command in (["redis-server", "--port", str(redis_port), "--bind", "127.0.0.1", "--save", ""],
                    ["/usr/bin/python3", str(support), "--port", str(mail_port), "--mailbox", f"{stack.folder}/mails"]):
        log = open(f"{stack.folder}/servers.log", "ab")
        stack.processes.append((subprocess.Popen(command, cwd=stack.folder, stdout=log, stderr=log), signal.SIGTERM))
    for port in (redis_port, mail_port):
        Browser.await_true(lambda: is_listening(port), "Redis and a mail server")
    return redis_port, mail_port


CUSTOMERS = ["acme", "globex", "hooli", "initech", "massive-dynamic", "pied-piper", "soylent", "stark", "tyrell",
             "umbrella", "vandelay", "wayne"]


def add_customers(stack, up, down):
    """A row of courier.receiver for each; one of them is down, and one asked for a pause."""
    for name in CUSTOMERS:
        port = down.port if name == "initech" else up.port
        stack.execute("INSERT INTO courier.receiver (sink, name, url, topics) VALUES ('customers', %s, %s, '{orders.paid}')",
                      name, f"http://127.0.0.1:{port}/{name}")
    down.turn_off()


def take(browser, path, height):
    browser.run("scrollTo(0, 0); document.documentElement.style.scrollbarGutter = 'auto'")
    time.sleep(1.2)  # the figures of the second after it was resized
    browser.screenshot(path)
    print(f"{path}: {os.path.getsize(path) // 1000} kB, {height} px high")


def take_portal(folder):
    """What a customer sees of his receiver."""
    port = free_port()
    with Stack() as stack, Browser() as browser:
        acme = stack.receiver()
        stack.settings = f'portal: {{ listen: "127.0.0.1:{port}", base_url: "http://127.0.0.1:{port}/" }}\n'
        stack.sinks = ['{ name: webhooks, topics: ["**"], attempts: all, retry: { attempts: 1 }, http: { receivers: table, '
                       f'allow_networks: ["127.0.0.0/8"], allow_ports: [{acme.port}] }} }}']
        stack.start_relay()
        browser.await_true(stack.try_page, "page")
        browser.await_true(lambda: stack.execute("SELECT count(*) FROM courier.sink")[0][0] == 1, "sink that the relay serves")
        stack.execute("INSERT INTO courier.receiver (sink, name, url, topics) VALUES ('webhooks', 'acme', %s, '{orders.**}')",
                      f"http://127.0.0.1:{acme.port}/hook")
        for order in range(1, 7):
            stack.publish("orders.created" if order % 2 else "orders.paid", str(order), order=order, **({"mood": "refuses"} if order == 5 else {}))
        browser.await_true(lambda: stack.execute("SELECT count(*) FROM courier.attempt")[0][0] == 6, "attempts")
        link = subprocess.run([stack.program, "receiver", "link", "acme", "--manage", "-c", f"{stack.folder}/pgcourier.yaml"],
                              capture_output=True, text=True, check=True).stdout.strip()
        browser.set_screen(1280, 880)
        browser.open(link)
        browser.await_text("#rows", "given up")
        take(browser, f"{folder}/portal.png", 880)
        stack.stop_relay()


def main():
    folder = sys.argv[1]
    with Stack() as stack, Browser() as browser:
        redis_port, mail_port = start_servers(stack)
        billing, partners, up, down = (stack.receiver() for _ in range(4))
        stack.sinks = [
            f'{{ name: billing, topics: ["orders.*"], http: {{ url: "http://127.0.0.1:{billing.port}/hooks" }} }}',
            f'{{ name: orders-stream, topics: ["orders.*"], redis: {{ url: "redis://127.0.0.1:{redis_port}", stream: "events" }} }}',
            f'{{ name: partners, topics: ["orders.*", "stock.*"], http: {{ url: "http://127.0.0.1:{partners.port}/in" }}, retry: {{ delays: [1h] }} }}',
            f'{{ name: customers, topics: ["orders.*"], attempts: all, http: {{ receivers: table, '
            f'allow_networks: [127.0.0.0/8], allow_ports: [{up.port}, {down.port}] }} }}',
            f'{{ name: receipts, topics: ["mail.*"], email: {{ url: "smtp://127.0.0.1:{mail_port}", from: "shop@example.org" }} }}']
        stack.start_relay()
        shop = Shop(stack)
        shop.start()
        browser.await_true(stack.try_page, "page")
        browser.open(stack.url)
        browser.set_screen(1280, 1040)
        time.sleep(BUSY_S)

        browser.await_text("h1", "All well")
        take(browser, f"{folder}/page.png", 1040)
        browser.set_scheme("dark")
        take(browser, f"{folder}/page-dark.png", 1040)

        billing.turn_off()
        for n, mood in enumerate(["poison", "poison", "fails"]):
            stack.publish("stock.counted", f"shelf-{n}", mood=mood)
        time.sleep(1)
        for _ in range(4):
            stack.publish("stock.counted", "shelf-2")
        subprocess.run([stack.program, "pause", "receipts", "--reason", "new templates, back at three", "--dsn", stack.dsn], check=True,
                       stdout=subprocess.DEVNULL)
        browser.set_scheme("light")
        time.sleep(INCIDENT_S)
        browser.await_text("h1", "need a look")
        browser.set_screen(1280, 980)
        take(browser, f"{folder}/page-incidents.png", 980)
        browser.set_screen(360, 780, is_phone=True, scale=2)
        take(browser, f"{folder}/page-phone.png", 780)
        shop.is_over = True
        shop.join()

        # The story of a receiver that fails.
        browser.set_screen(1280, 980)
        add_customers(stack, up, down)
        stack.execute("UPDATE courier.receiver SET state = 'paused', state_reason = 'they move to another host'"
                      " WHERE name = 'tyrell'")
        for n in range(STORY_S * 2):
            stack.publish("orders.paid", str(n), order=n, total=n * 10)
            time.sleep(0.5)
        browser.open(f"{stack.url}#/receiver/customers/initech")
        browser.await_text(".sheet", "initech")
        take(browser, f"{folder}/page-receiver.png", 980)
        stack.stop_relay()
    take_portal(folder)


main()
