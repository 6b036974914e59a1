#!/bin/bash
# The manual pages can be shown without a warning, and name every command and exit code.
set -euo pipefail

for page in pgcourier.1 pgcourier.yaml.5; do
  said=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$PACKAGE/$page.gz" 2>&1 >/dev/null)
  [ -z "$said" ] || { echo "$page: $said"; exit 1; }
done

text=$(LC_ALL=C.UTF-8 MANWIDTH=200 man -l "$PACKAGE/pgcourier.1.gz")
for command in $("$PGCOURIER" help | awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }'); do
  grep -q "pgcourier $command" <<<"$text" || { echo "pgcourier.1 does not know $command"; exit 1; }
done
if grep -q '@[A-Z_]*@' <<<"$text"; then
  echo "pgcourier.1: a mark is left"
  exit 1
fi
"$PGCOURIER" help | grep -q ' completion ' && { echo "the command for scripts is shown to people"; exit 1; }

text=$(LC_ALL=C.UTF-8 MANWIDTH=200 man -l "$PACKAGE/pgcourier.yaml.5.gz")
for word in 'postgres' 'sinks\[\]\.http\.auth' 'secret_file: path' 'sweep: duration, 10ms to 1h; by default 5s'; do
  grep -q "^ *$word" <<<"$text" || { echo "pgcourier.yaml.5 does not say $word"; exit 1; }
done
