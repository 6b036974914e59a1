"""Takes N messages out of a queue with pika, another client, and prints each as a line of JSON.

rabbitmq_drain.py PORT VHOST QUEUE N
rabbitmq_drain.py PORT VHOST QUEUE all: those that are there now
"""

import datetime
import json
import sys

import pika

PROPERTIES = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id",
    "reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id")


def plain(value):
    """What JSON knows no type for, as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return value


def describe(method, properties, body):
    found = {"exchange": method.exchange, "routing_key": method.routing_key,
             "redelivered": method.redelivered, "body": plain(body)}
    for name in PROPERTIES:
        value = getattr(properties, name)
        if value is not None:
            found[name] = value
    return json.dumps(found, default=plain, sort_keys=True, ensure_ascii=False)


def take(channel, queue, n):
    """No more than n leave the queue: what is put back might lose its place."""
    channel.basic_qos(prefetch_count=n)
    for method, properties, body in channel.consume(queue, inactivity_timeout=30):
        if method is None:
            sys.exit(f"{n} more are awaited in vain")
        print(describe(method, properties, body))
        n -= 1
        if n == 0:
            break
    channel.cancel()
    channel.basic_ack(method.delivery_tag, multiple=True)


def main():
    port, vhost, queue, n = sys.argv[1:]
    connection = pika.BlockingConnection(pika.ConnectionParameters(
        "127.0.0.1", int(port), vhost, pika.PlainCredentials("guest", "guest")))
    channel = connection.channel()
    is_bounded = n != "all"
    left = int(n) if is_bounded else channel.queue_declare(queue, passive=True).method.message_count
    while left > 0:
        take(channel, queue, min(left, 1000))
        left -= min(left, 1000)
    if is_bounded:
        method, properties, body = channel.basic_get(queue)
        if method is not None:
            sys.exit(f"one too many: {describe(method, properties, body)}")
    connection.close()


main()
