#!/bin/sh
# Tools of PMPI above the library, below it and on both sides see what they see without it, once,
# and kolo takes every call.
. "$(dirname "$0")/common"
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin.c" -o drawn
for tool in one two; do
    "mpicc.$MPI" -O1 -Wall -Wextra -Werror -shared -fPIC "-DTOOL=\"$tool\"" \
        "$top/tests/mpi/dropin/tool.c" -o "$tool.so"
done
SEED=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$SEED"

run() { # NAME, LIBRARIES
    timeout 60 $MPIRUN -n 2 env ${2:+"LD_PRELOAD=$2"} KOLO_PMPI_ATTACH=0 KOLO_REPORT=1 \
        ./drawn "$SEED" 200 >raw 2>"$1.err" || fail "$1, SEED=$SEED: $(cat "$1.err")"
    grep -E '^[0-9]+: [0-9a-f]{16}$' raw | sort >"$1.out"
    [ "$(wc -l <"$1.out")" = 2 ] || fail "$1, SEED=$SEED: $(cat raw)"
}
# Open MPI's mpirun may hand on what a rank says inside of a long line of another.
saw() { # NAME, TOOL: the calls that it counted, of each rank
    grep -o "$2: rank [0-9]*: [0-9]* calls" "$1.err" |
        sed 's/.*: \([0-9]*\) calls/\1/' | tr '\n' ' '
}
run plain ""
one=$PWD/one.so two=$PWD/two.so
run without "$one $two"
[ "$(saw without one)" = "200 200 " ] || fail "the tool itself: $(cat without.err)"
for order in "$one $preload" "$preload $one" "$one $preload $two" "$two $one $preload" \
    "$preload $one $two"; do
    # A second tool that the first does not call sees nothing without kolo, too.
    run with "$order"
    what="in the order $order, SEED=$SEED"
    cmp -s plain.out with.out || fail "$what: $(diff plain.out with.out)"
    first=one
    [ "$order" != "$two $one $preload" ] || first=two
    [ "$(saw with $first)" = "200 200 " ] || fail "$what: $(cat with.err)"
    [ "$(grep -c ' 200 of 200 collectives ran on kolo' with.err)" = 2 ] ||
        fail "$what: $(cat with.err)"
    other=two
    [ $first = one ] || other=one
    case "$(saw with $other)" in
    "" | "0 0 ") ;;
    *) fail "$what: the second tool counts too: $(cat with.err)" ;;
    esac
done
echo "$test_name ($MPI): ok"
