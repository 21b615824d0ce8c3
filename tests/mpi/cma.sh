#!/bin/sh
# Private buffers that ranks read by system calls: every type and operation at the least size that
# is read so, mixtures with koloMemAlloc, a threshold, and the line that says what is in use.
. "$(dirname "$0")/common"
export KOLO_CMA=on
said() { KOLO_DEBUG=info $MPIRUN -n 2 "$KOLO" perf all_reduce -b 1M -e 1M -n 2 -w 0 2>&1; }
said >log || fail "$(cat log)"
if ! grep -q 'CMA: private buffers are read by process_vm_readv' log; then
    # Where the system refuses, that is what must be said, and calls go through slots.
    grep -q 'CMA is not used, private buffers go through slots' log || fail "silent: $(cat log)"
    echo "$test_name: the system refuses; what follows tests slots" >&2
fi
for n in 2 3; do
    $MPIRUN -n $n "$KOLO" perf all_reduce -d all -o all -b 64K -e 64K -n 1 -w 0 >table ||
        fail "all types on $n ranks: $(cat table)"
    grep -q 'executed == planned' table || fail "steps beside the plan: $(cat table)"
done
for collective in reduce_scatter all_gather broadcast; do
    $MPIRUN -n 3 "$KOLO" perf $collective -r 1 -b 256K -e 4M -f 16 -n 2 -w 0 >table ||
        fail "$collective: $(cat table)"
done
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/direct.c" -I "$include" \
    -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o direct
[ "$(KOLO_CMA_FROM=500K $MPIRUN -n 3 ./direct)" = "all right" ] || fail "mixed buffers"
KOLO_CMA=off said >log || fail "$(cat log)"
! grep -q 'CMA:\|CMA is' log || fail "switched off, but: $(cat log)"
echo "$test_name ($MPI): ok"
