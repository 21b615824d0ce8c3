#!/bin/sh
# limit: 90 s
# A rank is killed in a collective that kolo runs: the others get an error of MPI that names it.
. "$(dirname "$0")/common"
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin/killed.c" -o killed
# MPICH's launcher ends all where a child of its own is killed or has ended without MPI_Finalize, by
# the signal USR1: it is to see none, and that signal does nothing.
cat >within <<'S'
#!/bin/sh
trap '' USR1
"$@" || true
S
chmod +x within
case $MPI in
openmpi) survive=--enable-recovery ;;
mpich) survive=-disable-auto-cleanup ;;
esac
SEED=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$SEED"
for round in 1 2 3; do
    head -c 64 /dev/zero >board
    timeout 40 $MPIRUN $survive -n 4 env "LD_PRELOAD=$preload" KOLO_PMPI_ATTACH=0 \
        ./within ./killed "$SEED" "$PWD/board" >out 2>err || true
    [ "$(grep -c '^noticed' out)" = 3 ] || fail "SEED=$SEED: $(cat out err)"
    echo "SEED=$SEED: $(sort out | tail -n 1)"
    SEED=$((SEED + 1))
done
echo "$test_name ($MPI): ok"
