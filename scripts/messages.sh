# How the scripts speak: a line for each step, one line for the reason they stopped.

say() {
  printf 'trickle: %s\n' "$*"
}

fail() {
  printf 'trickle: error: %s\n' "$*" >&2
  exit 1
}

# Run a command without its output; when it fails, stop with the last thing it said.
quietly() {
  what=$1
  shift
  if ! output=$("$@" 2>&1); then
    reason=$(printf '%s\n' "$output" | grep -v '^[[:space:]]*$' | tail -n 1)
    fail "$what: $(printf '%s' "$reason" | sed -E 's/^([Ee]rror|ERROR|trickle: error): *//')"
  fi
}
