#!/usr/bin/env bash
# Write requirements.lock: names, versions and hashes for every platform, and nothing about where they came from.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/messages.sh

[ -x .venv/bin/uv ] || fail "run make setup first: it brings uv"
say "resolving"
UV_SYSTEM_CERTS=true .venv/bin/uv pip compile pyproject.toml --group dev --universal --generate-hashes --upgrade --quiet \
  --no-header --no-annotate --no-emit-index-url --no-emit-find-links --output-file requirements.lock >/dev/null
if grep -nE '://|^ *-(i|f|-index|-extra-index|-find-links)|@|/' requirements.lock; then
  fail "requirements.lock names a place"
fi
say "$(grep -c '==' requirements.lock) packages locked"
