#!/bin/bash
# systemd understands the unit and the template, and counts their exposure as 1.5 at most.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for unit in pgcourier pgcourier@; do
  # The program need not be installed.
  sed "s|^ExecStart=[^ ]*|ExecStart=\"$PGCOURIER\"|" "$PACKAGE/$unit.service" >"$folder/$unit.service"
done
# The system's manager wants /run/systemd, which a user cannot make where systemd does not run.
manager=--system
if [ "$(id -u)" != 0 ]; then
  manager=--user
  export XDG_RUNTIME_DIR=$folder
fi
units=("$folder/pgcourier.service" "$folder/pgcourier@eu.service")
if ! systemd-analyze "$manager" verify --man=no "${units[@]}" >"$folder/said" 2>&1 || [ -s "$folder/said" ]; then
  cat "$folder/said"
  exit 1
fi
# Of a template it wants an instance, as a file.
mv "$folder/pgcourier@.service" "$folder/pgcourier@eu.service"
for unit in pgcourier pgcourier@eu; do
  systemd-analyze "$manager" security --offline=true --threshold=15 "$folder/$unit.service" >"$folder/said" ||
    { cat "$folder/said"; exit 1; }
done
grep -q "run -c /etc/pgcourier/pgcourier.yaml$" "$PACKAGE/pgcourier.service"
grep -q "run -c /etc/pgcourier/%i.yaml$" "$PACKAGE/pgcourier@.service"
