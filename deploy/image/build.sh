#!/usr/bin/env bash
# make image: builds the image of the Dockerfile, by docker where its daemon answers, else by podman.
#
# Where no registry can be reached, a stand-in for the base image is made of Debian's packages
# (mmdebstrap): the same Python from another build, for tests of the image. It keeps pip's settings
# of this machine out of the image, and says that it is a stand-in.
#
# FIRSTSEEN_IMAGE_BUILDER=podman does not look for docker. Exit code 75: the base image can neither be
# pulled nor made, whatever the Dockerfile says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly NO_BASE=75 # EX_TEMPFAIL
readonly TAG=${1:-ghcr.io/firstseen/firstseen:$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)}
readonly PULL_SECONDS=${FIRSTSEEN_PULL_SECONDS:-60}
base=$(sed -n 's/^FROM \([^ ]*\)$/\1/p' Dockerfile)
readonly base

if [[ ${FIRSTSEEN_IMAGE_BUILDER:-} != podman ]] && command -v docker >/dev/null &&
  docker info >/dev/null 2>&1; then
  exec docker build --tag "$TAG" .
fi
if ! command -v podman >/dev/null; then
  echo "make image: no docker daemon, and no podman (Debian, Ubuntu: apt-get install podman runc)" >&2
  exit 1
fi

export CONTAINERS_CONF=${CONTAINERS_CONF:-$PWD/deploy/image/containers.conf}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

stand_in() { # make the base image of Debian's packages: the release that has this Python
  if ! command -v mmdebstrap >/dev/null; then
    echo "make image: $base cannot be pulled, and there is no mmdebstrap to make a stand-in" >&2
    exit $NO_BASE
  fi
  echo "make image: no registry; a stand-in for $base is made of Debian's packages"
  mmdebstrap --quiet --variant=minbase --include=ca-certificates,python3-pip,python3-venv \
    --customize-hook='ln -s /usr/bin/python3 "$1/usr/local/bin/python"' \
    bookworm "$work/root.tar" || exit $NO_BASE
  podman import --quiet --message "a stand-in of Debian's packages" "$work/root.tar" "$base"
}

podman image exists "$base" || timeout "$PULL_SECONDS" podman pull --quiet "$base" 2>/dev/null || stand_in

# pip's index, mirror and certificates of this machine, for the build alone.
mkdir "$work/pip" "$work/wheels"
{
  echo "[global]"
  python3 -m pip config list | tac |
    sed -nE "s/^(global|:env:)\.(index-url|extra-index-url|cert|timeout|find-links)='(.*)'\$/\2 = \3/p" |
    awk '!seen[$1]++'
} >"$work/pip/pip.conf"
wheels=$(sed -n 's/^find-links = //p' "$work/pip/pip.conf")
[[ -d $wheels ]] || wheels=$work/wheels
certificates=/etc/ssl/certs
podman build --format docker --network host --quiet --tag "$TAG" \
  --volume "$work/pip/pip.conf:/etc/pip.conf:ro" \
  --volume "$certificates:$certificates:ro" \
  --volume "$wheels:$wheels:ro" .
