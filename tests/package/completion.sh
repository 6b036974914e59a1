#!/bin/bash
# What bash completes, with the script that is installed; zsh and fish read theirs, if they are here.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir bin && ln -s "$PGCOURIER" bin/pgcourier
PATH=$folder/bin:$PATH
# There is no database here, which would know receivers and relays. The script that is installed calls this.
# shellcheck disable=SC2317
pgcourier() {
  if [ "$1 $2" = "completion receivers" ]; then echo acme
  elif [ "$1 $2" = "completion relays" ]; then echo web1; else command pgcourier "$@"; fi
}
cat >shop.yaml <<'END'
postgres: { dsn: "dbname=shop" }
sinks:
  - { name: billing, topics: ["**"], stdout: {} }
  - { name: bus, topics: ["**"], stdout: {} }
END
# shellcheck disable=SC1091
. "$PACKAGE/completion.bash"
failed=0

completes() { # completes EXPECTED WORD...: the last word is where the cursor is
  local expected=$1
  shift
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _pgcourier
  local found="${COMPREPLY[*]}"
  [ "$found" = "$expected" ] || { echo "$*: expected \"$expected\", got \"$found\""; failed=1; }
}
completes "pause" pgcourier pau
completes "parked pause" pgcourier pa
completes "" pgcourier man
completes "--log-level" pgcourier run --lo
completes "--config" pgcourier run --c
completes "shop.yaml" pgcourier run -c sh
completes "shop.yaml" pgcourier run --config = sh
completes "debug" pgcourier run --log-level d
completes "attempts age" pgcourier dead list --reason a
completes "retry" pgcourier parked list --state r
completes "paused" pgcourier receiver list --state p
completes "" pgcourier pause --reason a
completes "billing" pgcourier status -c shop.yaml bi
completes "billing bus" pgcourier cursor drop -c shop.yaml b
completes "" pgcourier cursor list -c shop.yaml b
completes "acme" pgcourier receiver show -c shop.yaml ac
completes "web1" pgcourier relay drain -c shop.yaml w
completes "acme" pgcourier dead list -c shop.yaml --receiver a
completes "" pgcourier receiver add -c shop.yaml ac
completes "schema" pgcourier config sc
completes "status" pgcourier migrate st
completes "detect" pgcourier attach de
completes "--done --done-set" pgcourier attach shop.outbox --done
completes "mark" pgcourier attach shop.outbox --done m
completes "--json" pgcourier attach list --js
completes "billing bus" pgcourier attach -c shop.yaml shop.outbox --after b
completes "both" pgcourier capture add orders --payload b
completes "publish" pgcourier help pub
completes "list" pgcourier dead l
completes "redrive" pgcourier dead redr
completes "--limit" pgcourier dead list --li
completes "" pgcourier dead list --dr
completes "--dry-run" pgcourier dead redrive --dr
completes "" pgcourier receiver remove --u
completes "rotate-secret" pgcourier receiver ro
completes "billing bus" pgcourier dead list -c shop.yaml --sink b
completes "bus" pgcourier dead list --config = shop.yaml --sink = bu
completes "billing" pgcourier pause -c shop.yaml bi
completes "" pgcourier pause bi
completes "" pgcourier completi

for shell in zsh fish; do
  if command -v "$shell" >/dev/null; then "$shell" -n "$PACKAGE/completion.$shell" || failed=1; fi
done
exit "$failed"
