#!/usr/bin/env bash
# RDMA tests in a virtual machine with software RoCE devices (see `softroce` beside this file).
#
#   tests/softroce/verbs.sh [FILTER]   tests of libkolo_verbs.so whose names contain FILTER; all
#                                      without it; a line that says why, where no machine starts
#
# CARGO names the cargo to build with.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! why=$(tests/softroce/softroce check); then
    echo "skipped: RDMA tests, because $why"
    exit 0
fi
cargo=${CARGO:-cargo}
"$cargo" build --locked --quiet -p kolo-verbs
# Everything is built outside; the machine only runs it.
program=$("$cargo" test --locked -p kolo-verbs --test conformance --no-run 2>&1 |
    sed -n 's/.*(\(.*conformance-[0-9a-f]*\))$/\1/p')
[ -x "$program" ] || { echo "the tests do not build" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
tests/softroce/softroce run -t "${LIMIT:-900}" -- \
    "$program" ${1:+"$1"} --test-threads=1 --nocapture | tee "$log"
# A run that skipped everything proves nothing.
! grep -q '^skipped: it needs RDMA' "$log"
grep -q '^test result: ok. [1-9]' "$log"
