#!/bin/sh
# Communicators whose ranks all belong to one that lives are made of what that has; where their
# settings differ, the ranks say so.
. "$(dirname "$0")/common"
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/adopted.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o "$work/adopted"
cd "$work"
SEED=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$SEED"
for ranks in 2 3 5; do
    timeout 100 $MPIRUN -n $ranks env KOLO_DEBUG=info ./adopted "$SEED" 60 >out 2>err ||
        fail "$ranks ranks, SEED=$SEED: $(grep -v INFO out err)"
    grep -q '^adopted: ok$' out || fail "$ranks ranks, SEED=$SEED: $(cat err)"
    # All but the first, and those made after it had gone where nobody had a larger one.
    made=$(cat out err | grep -c ': made of what communicator' || true)
    all=$(cat out err | grep -c 'communicator [0-9a-f]*: [0-9]* rank' || true)
    [ "$made" -ge $((all / 2)) ] && [ "$all" -ge 60 ] ||
        fail "$ranks ranks, SEED=$SEED: $made of $all were made of another one"
    SEED=$((SEED + 1))
done
echo "$test_name ($MPI): ok"
