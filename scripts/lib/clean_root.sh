#!/bin/bash
# Sourced after servers.sh by checks of what is installed: a clean Debian 12, or the release that DEBIAN names,
# perhaps booted, and what is expected of it, a line each.
#
# clean_root FOLDER PACKAGE...   makes it; what is downloaded is kept in .cache/clean-root, by what is in it
# boot FOLDER OPTION...          its systemd as process 1 of a container; sets `leader`
# inside COMMAND...              runs in there
# shut_down
# expect WHAT COMMAND...         succeeds
# await WHAT COMMAND...          will succeed
# equal EXPECTED FOUND           for these two

# shellcheck disable=SC2034,SC2154 # folder, log, failure, pids: of servers.sh

leader=""

clean_root() {
  local root=$1 release=${DEBIAN:-bookworm} packages kept
  shift
  packages=$(printf '%s,' "$@")
  kept=.cache/clean-root/$release-$(printf '%s' "$packages" | sha256sum | cut -c1-12).tar
  failure="mmdebstrap failed"
  log=$folder/mmdebstrap.log
  if [ ! -e "$kept" ]; then
    mkdir -p .cache/clean-root
    mmdebstrap --variant=minbase --include="${packages%,}" "$release" "${kept%.tar}.new.tar" >"$log" 2>&1
    mv "${kept%.tar}.new.tar" "$kept"
  fi
  mkdir "$root"
  tar -xf "$kept" -C "$root" --exclude='./dev/*'
}

boot() {
  local root=$1 console=$folder/console.log pid
  shift
  failure="systemd does not run in the clean root"
  log=$console
  setpriv --pdeathsig KILL systemd-nspawn --quiet --directory="$root" --register=no --keep-unit \
    --machine=pgcourier-check --console=pipe "$@" --boot -- --unit=multi-user.target \
    </dev/null >"$console" 2>&1 &
  pid=$!
  pids+=("$pid")
  for _ in {1..300}; do
    leader=$(pgrep -P "$pid" | head -n 1 || true)
    if [ -n "$leader" ] && inside systemctl is-active --quiet multi-user.target 2>/dev/null; then return; fi
    kill -0 "$pid" 2>/dev/null || exit 1
    sleep 0.1
  done
  exit 1
}

inside() { nsenter --target "$leader" --all -- "$@"; }

shut_down() {
  inside systemctl poweroff >/dev/null 2>&1 || true
  for _ in {1..300}; do
    kill -0 "$leader" 2>/dev/null || return 0
    sleep 0.1
  done
  failure="the container does not shut down"
  exit 1
}

step() { echo "ok      $*"; }

expect() {
  failure="not so: $1"
  "${@:2}" >"$folder/expect.log" 2>&1 || { cat "$folder/expect.log" >&2; exit 1; }
  step "$1"
}

await() {
  failure="not so after 30 seconds: $1"
  for _ in {1..300}; do
    if "${@:2}" >"$folder/expect.log" 2>&1; then step "$1"; return; fi
    sleep 0.1
  done
  cat "$folder/expect.log" >&2
  [ -z "$leader" ] || inside journalctl --no-pager -n 30 -u pgcourier >&2 || true
  exit 1
}

equal() { [ "$1" = "$2" ] || { echo "expected \"$1\", got \"$2\""; return 1; }; }
