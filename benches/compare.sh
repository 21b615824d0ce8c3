#!/usr/bin/env bash
# kolo beside the MPI that starts it, every collective over sizes: the time of the MPI divided by
# kolo's (above 1 kolo is faster), out of place and in place, as a table of Markdown.
#
#   benches/compare.sh PREFIX openmpi|mpich RANKS [MAX [FACTOR [COLLECTIVE...]]]
#
# Both sides use the same buffers, written anew before every call, in turns; each ratio is the
# median of five. Where ranks outnumber cores, Open MPI is told to yield when it waits.
set -euo pipefail
case ${1:-} in --help | -h | '') sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit $((! $#)) ;; esac
prefix=$1 mpi=$2 ranks=$3 max=${4:-64M} factor=${5:-8}
shift $(($# < 5 ? $# : 5))
all="all_reduce broadcast reduce all_gather reduce_scatter alltoall gather scatter sendrecv"
collectives=${*:-$all}
mpirun="mpirun.$mpi"
[ "$mpi" = mpich ] || mpirun="$mpirun --oversubscribe"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
[ "$ranks" -le "$(nproc)" ] || export OMPI_MCA_mpi_yield_when_idle=1
echo "| collective | bytes | kolo us | MPI us | ratio | spread % | kolo us in place | MPI | ratio |"
echo '|---|---|---|---|---|---|---|---|---|'
for collective in $collectives; do
    $mpirun -n "$ranks" "$prefix/bin/kolo" perf "$collective" -d double -b 8 -e "$max" \
        -f "$factor" -n 20 -w 5 --compare mpi --wide |
        awk -v name="$collective" '$1 ~ /^[0-9]+$/ {
            print "| " name " | " $1 " | " $6 " | " $10 " | " $11 " | " $12 " | " \
                $13 " | " $17 " | " $18 " |" }'
done
