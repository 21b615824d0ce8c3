#!/bin/sh
# Tests and times kolo on the GPUs of this machine, from the folder that this script lies in.
#
#   ./run.sh                 correctness, then timing: at most 9 minutes each
#   ./run.sh correctness     only that; more words go to the program: ./run.sh timing --only copy
#
# Each step prints one line of JSON, and $OUT/results.jsonl gets the same where OUT names a folder.
# The exit status is 0 if no step has failed. NCCL is timed beside kolo if libnccl.so.2 lies here,
# or KOLO_TEST_NCCL names it.
here=$(cd "$(dirname "$0")" && pwd)
# Where containers have the driver's library, which not all of them tell the loader.
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64"
case ${1:-} in
    '' | -*) parts="correctness timing" ;;
    *) parts=$1; shift ;;
esac
status=0
for part in $parts; do
    "$here/kolo-device-tests" "$@" run "$part" || status=1
done
exit $status
