#!/bin/bash
# Prints the project's files, a line each. Git knows them, also in a tree of another user; where there is no .git (a
# release's archive) or no git, it is all but what builds and scripts/deps make.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."

if [ -e .git ] && command -v git >/dev/null; then
  git -c safe.directory="$PWD" ls-files --cached --others --exclude-standard
else
  find . \( -path ./.git -o -path './build*' -o -path ./.cache -o -name __pycache__ \) -prune -o -type f -printf '%P\n'
fi | sort | while IFS= read -r file; do
  [ ! -e "$file" ] || printf '%s\n' "$file" # git lists what was just removed, too
done
