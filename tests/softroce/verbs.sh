#!/usr/bin/env bash
# RDMA tests in a virtual machine with software RoCE devices (see `softroce` beside this file).
#
#   tests/softroce/verbs.sh [FILTER...]   tests of libkolo_verbs.so, of communicators over it, and
#                                         of memory on two NUMA nodes, whose names contain a FILTER
#                                         (as short:: does of the first two); all without one; a
#                                         line that says why, where no machine starts
#
# CARGO names the cargo to build with.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! why=$(tests/softroce/softroce check); then
    exec tests/skip/skip.sh rdma-machine "$why"
fi
cargo=${CARGO:-cargo}
"$cargo" build --locked --quiet -p kolo-verbs
# Everything is built outside; the machine only runs it.
program() { # ARGUMENTS OF CARGO TEST, NAME
    "$cargo" test --locked "${@:1:$#-1}" --test "${!#}" --no-run 2>&1 |
        sed -n "s/.*(\(.*${!#}-[0-9a-f]*\))\$/\1/p"
}
conformance=$(program -p kolo-verbs conformance)
networks=$(program networks)
[ -x "$conformance" ] && [ -x "$networks" ] || { echo "the tests do not build" >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The library itself, then communicators over it.
tests/softroce/softroce run -t "${LIMIT:-900}" -- bash -c '
    set -e
    conformance=$1 networks=$2
    shift 2
    "$conformance" "$@" --test-threads=1 --nocapture
    [ $# -gt 0 ] || set -- verbs:: homes::
    "$networks" "$@" --test-threads=1 --nocapture
' both "$conformance" "$networks" "$@" | tee "$log"
# A run that skipped everything proves nothing.
! grep -q -e '^skipped: rdma:' -e '^skipped: numa:' "$log"
# Other filters may mean tests of one of the two.
case ${1:-} in "" | short::) both=2 ;; *) both=1 ;; esac
[ "$(grep -c '^test result: ok. [1-9]' "$log")" -ge $both ]
