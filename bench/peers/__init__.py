"""Programs that others use for what pgcourier does, each as scripts/deps --peers installs it."""

from peers.courier import PgCourier
from peers.debezium_server import DebeziumServer
from peers.graphile_worker import GraphileWorker
from peers.open_outbox import OpenOutbox
from peers.pg_boss import PgBoss
from peers.pgq import Pgq
from peers.river import River

PEERS = [PgCourier, DebeziumServer, Pgq, OpenOutbox, GraphileWorker, River, PgBoss]
