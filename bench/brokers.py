"""The three brokers as destinations of a drain, and the bare client of each (bench/bare).

scripts/lib/servers.sh starts them, and says in FOLDER/BROKER.port and FOLDER/BROKER.pid where they
are.
"""

import time

import pika
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from nats import Nats
from rig import DEADLINE_S, TOPICS, process_cpu_s, run_bare

PARTITIONS = 3
PACE = "pace"  # the topic of bench/pace.py


def number_in(path):
    with open(path, encoding="ascii") as file:
        return int(file.read())


class Broker:
    """A destination as strategies.Courier wants it. `name` is that of its block, too."""

    look_every_s = 0.05  # to ask a broker costs more than to ask Redis

    def __init__(self, rig):
        self.kind = self.name
        self.folder = rig.folder
        self.port = number_in(f"{rig.folder}/{self.name}.port")
        self.pid = number_in(f"{rig.folder}/{self.name}.pid")

    def full_us(self):
        return time.time_ns() // 1000

    def bare(self, n_events, in_flight=1000, pause_us=0):
        """What it takes the bare client to publish so many; with a pause before each, p50_us, too."""
        server_before_s = process_cpu_s(self.pid)
        result = run_bare(self, self.name, [self.port, n_events, in_flight, pause_us])
        result["server_cpu_s"] = process_cpu_s(self.pid) - server_before_s
        if self.count() != n_events:
            raise RuntimeError(f"{self.title} has {self.count()} of {n_events} messages")
        return result


class NatsBroker(Broker):
    name, title = "nats", "NATS JetStream"

    def __init__(self, rig):
        super().__init__(rig)
        self.client = Nats(self.port)
        self.is_made = False

    def reset(self):
        if self.is_made:
            self.client.delete_stream("events")
        self.client.create_stream("events", ["events.>"])
        self.is_made = True

    def block(self, port=None):
        return f'nats: {{ servers: ["nats://127.0.0.1:{port or self.port}"] }}'

    def count(self):
        return self.client.state("events")["messages"]


class RabbitMqBroker(Broker):
    name, title = "rabbitmq", "RabbitMQ, quorum queue"

    def reset(self):
        # A connection of its own each time: an idle one would miss its heartbeats.
        self.connection = pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, heartbeat=0))
        self.channel = self.connection.channel()
        self.channel.exchange_declare("events", "topic", durable=True)
        self.channel.queue_delete("events")
        self.channel.queue_declare("events", durable=True, arguments={"x-queue-type": "quorum"})
        self.channel.queue_bind("events", "events", "#")

    def block(self, port=None):
        return (f'rabbitmq: {{ servers: ["amqp://127.0.0.1:{port or self.port}"], exchange: events,'
                ' user: guest, password: guest }')

    def count(self):
        return self.channel.queue_declare("events", passive=True).method.message_count


class KafkaBroker(Broker):
    name, title = "kafka", "Kafka"

    def __init__(self, rig):
        super().__init__(rig)
        server = f"127.0.0.1:{self.port}"
        self.admin = KafkaAdminClient(bootstrap_servers=server)
        self.consumer = KafkaConsumer(bootstrap_servers=server)
        self.topics = [*TOPICS, PACE]

    def reset(self):
        """The topics anew. A deleted one is there for some moments yet."""
        deadline = time.monotonic() + DEADLINE_S
        for step in (lambda: self.admin.delete_topics(self.there()) if self.there() else None,
                     lambda: self.admin.create_topics(
                         [NewTopic(topic, PARTITIONS, 1) for topic in self.topics])):
            while True:
                try:
                    step()
                    break
                except KafkaError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)

    def there(self):
        return [topic for topic in self.admin.list_topics() if topic in self.topics]

    def block(self, port=None):
        return f'kafka: {{ brokers: ["127.0.0.1:{port or self.port}"], topic: "{{{{topic}}}}" }}'

    def count(self):
        return sum(self.consumer.end_offsets(
            [TopicPartition(topic, partition) for topic in self.topics
             for partition in range(PARTITIONS)]).values())


def brokers(rig):
    return [NatsBroker(rig), RabbitMqBroker(rig), KafkaBroker(rig)]
