#!/bin/bash
# Makes a folder for what servers of a run write, open to the user they run as, and prints it. The
# caller removes it. In memory if there is room: servers make and remove files by the thousand, and
# what tests kill are processes, not the machine.
set -euo pipefail

where=/tmp
if findmnt -rno FSTYPE,OPTIONS /dev/shm | tail -n 1 | grep '^tmpfs rw' | grep -qv noexec &&
  [ "$(df --output=avail -B1M /dev/shm | tail -n 1)" -gt 8192 ] &&
  [ "$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)" -gt $((10 << 20)) ]; then
  where=/dev/shm
fi
folder=$(mktemp -d "$where/pgcourier-XXXXXX")
chmod 755 "$folder"
echo "$folder"
