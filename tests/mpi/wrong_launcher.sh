#!/bin/sh
# A program that is started by the mpirun of another MPI than its own: one sentence with its remedy
# for the whole job, whether it looks at results or not; kolo's own wrong results are none.
. "$(dirname "$0")/common"
# How often a word was printed; mpirun may put what two ranks print into one line.
words() { grep -o "$1" "$work/out" | wc -l; }
case $MPI in
openmpi) other="mpirun.mpich" launcher="the mpirun of MPICH or Intel MPI" ;;
mpich) other="mpirun.openmpi --oversubscribe" launcher="the mpirun of Open MPI" ;;
esac
cc -Wall -Wextra -Werror "$top/tests/mpi/alone.c" -I "$include" -I "$(folder_of kolo_mpi.h "")" \
    $(compile_flags "mpicc.$MPI") $link $(link_flags "mpicc.$MPI") -o "$work/alone"
# Each of Open MPI's processes that are alone makes a daemon, and two that make the same folder for
# theirs at the same moment fail. So each has a folder of its own.
cat >"$work/apart" <<'END'
#!/bin/sh
OMPI_MCA_orte_tmpdir_base=$(mktemp -d) exec "$@"
END
chmod +x "$work/apart"
# An MPI that finds another launcher than its own may refuse to start, in words of its own.
if ! $other -n 3 "$work/apart" "$work/alone" mpi >"$work/out" 2>"$work/err"; then
    echo "$test_name: this MPI does not start under $other" >&2
fi
if [ "$(words 'world of 1')" = 3 ]; then
    $other -n 3 "$work/apart" "$work/alone" >"$work/out" 2>"$work/err" ||
        fail "$(cat "$work/out" "$work/err")"
    cat "$work/out" "$work/err" >"$work/all"
    [ "$(grep -c "$launcher started 3 processes" "$work/all")" = 1 ] ||
        fail "not one sentence: $(cat "$work/all")"
    grep -q 'Remedy: start the program with the mpirun of the MPI' "$work/all" ||
        fail "no remedy: $(cat "$work/all")"
    [ "$(words 'refused')" = 3 ] || fail "not refused: $(cat "$work/all")"
    export KOLO_ALLOW_SINGLETONS=1
    $other -n 3 "$work/apart" "$work/alone" >"$work/out" 2>&1 ||
        fail "alone on purpose: $(cat "$work/out")"
    [ "$(words 'alone')" = 3 ] || fail "alone on purpose: $(cat "$work/out")"
    unset KOLO_ALLOW_SINGLETONS
    # A program that knows nothing of kolo runs as before, and the library that is preloaded tells.
    dropin() { # VARIABLES...
        $other -n 3 "$work/apart" env LD_PRELOAD="$PREFIX/lib/libkolo_pmpi.so.0" "$@" \
            "$work/alone" mpi >"$work/out" 2>"$work/err" ||
            fail "preloaded: $(cat "$work/out" "$work/err")"
        [ "$(words 'world of 1')" = 3 ] || fail "preloaded: $(cat "$work/out" "$work/err")"
    }
    dropin
    [ "$(grep -c "$launcher started 3 processes.*Remedy: start" "$work/err")" = 1 ] ||
        fail "preloaded, and not one sentence: $(cat "$work/err")"
    for variable in KOLO_ALLOW_SINGLETONS=1 KOLO_PMPI=off; do
        dropin "$variable"
        ! grep 'kolo' "$work/err" || fail "preloaded on purpose: $(cat "$work/err")"
    done
fi
# Under its own mpirun it is not alone, and with one rank it is so on purpose.
$MPIRUN -n 2 "$work/alone" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
[ "$(words '2 ranks')" = 2 ] || fail "$(cat "$work/out")"
$MPIRUN -n 1 "$work/alone" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
[ "$(cat "$work/out")" = alone ] || fail "$(cat "$work/out")"
$MPIRUN -n 1 env LD_PRELOAD="$PREFIX/lib/libkolo_pmpi.so.0" "$work/alone" mpi >"$work/out" 2>&1 ||
    fail "$(cat "$work/out")"
[ "$(cat "$work/out")" = 'world of 1' ] || fail "$(cat "$work/out")"
echo "$test_name ($MPI): ok"
