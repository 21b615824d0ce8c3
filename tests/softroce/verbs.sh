#!/usr/bin/env bash
# RDMA tests in a virtual machine with software RoCE devices (see `softroce` beside this file).
#
#   tests/softroce/verbs.sh    all of them; a line that says why, where no such machine can start
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! why=$(tests/softroce/softroce check); then
    echo "skipped: RDMA tests, because $why"
    exit 0
fi
for device in rxe0 rxe1; do
    tests/softroce/softroce run -t 120 -- ibv_devinfo -d $device | grep 'PORT_ACTIVE' >/dev/null
    echo "ok    $device is active"
done
