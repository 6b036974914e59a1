#!/bin/bash
# Sourced by scripts that run pgcourier between private servers: a folder of their own, processes
# that end with the script however it ends, and the first words of what went wrong.
#
# What runs here is not root: umask 022, and lend FILE [NAME] for what it needs of the tree. If a service runs the
# script, what it starts has no part in that: no NOTIFY_SOCKET.
#
# Sets: folder, bin (PostgreSQL's programs), pids. The caller may set `failure`, the line that is
# printed should the next step fail.

umask 022
unset NOTIFY_SOCKET
name=$(basename "$0")
folder=$(mktemp -d "/tmp/pgcourier-$name-XXXXXX")
log="" # shown if the step at hand fails
pids=()
postgres=""
failure="cannot prepare"

cleanup() {
  local status=$? pid said
  trap - EXIT INT TERM
  if [ "$status" != 0 ]; then
    said=""
    [ ! -e "$log" ] || said=$(grep -v ' level=debug ' "$log" | tail -n 20 || true)
    [ -z "$said" ] || printf 'the end of %s:\n%s\n' "$(basename "$log")" "$said" >&2
    echo "$name: $failure" >&2
  fi
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  kill -INT "$postgres" 2>/dev/null || true # TERM lets it wait for its clients
  for _ in {1..50}; do
    kill -0 "${pids[@]}" 2>/dev/null || break
    sleep 0.1
  done
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$folder"
  exit "$status"
}
trap cleanup EXIT
trap 'failure="interrupted"; log=; exit 130' INT TERM

# How all is run: never as root; in the script's folder; in a session of its own, so that Ctrl-C
# reaches the script first; and so that it dies with the script, however that ends.
as=(setsid setpriv --pdeathsig KILL)
if [ "$(id -u)" = 0 ]; then
  as+=(--reuid postgres --regid postgres --init-groups)
  chown postgres "$folder"
fi
as+=(env -C "$folder" HOME="$folder" PYTHONUNBUFFERED=1 PYTHONPATH="$folder/lib")

start() { # start NAME COMMAND...: in the background; its process is $!
  failure="$1 does not run"
  log=$folder/$1.log
  "${as[@]}" "${@:2}" >>"$log" 2>&1 &
  pids+=("$!")
}

run() { # run NAME COMMAND...: to its end; unlike a command in the foreground, a trap can interrupt it
  start "$@"
  failure="$1 failed"
  wait "$!"
}

show() { # show FAILURE COMMAND...: the same with its output shown
  failure=$1
  log=$folder/relay.log
  "${as[@]}" "${@:2}" &
  pids+=("$!")
  wait "$!"
}

wait_for() { # wait_for WHAT COMMAND...: until it succeeds, while the process started last lives
  failure="no $1 after 60 seconds"
  for _ in {1..1200}; do
    if "${as[@]}" "${@:2}" >/dev/null 2>&1; then return; fi
    kill -0 "${pids[-1]}" 2>/dev/null || { failure="$1: the process ended"; exit 1; }
    sleep 0.05
  done
  exit 1
}

# The tree may be closed to the user that servers run as: by the umask that it was made with, or in a home. What is in
# .cache is large: links do, where they can be made.
lend() { # lend FILE [NAME]: a copy in the folder
  local copy=$folder/${2:-$(basename "$1")}
  if [[ $1 != .cache/* ]] || ! cp -RlL "$1" "$copy" 2>/dev/null; then
    rm -rf "${copy:?}"
    cp -RL "$1" "$copy"
  fi
  chmod -R go+rX "$copy"
}

mkdir "$folder/lib"
for file in scripts/lib/*.py; do lend "$file" "lib/$(basename "$file")"; done
bin=$(pg_config --bindir)
[ -x "$bin/initdb" ] || bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)

start_postgres() { # start_postgres DATABASE [OPTION...]: on a socket in the folder
  run initdb "$bin/initdb" -D data -N -A trust -E UTF8 --locale C -U postgres
  start postgres "$bin/postgres" -D data -k "$folder" -c listen_addresses= "${@:2}"
  postgres=$!
  wait_for "answer from PostgreSQL" "$bin/pg_isready" -h "$folder"
  run createdb "$bin/createdb" -h "$folder" -U postgres "$1"
}

start_redis() { # start_redis PORT: on redis.sock in the folder, and on that port of 127.0.0.1 (0: on none)
  start redis redis-server --port "$1" --bind 127.0.0.1 --unixsocket "$folder/redis.sock" --save '' --dir "$folder"
  wait_for "answer from Redis" redis-cli -s "$folder/redis.sock" ping
}

free_ports() { /usr/bin/python3 "$folder/lib/ports.py" "$1"; } # free_ports N

# The brokers. Each listens on a port of 127.0.0.1; FOLDER/BROKER.port and FOLDER/BROKER.pid say which
# and as what.

await_port() { # await_port BROKER PORT
  wait_for "answer from $1" bash -c ": >/dev/tcp/127.0.0.1/$2"
  echo "${pids[-1]}" >"$folder/$1.pid"
  echo "$2" >"$folder/$1.port"
}

start_nats() { # with JetStream
  local port
  port=$(free_ports 1)
  cat >"$folder/nats.conf" <<EOF
listen: 127.0.0.1:$port
jetstream { store_dir: "$folder/jetstream", max_file: 20GB }
EOF
  start nats nats-server -c nats.conf
  await_port nats "$port"
}

# The server's own script: Debian's changes the user. RUNNING_UNDER_SYSTEMD lets the script become the
# server, so that signals reach it; and Erlang's port mapper would stay behind if the server started it.
start_rabbitmq() { # user guest, password guest
  local port dist_port epmd_port script options
  read -r port dist_port epmd_port < <(free_ports 3)
  script=$(printf '%s\n' /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server | tail -n 1)
  echo "listeners.tcp.local = 127.0.0.1:$port" >"$folder/rabbitmq.conf"
  options=(ERL_EPMD_PORT="$epmd_port" ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_DIST_PORT="$dist_port"
    RABBITMQ_NODENAME=pgcourier@localhost RABBITMQ_MNESIA_BASE="$folder/rabbitmq" RABBITMQ_LOGS=-
    RABBITMQ_LOG_BASE="$folder" RABBITMQ_CONFIG_FILE="$folder/rabbitmq.conf"
    RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_ENABLED_PLUGINS_FILE="$folder/rabbitmq.plugins"
    RUNNING_UNDER_SYSTEMD=1
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 2:2 +sbwt none")
  start epmd env "${options[@]}" epmd
  wait_for "answer from Erlang's port mapper" bash -c ": >/dev/tcp/127.0.0.1/$epmd_port"
  start rabbitmq env "${options[@]}" "$script"
  await_port rabbitmq "$port"
}

start_kafka() { # start_kafka JARS [OPTION OF JAVA...]: one node
  local port controller_port
  failure="there is no Kafka in $1; scripts/deps --kafka gets it, by Maven"
  [ -d "$1" ] || exit 1
  read -r port controller_port < <(free_ports 2)
  lend "$1" kafka.jars
  cat >"$folder/kafka.properties" <<EOF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller_port
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$folder/kafka
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
EOF
  run kafka-format java -XX:TieredStopAtLevel=1 -cp "kafka.jars/*" kafka.tools.StorageTool format \
    -t 5Yq4wbHOSr6hYyVsQ0pJTg -c kafka.properties
  start kafka java "${@:2}" -cp "kafka.jars/*" kafka.Kafka kafka.properties
  await_port kafka "$port"
}
