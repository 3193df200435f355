#!/usr/bin/env bash
# Lets promtool judge what Prometheus is given: configuration, rules, their tests, and a scrape of a
# real worker. promtool is in the package prometheus of Debian and Ubuntu; without it this says so and
# passes, unless FIRSTSEEN_REQUIRE_TOOLS=1, as in CI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if ! command -v promtool >/dev/null; then
  reason="deploy/prometheus was not checked: no promtool (Debian, Ubuntu: apt-get install prometheus)"
  if [[ ${FIRSTSEEN_REQUIRE_TOOLS:-} == 1 ]]; then
    echo "FIRSTSEEN_REQUIRE_TOOLS=1, but $reason" >&2
    exit 1
  fi
  echo "make check: $reason"
  exit
fi

quiet() { # quiet COMMAND...: show what it says only if it fails
  local said
  said=$("$@" 2>&1) || { echo "$said" >&2; exit 1; }
}

quiet promtool check config deploy/prometheus/prometheus.yml
quiet promtool check rules --lint=all --lint-fatal deploy/prometheus/*.rules.yml
quiet promtool test rules deploy/prometheus/tests/*.test.yml
scrape=$(.venv/bin/python -m tests.repository.monitoring.loaded_worker)
quiet promtool check metrics <<<"$scrape"
