#!/bin/sh
# skip.sh NAME WHY: says that a test does not run here. Under CI=true it fails, unless
# tests/skipped.txt names the test with a reason; the caller exits with this status.
echo "skipped: $1: $2"
[ "${CI:-}" = true ] || exit 0
awk -v name="$1" '$1 == name && NF > 1 { found = 1 } END { exit !found }' \
    "$(dirname "$0")/../skipped.txt" && exit 0
echo "$1 is skipped under CI, and tests/skipped.txt does not say that it may be" >&2
exit 1
