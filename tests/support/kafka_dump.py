"""Prints all records of a topic as JSON, one on a line, by a client that shares no code with
librdkafka: kafka-python.

  kafka_dump.py BROKERS TOPIC
"""
import json
import sys

from kafka import KafkaConsumer, TopicPartition

consumer = KafkaConsumer(bootstrap_servers=sys.argv[1].split(","), auto_offset_reset="earliest",
                         enable_auto_commit=False, api_version=(2, 5, 0))
parts = [TopicPartition(sys.argv[2], n) for n in sorted(consumer.partitions_for_topic(sys.argv[2]))]
consumer.assign(parts)
ends = consumer.end_offsets(parts)
consumer.seek_to_beginning(*parts)


def text(data):
    return None if data is None else data.decode("utf-8")


while any(consumer.position(part) < ends[part] for part in parts):
    for records in consumer.poll(timeout_ms=1000).values():
        for record in records:
            print(json.dumps({"partition": record.partition, "key": text(record.key),
                              "value": text(record.value), "timestamp": record.timestamp,
                              "headers": [[name, text(value)] for name, value in record.headers]}))
