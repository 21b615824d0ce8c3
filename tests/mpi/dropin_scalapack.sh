#!/bin/bash
# limit: 900 s
# mpi: openmpi
# Programs that test ScaLAPACK, PBLAS and BLACS find on kolo what they find on MPI alone. Some of
# them are drawn; `make test-full` takes all. Not xdllt: under Open MPI alone it hangs now and then.
# Under MPICH, 4 ranks on 2 cores take minutes without kolo too.
. "$(dirname "$0")/common"
. "$top/tests/mpi/dropin/judge.sh"
. "$top/tests/mpi/perf/table.sh"

programs=$(echo /usr/lib/*/scalapack/"$MPI"-tests)
[ -d "$programs" ] || fail "there is no $programs: Debian's scalapack-mpi-test"
cp -L "$programs"/*.dat "$programs"/PBLAS/*.dat "$programs"/BLACS/*.dat .

# Residuals and times differ; what was tested and what came of it does not. The testers of BLACS end
# by MPI_Abort, so without a report; whether their sum hangs on which rank comes first is by chance.
run() { # NAME, PROGRAM, WORDS BEFORE IT...
    local name=$1 program=$2
    shift 2
    status=0
    # shellcheck disable=SC2086
    timeout 100 $MPIRUN -n 4 "$@" "$program" >"$name.raw" 2>"$name.err" || status=$?
    case $status,$program in
        0,*) ;;
        *,*/BLACS/*) grep -q 'final auxiliary test' "$name.raw" || status=no ;;
        *) status=no ;;
    esac
    [ "$status" != no ] ||
        fail "$name, $program, SEED=$SEED: $(cat "$name.err" "$name.raw")"
    sed -E -e 's/[0-9]*\.[0-9]*([ED][-+]?[0-9]+)?/#/g' -e 's/ +/ /g' \
        -e 's/(PASSED|SKIPPED) REPEATABLE/... REPEATABLE/' "$name.raw" >"$name.out"
}

# shellcheck disable=SC2046
drawn 5 $(cd "$programs" && ls x* PBLAS/*tst BLACS/x* | grep -v -e '^xdllt$' -e '^x[CF]btest$')
for program in "${words[@]}"; do
    rm -f ./*.out
    run plain "$programs/$program"
    # shellcheck disable=SC2086
    run kolo "$programs/$program" $on_kolo
    cmp plain.out kolo.out || fail "$program, SEED=$SEED: $(diff plain.out kolo.out)"
    case $program in BLACS/*) ;; *) taken kolo.err 4 ;; esac
done
echo "$test_name ($MPI): ok"
