#!/bin/sh
# limit: 150 s
# A job hangs for a reason that is drawn: the first line of `kolo ras` names the culprit, and says
# what it does. `SEED=123` plays the same again.
. "$(dirname "$0")/common"
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/ras.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link -pthread \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o hang
SEED=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$SEED"
kolo=$PREFIX/bin/kolo

# The next number below $1, from the seed.
state=$SEED
draw() {
    state=$(((state * 1103515245 + 12345) % 2147483648))
    drawn=$((state / 65536 % $1))
}

# Starts it, and waits until all ranks have made their calls: $pids are theirs, by rank.
start() { # KIND, WORDS BEFORE THE PROGRAM...
    kind=$1
    shift
    draw 4 && culprit=$drawn
    draw 40 && calls=$drawn
    : >out
    # shellcheck disable=SC2086
    timeout -s KILL 60 $MPIRUN -n 4 "$@" ./hang "$kind" "$culprit" "$calls" >out 2>err &
    job=$!
    looks=0
    while [ "$(grep -c '^[0-3] [0-9]*$' out)" != 4 ]; do
        looks=$((looks + 1))
        [ $looks -lt 600 ] || fail "$kind: it does not start: $(cat out err)"
        sleep 0.05
    done
    pid=$(sed -n "s/^$(((culprit + 1) % 4)) //p" out)
}

end() {
    # shellcheck disable=SC2046
    kill -KILL $(sed -n 's/^[0-3] //p' out) 2>/dev/null || true
    kill -KILL $job 2>/dev/null || true
    wait $job 2>/dev/null || true
}

# The first line of the table must name the culprit and say these words.
named() { # WORDS...
    told=
    sleep 0.8
    for look in 1 2 3 4 5 6 7 8 9 10 11 12; do
        sleep 0.2
        told=$("$kolo" ras "$pid" 2>&1) || continue
        first=$(echo "$told" | head -n 1)
        is_said=1
        for word in "$@"; do
            echo "$first" | grep -q "$word" || is_said=
        done
        if [ -n "$is_said" ]; then
            echo "$kind, rank $culprit: $first"
            end
            return
        fi
    done
    echo "$told" >&2
    fail "SEED=$SEED $kind, rank $culprit after $calls calls: not said: $*"
}

# What waits for the culprit in a collective.
late() { # KIND, WORDS...
    if [ "$1" = drop-in ]; then
        start "$1" env "LD_PRELOAD=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}" KOLO_PMPI_ATTACH=0
    else
        start "$1"
    fi
    shift
    named "^rank $culprit on .* has made [0-9]* calls, and [123] ranks* waits* for it in call" "$@"
}

late computes "is outside of kolo, and running"
late pauses "is outside of kolo, and waiting for a signal, in pause()"
late mpi "is outside of kolo, and "
late stops "its process is stopped"
late writes "in write() of pipe:"
late reads "in read() of pipe:"
late locks "waiting for a lock or another thread, in futex()"
late file "in flock() of "
late child "waiting for a child process, in wait()"
start start && named "rank $culprit has not come" \
    "(pid $(sed -n "s/^$culprit //p" out)), which is waiting for a signal, in pause()"
start order && named "wait for each other, in calls that they make in different order" \
    "rank $culprit on .* waits in call"
start sends && named "each of these ranks sends first" "waits in Send of communicator"
start operation && named "rank $culprit on .* has made the call, and does not wait in it"
start message && named "rank $culprit on .* has not called the matching operation: .*, and running"
start split && named "rank $culprit on .* waiting for a signal, in pause()"
start later && named "in different order" "rank $culprit on .* waits in call"

# Another user gets nothing, and neither does a question about what is no process of kolo's.
start pauses
if [ "$(id -u)" = 0 ]; then
    strange=$(setpriv --reuid 65534 --clear-groups "$kolo" ras "$pid" 2>&1) &&
        fail "another user is told: $strange"
    echo "$strange" | grep -q "process $pid does not use kolo, or is of another user" ||
        fail "another user: $strange"
fi
"$kolo" ras $$ >told 2>&1 && fail "a shell is told of: $(cat told)"
grep -q "process $$ does not use kolo" told || fail "a shell: $(cat told)"
said=
# The words for programs; one line for each rank.
cat >look.py <<'P'
import json, sys
told, culprit = json.load(open(sys.argv[1])), int(sys.argv[2])
assert [row["rank"] for row in told["table"]["comms"][0]["rows"]] == [0, 1, 2, 3]
if not told["verdict"]["sentence"].startswith("the job goes on"):
    assert [rank for _, rank in told["verdict"]["ranks"]] == [culprit], told["verdict"]
    print("named")
P
looks=0
until [ "$said" = named ]; do
    looks=$((looks + 1))
    [ $looks -lt 100 ] || fail "JSON never names it: $(cat told)"
    sleep 0.1
    "$kolo" ras "$pid" --json >told || fail "no JSON"
    said=$(python3 look.py told "$culprit") || fail "the JSON: $(cat told)"
done
[ "$("$kolo" ras "$pid" --all | grep -c '^ *[0-3]  .*(pid [0-9]*)\]$')" = 8 ] ||
    fail "a line for each rank of two communicators: $("$kolo" ras "$pid" --all)"
end

# A program that knows nothing of kolo.
cat >plain.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, one = 1, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i <= atoi(argv[3]); i++)
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%d %d\n", rank, (int)getpid());
    fflush(stdout);
    while (rank == atoi(argv[2])) sleep(1);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
C
"mpicc.$MPI" -O1 plain.c -o hang
late "drop-in" "is outside of kolo, and asleep, in nanosleep()"
echo "$test_name ($MPI): ok"
