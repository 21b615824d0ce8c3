#!/usr/bin/env bash
# The programs of nccl-tests under mpirun: ranks meet over MPI, print what nccl-tests prints, and
# say what is wrong once, with the same exit code.
# limit: 180 s
set -euo pipefail

bin=$(dirname "$KOLO")
for program in all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather \
    scatter sendrecv hypercube; do
    $MPIRUN -n 2 "$bin/${program}_perf" -b 1K -e 4K -f 2 -t 2 -n 2 -w 1 -r all >table ||
        { cat table; exit 1; }
    # Four ranks of two processes, and one table: three sizes, of all roots where there are roots.
    roots=1
    case $program in broadcast | reduce | gather | scatter) roots=4 ;; esac
    awk -v want=$((3 * roots)) '
        /^# nThread 2 nGpus 1 minBytes 1024 maxBytes 4096 step: 2\(factor\) / { heads++ }
        /^#  Rank / { if ($3 != ranks || $5 != "0" || $10 != "device") bad++ }
        /^#  Rank / { ranks++; pids[$7] = 1 }
        /^ +[0-9]/ { rows++; if (NF != 13 || $9 != "0" || $13 !~ /^(0|N\/A)$/) bad++ }
        END { exit heads != 1 || ranks != 4 || length(pids) != 2 || rows != want || bad > 0 }
    ' table ||
        { echo "${program}_perf:"; cat table; exit 1; }
done

# refused CODE WORDS COMMAND...: all processes end with the code, and the words are said once.
refused() {
    local code=$1 words=$2 status=0
    shift 2
    "$@" >out 2>err || status=$?
    [ $status = "$code" ] || { echo "$*: exit status $status, not $code"; cat out err; return 1; }
    [ "$(grep -c -- "$words" err)" = 1 ] ||
        { echo "$* does not say once: $words"; cat err; return 1; }
    ! grep -q '^#' out || { echo "$* prints before it refuses"; cat out; return 1; }
}
for run in 1 2 3; do
    refused 2 "unexpected argument '--frobnicate'" \
        $MPIRUN -n 3 "$KOLO" perf all_reduce --frobnicate
    refused 2 'root 3 is none of the 3 ranks' $MPIRUN -n 3 "$KOLO" perf broadcast -r 3
    refused 2 'NCCL_TESTS_SPLIT: ' env NCCL_TESTS_SPLIT=7 $MPIRUN -n 3 "$bin/all_reduce_perf"
    refused 2 'without mpirun' $MPIRUN -n 2 "$KOLO" perf all_reduce --ranks 2
    refused 1 'unknown variable KOLO_BUFSIZE' \
        env KOLO_BUFSIZE=1M $MPIRUN -n 3 "$KOLO" perf all_reduce
    refused 2 '--json /nowhere/x.json cannot be written' \
        $MPIRUN -n 3 "$KOLO" perf all_reduce -b 8 -e 8 --json /nowhere/x.json
done
# What only one process gets wrong is said with its number.
refused 2 "^process 1: .*'--frobnicate'" \
    $MPIRUN -n 1 "$KOLO" perf all_reduce : -n 1 "$KOLO" perf all_reduce --frobnicate

# Names of MPI and NCCL; the head of kolo perf; algorithms and percentiles at the end of a line.
$MPIRUN -n 2 "$KOLO" perf MPI_Allreduce -b 8 -e 8 -n 5 -w 1 --wide >table
awk '/^# kolo .*: all_reduce among 2 ranks$/ { heads++ }
    $1 == "8" { rows++; if (NF != 18 || $18 != "oneshot" || $14 > $15 || $16 > $17) bad++ }
    END { exit heads != 1 || rows != 1 || bad > 0 }' table || { cat table; exit 1; }

# The groups are those that process 0 knows of: not every launcher hands variables to all nodes.
$MPIRUN -n 1 env NCCL_TESTS_SPLIT='MOD 2' "$bin/reduce_perf" -t 2 -b 8 -e 8 -n 2 : \
    -n 1 "$bin/reduce_perf" -t 2 -b 8 -e 8 -n 2 >table
[ "$(awk '/^#  Rank/ { printf "%s ", $5 }' table)" = '0 0 1 1 ' ] || { cat table; exit 1; }
