#!/bin/bash
# systemd understands the unit, and counts its exposure as 1.5 at most.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The program need not be installed.
sed "s|^ExecStart=[^ ]*|ExecStart=$PGCOURIER|" "$PACKAGE/pgcourier.service" >"$folder/pgcourier.service"
said=$(systemd-analyze verify --man=no "$folder/pgcourier.service" 2>&1)
[ -z "$said" ] || { echo "$said"; exit 1; }
systemd-analyze security --offline=true --threshold=15 "$folder/pgcourier.service" >"$folder/said" ||
  { cat "$folder/said"; exit 1; }
