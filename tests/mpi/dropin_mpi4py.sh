#!/bin/sh
# limit: 240 s
# mpi4py's own tests of collectives, operations and files say the same on kolo as on MPI alone.
. "$(dirname "$0")/common"
. "$top/tests/mpi/dropin/judge.sh"

cat >one_rank <<S
#!/bin/sh
name=\$1
shift
PYTHONPATH=$judges/$MPI exec "$judges/python/bin/python" "$judges/tests/main.py" --no-builddir \
    --verbose "\$@" >"\$name.\${OMPI_COMM_WORLD_RANK:-\${PMI_RANK:-}}" 2>&1
S
chmod +x one_rank

# What each rank says of each test goes to NAME.verdicts.
run() { # NAME, RANKS, WORDS BEFORE THE PROGRAM AND TESTS...
    name=$1 ranks=$2
    shift 2
    rm -f "$name".*
    # shellcheck disable=SC2086
    timeout 100 $MPIRUN -n "$ranks" "$@" >"$name.out" 2>&1 ||
        fail "$name, $ranks ranks: $(tail -n 60 "$name".*)"
    grep -hE ' \.\.\. ' "$name".? | sort >"$name.verdicts"
}

# All went well, and what counts of the calls was taken.
well() { # RANKS, AT LEAST SO MANY TESTS
    [ "$(grep -c ' ok$' kolo.verdicts)" -ge $(($1 * $2)) ] || fail "$1 ranks: $(tail -n 40 kolo.?)"
    cat kolo.? >kolo.all
    taken kolo.all "$1"
}

# Collectives and operations, without those that do not block. On more ranks than cores MPICH alone
# takes long.
tests="-i test_cco -i test_op -e _nb_ -e _pr_ -e _ngh_"
for ranks in 2 3; do
    if [ "$MPI$ranks" = mpich3 ]; then
        # shellcheck disable=SC2086
        run kolo 3 $on_kolo ./one_rank kolo $tests -e _inter -k World.
        well 3 40
        continue
    fi
    # shellcheck disable=SC2086
    run plain $ranks ./one_rank plain $tests
    # shellcheck disable=SC2086
    run kolo $ranks $on_kolo ./one_rank kolo $tests
    cmp plain.verdicts kolo.verdicts ||
        fail "$ranks ranks: $(diff plain.verdicts kolo.verdicts) $(tail -n 40 kolo.?)"
    well $ranks 200
done

# Files: a few collectives of the program, many of the MPI's own library, which stay with it.
# shellcheck disable=SC2086
run kolo 2 $on_kolo ./one_rank kolo -i test_io -k World
well 2 10
echo "$test_name ($MPI): ok"
