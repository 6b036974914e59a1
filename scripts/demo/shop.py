"""The shop: business transactions that publish events: shop.py FOLDER DSN TRANSACTIONS

Each transaction inserts an order and publishes what follows from it; some fail and are rolled back.
Every event goes to FOLDER/published, with the wall time just before its COMMIT was sent.
"""

import json
import random
import sys
import time

import psycopg2

from arrivals import Arrivals

PER_SECOND = 100


def publish(cursor, topic, key, body):
    cursor.execute("SELECT courier.publish(%s, %s, key => %s)", (topic, json.dumps(body), key))
    return {"id": cursor.fetchone()[0], "topic": topic}


def take_order(cursor, number):
    customer = f"customer{number % 50}@example.org"
    cents = random.randint(100, 20000)
    cursor.execute("INSERT INTO shop.orders (customer, cents) VALUES (%s, %s) RETURNING id",
                   (customer, cents))
    order = str(cursor.fetchone()[0])
    events = [publish(cursor, "orders.created", order, {"order": order, "cents": cents})]
    if number % 2 == 0:
        events.append(publish(cursor, "mail.receipt", order, {
            "to": customer, "subject": f"Your order {order}",
            "text": f"Thank you. We charged {cents / 100:.2f}.\n"}))
    if number % 10 == 0:
        events.append(publish(cursor, "refunds.created", order, {"order": order, "cents": cents}))
    return events


def show(began, number, arrivals):
    counts = ", ".join(f"{sink} {len(ids)}" for sink, ids in arrivals.ids().items())
    print(f"  {time.monotonic() - began:4.1f} s: {number} transactions; arrived: {counts}", flush=True)


def main():
    folder, dsn, transactions = sys.argv[1], sys.argv[2], int(sys.argv[3])
    arrivals = Arrivals(folder)
    connection = psycopg2.connect(dsn)
    cursor = connection.cursor()
    began = time.monotonic()
    with open(f"{folder}/published", "w", encoding="ascii") as published:
        for number in range(1, transactions + 1):
            time.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
            events = take_order(cursor, number)
            committed = number % 9 != 0
            commit_us = time.time_ns() // 1000
            if committed:
                connection.commit()
            else:
                connection.rollback()
            for event in events:
                event.update(committed=committed, commit_us=commit_us)
                published.write(json.dumps(event) + "\n")
            if number % PER_SECOND == 0:
                show(began, number, arrivals)


main()
