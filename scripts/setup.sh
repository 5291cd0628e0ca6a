#!/usr/bin/env bash
# Make .venv exactly as the lock says, install the project into it, fetch Spark's packages, leave a stamp.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/messages.sh
stamp=$1

find_python() {
  found=none
  for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13 python3.14}; do
    # A name on the PATH may be a shim for a Python that is not there: only running it tells.
    version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    if ! "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
      [ "$found" != none ] || found=$version
    elif ! "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
      found="$version without its venv module"
    else
      python=$candidate
      return
    fi
  done
  fail "Python 3.11 or newer is needed; found $found"
}

# uv does not read pip's settings; a machine with an index of its own has often told only pip about it.
follow_pip_index() {
  if [ -z "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}" ]; then
    index=${PIP_INDEX_URL:-$(.venv/bin/python -m pip config get global.index-url 2>/dev/null || true)}
    [ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
  fi
}

install_uv() {
  pinned=$(mktemp)
  trap 'rm -f "$pinned"' EXIT
  awk '/^[^ ]/ { wanted = /^uv==/ } wanted' requirements.lock >"$pinned"
  quietly "uv could not be installed" \
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$pinned"
}

rm -f "$stamp"
if ! .venv/bin/python -c '' 2>/dev/null; then
  find_python
  say "making .venv with $("$python" --version)"
  quietly "no environment could be made" "$python" -m venv --clear .venv
fi
export VIRTUAL_ENV="$PWD/.venv" UV_SYSTEM_CERTS=true
[ -x .venv/bin/uv ] || install_uv
follow_pip_index
say "installing the locked packages (pyspark is large)"
quietly "the packages could not be installed" .venv/bin/uv pip sync --require-hashes requirements.lock
quietly "the project could not be installed" .venv/bin/uv pip install --no-deps --no-build-isolation --editable .
.venv/bin/python -m trickle.engine
touch "$stamp"
say "ready"
