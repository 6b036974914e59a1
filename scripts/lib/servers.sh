#!/bin/bash
# Sourced by scripts that run pgcourier between private servers: a folder of their own, processes
# that end with the script however it ends, and the first words of what went wrong.
#
# Sets: folder, bin (PostgreSQL's programs), pids. The caller may set `failure`, the line that is
# printed should the next step fail.

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
  failure="no $1 after 15 seconds"
  for _ in {1..300}; do
    if "${as[@]}" "${@:2}" >/dev/null 2>&1; then return; fi
    kill -0 "${pids[-1]}" 2>/dev/null || { failure="$1: the process ended"; exit 1; }
    sleep 0.05
  done
  exit 1
}

mkdir "$folder/lib"
cp scripts/lib/*.py "$folder/lib/"
bin=$(pg_config --bindir)
[ -x "$bin/initdb" ] || bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)

start_postgres() { # start_postgres DATABASE [OPTION...]: on a socket in the folder
  run initdb "$bin/initdb" -D data -N -A trust -E UTF8 --locale C -U postgres
  start postgres "$bin/postgres" -D data -k "$folder" -c listen_addresses= "${@:2}"
  postgres=$!
  wait_for "answer from PostgreSQL" "$bin/pg_isready" -h "$folder"
  run createdb "$bin/createdb" -h "$folder" -U postgres "$1"
}

start_redis() { # on redis.sock in the folder
  start redis redis-server --port 0 --unixsocket "$folder/redis.sock" --save '' --dir "$folder"
  wait_for "answer from Redis" redis-cli -s "$folder/redis.sock" ping
}
