#!/bin/bash
# Compiles what the benchmark compares with, one program for each file of bench/baselines and bench/bare
# that has a main(): baselines.sh FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../bench/baselines"

shared=() programs=()
for file in *.c; do
  if grep -q '^int main(' "$file"; then programs+=("$file"); else shared+=("$file"); fi
done
for file in "${programs[@]}"; do
  cc -std=gnu17 -O2 -Wall -Wextra -Werror -I"$(pg_config --includedir)" -o "$1/${file%.c}" \
    "$file" "${shared[@]}" -lpq -lcurl
done

cd ../bare
for client in http nats rabbitmq kafka; do
  cc -std=gnu17 -O2 -Wall -Wextra -Werror -o "$1/bare_$client" "$client.c" bare.c \
    -Wl,--as-needed -lssl -lcrypto -lrabbitmq -lrdkafka
done
