"""Keeps what arrives at a broker: broker_reader.py nats|rabbitmq|kafka PORT_FILE RECEIVED_FILE

Consumes with a client that has nothing to do with pgcourier, and writes one JSON line for each
message to RECEIVED_FILE. The relay makes the stream, the exchange and its queue, and the topic: until
then the reader asks again.
"""

import json
import sys
import time

RETRY_S = 0.1


def read_nats(port):
    from nats import Nats  # scripts/lib: a small client
    client, last = Nats(port), 0
    while True:
        try:
            for last, subject, headers, body in client.messages("shop", after=last):
                yield {"id": headers["Nats-Msg-Id"], "subject": subject, "body": body}
        except RuntimeError:  # there is no such stream yet
            pass
        time.sleep(RETRY_S)


def read_rabbitmq(port):
    import pika
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    while True:
        try:
            for _, properties, body in connection.channel().consume("shop", auto_ack=True):
                yield {"id": properties.message_id, "type": properties.type,
                       "topic": properties.headers["topic"], "body": body.decode()}
        except pika.exceptions.ChannelClosedByBroker:  # there is no such queue yet
            connection.sleep(RETRY_S)


def read_kafka(port):
    from kafka import KafkaConsumer, TopicPartition
    consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest")
    while not (partitions := consumer.partitions_for_topic("shop.orders")):
        time.sleep(RETRY_S)
    consumer.assign([TopicPartition("shop.orders", number) for number in partitions])
    for record in consumer:
        headers = dict(record.headers)
        yield {"id": headers["id"].decode(), "key": record.key.decode(),
               "partition": record.partition, "body": record.value.decode()}


def main():
    broker, port_file, received_file = sys.argv[1:]
    with open(port_file, encoding="ascii") as file:
        port = int(file.read())
    read = {"nats": read_nats, "rabbitmq": read_rabbitmq, "kafka": read_kafka}[broker]
    with open(received_file, "a", buffering=1, encoding="utf-8") as received:
        for message in read(port):
            received.write(json.dumps(message) + "\n")


main()
