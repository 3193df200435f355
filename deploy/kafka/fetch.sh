#!/usr/bin/env bash
# Fetches the jars of an Apache Kafka broker through Maven, for the tests that need a real one.
# pom.xml says which; libs.sha256 lists every file with its digest, so that what runs here is what
# ran before. Jars that are there and right are left alone.
#
#   deploy/kafka/fetch.sh         fetch what is missing
#   deploy/kafka/fetch.sh lock    write libs.sha256 again, after a change of pom.xml
#
# FIRSTSEEN_KAFKA_LIBS names another directory than .kafka/libs in the root of the repository.
# Exit codes: 0 done, 1 the fetch failed or a file is not the listed one, 2 usage, 69 no java or mvn.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
libs=${FIRSTSEEN_KAFKA_LIBS:-$root/.kafka/libs}
manifest=$here/libs.sha256
fetch_seconds_max=900

die() { # die CODE MESSAGE
  echo "fetch.sh: $2" >&2
  exit "$1"
}

digest() { # macOS has shasum, Linux sha256sum; their formats are the same
  if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi
}

require() { # require COMMAND PACKAGE
  command -v "$1" >/dev/null ||
    die 69 "$1 not found; install it (Debian, Ubuntu: apt-get install $2; macOS: brew install $3)"
}

complete() { # complete DIRECTORY: exactly the listed jars, each with its digest
  [[ -d $1 ]] || return 1
  (
    cd "$1"
    shopt -s nullglob
    jars=(*.jar)
    ((${#jars[@]} == $(wc -l <"$manifest"))) && digest --check --status "$manifest" 2>/dev/null
  )
}

copy_jars() { # copy_jars DIRECTORY
  local bound=()
  if command -v timeout >/dev/null; then bound=(timeout "$fetch_seconds_max"); fi
  # An empty array counts as unset in the Bash 3.2 of macOS.
  ${bound[@]+"${bound[@]}"} mvn --batch-mode --quiet -Dstyle.color=never --strict-checksums \
    --file "$here/pom.xml" \
    dependency:copy-dependencies -DoutputDirectory="$1" 2>&1 |
    sed $'s/\033\\[[0-9;]*m//g' >&2 || # Maven resets colours whatever style.color says
    die 1 "mvn could not fetch the jars of $here/pom.xml: see its messages above"
}

case ${1-fetch} in
  fetch | lock) ;;
  *) die 2 "unknown argument '$1': it is 'lock' or nothing" ;;
esac
(($# <= 1)) || die 2 "one argument at most: 'lock' or nothing"

require java openjdk-17-jre-headless openjdk@17
if [[ ${1-fetch} == fetch ]] && complete "$libs"; then
  echo "Kafka is in $libs"
  exit 0
fi
require mvn maven maven
if [[ -d $libs && -n $(find "$libs" -mindepth 1 ! -name '*.jar' -print -quit) ]]; then
  die 1 "$libs holds other things than jars, and would be replaced: name another directory"
fi

# Into a directory beside, moved when it is whole: an interrupted fetch leaves nothing half there.
mkdir -p "$(dirname "$libs")"
fresh=$(mktemp -d "$(dirname "$libs")/libs.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
copy_jars "$fresh"

if [[ ${1-fetch} == lock ]]; then
  (cd "$fresh" && LC_ALL=C && digest -- *.jar) >"$manifest"
elif ! complete "$fresh"; then
  (cd "$fresh" && digest --check "$manifest" 2>&1 | grep -v ': OK$' >&2) || true
  diff <(awk '{ print $2 }' "$manifest") <(cd "$fresh" && LC_ALL=C ls -- *.jar) >&2 || true
  die 1 "what was fetched is not what $manifest lists (after a change of pom.xml: fetch.sh lock)"
fi

chmod 755 "$fresh"
rm -rf "$libs"
mv "$fresh" "$libs"
echo "Kafka fetched into $libs: $(wc -l <"$manifest" | tr -d ' ') jars"
