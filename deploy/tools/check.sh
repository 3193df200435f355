#!/usr/bin/env bash
# Checks the image, Compose and Kubernetes files against their schemas, and the links of the
# documentation; offline, in seconds.
#
# The tools are in .venv-tools, which make check makes first. Without them this says so and passes,
# unless FIRSTSEEN_REQUIRE_TOOLS=1, as in CI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

bin=.venv-tools/bin
if [[ ! -e .venv-tools/.installed ]]; then
  reason="the files of deploy/ and links were not checked: .venv-tools could not be made (make tools says why)"
  if [[ ${FIRSTSEEN_REQUIRE_TOOLS:-} == 1 ]]; then
    echo "FIRSTSEEN_REQUIRE_TOOLS=1, but $reason" >&2
    exit 1
  fi
  echo "make check: $reason"
  exit
fi

"$bin/hadolint" Dockerfile
"$bin/lychee" --offline --include-fragments --no-progress --quiet --extensions md .
"$bin/yamllint" --strict --config-file deploy/tools/yamllint.yml docker-compose.yml deploy
if [[ -x $bin/helm ]]; then
  "$bin/helm" lint --strict --quiet deploy/helm/firstseen
fi
"$bin/check-jsonschema" --quiet --builtin-schema vendor.compose-spec docker-compose.yml
"$bin/kubernetes-validate" --strict --quiet deploy/kubernetes/base/[!k]*.yaml
"$bin/check-jsonschema" --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
