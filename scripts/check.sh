#!/usr/bin/env bash
# Run the named groups of checks to the end, whatever fails on the way, and say at last what did.
set -uo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
failed=

run() {
  printf '\n— %s\n' "$*"
  "$@" || failed="$failed${failed:+, }$1 ${2:-}"
}

lint() {
  run ruff check .
  run ruff format --check .
  run lint-imports
}

types() {
  run mypy
}

tests() {
  # Two processes, each with a Spark of its own: neither may take half of the machine's memory.
  TRICKLE_MEMORY=${TRICKLE_MEMORY:-5g} run pytest -m "not long" -n 2 --dist loadfile --durations 25
}

for group in "$@"; do
  "$group"
done
if [ -n "$failed" ]; then
  printf '\nfailed: %s\n' "$failed"
  exit 1
fi
printf '\nall passed\n'
