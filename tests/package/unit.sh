#!/bin/bash
# systemd understands the unit and the template, and counts their exposure as 1.5 at most.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for unit in pgcourier pgcourier@; do
  # The program need not be installed.
  sed "s|^ExecStart=[^ ]*|ExecStart=\"$PGCOURIER\"|" "$PACKAGE/$unit.service" >"$folder/$unit.service"
done
said=$(systemd-analyze verify --man=no "$folder/pgcourier.service" "$folder/pgcourier@eu.service" 2>&1)
[ -z "$said" ] || { echo "$said"; exit 1; }
# Of a template it wants an instance, as a file.
mv "$folder/pgcourier@.service" "$folder/pgcourier@eu.service"
for unit in pgcourier pgcourier@eu; do
  systemd-analyze security --offline=true --threshold=15 "$folder/$unit.service" >"$folder/said" ||
    { cat "$folder/said"; exit 1; }
done
grep -q "run -c /etc/pgcourier/pgcourier.yaml$" "$PACKAGE/pgcourier.service"
grep -q "run -c /etc/pgcourier/%i.yaml$" "$PACKAGE/pgcourier@.service"
