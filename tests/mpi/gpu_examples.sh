#!/usr/bin/env bash
# The programs for GPUs (examples/gpu), built and run on the software GPU by the commands of their
# page: they print what the page shows. Where devices are shared, too few, or fail, they say so.
# limit: 90 s
set -euo pipefail
page=$SOURCE/examples/gpu/README.md
fail() { echo "gpu_examples ($MPI): $*" >&2; exit 1; }
cp "$SOURCE"/examples/gpu/*.[ch] .
mkdir bin
for name in mpicc mpirun; do
    printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v $name.$MPI)" >bin/$name
    chmod 755 bin/$name
done
export PATH=$PWD/bin:$PREFIX/bin:$PATH OMPI_MCA_rmaps_base_oversubscribe=1

sed -n 's/^    //p' "$page" >commands
[ "$(wc -l <commands)" = 4 ] || fail "not four commands: $(cat commands)"
while read -r line; do
    bash -euo pipefail -c "$line" </dev/null >>out 2>err || fail "$line: $(cat out err)"
done < <(sed 's/^\(mpi\)\?cc /&-std=c99 -O2 -Wall -Wextra -Wpedantic -Werror /' commands)
awk '/^```text$/ { on = 1; next } /^```$/ { on = 0 } on' "$page" >shown
[ "$(wc -l <shown)" = 2 ] || fail "the page does not show two lines"
diff shown out >&2 || fail "the page shows other lines"

# The programs name the same commands, as their readers may see no page.
for program in sum mpi; do
    grep -E "cc $program.c|softgpu .*/$program\$" commands | while read -r line; do
        grep -qF " *     $line" $program.c || fail "$program.c does not say '$line'"
    done
done

mpirun -n 4 kolo softgpu -n 2 -- ./mpi >out 2>err || fail "on shared devices: $(cat out err)"
diff <(sed -n 's/0 1 2 3/0 1 0 1/p' shown) out >&2 || fail "on shared devices: $(cat err)"

# refused SENTENCE COMMAND...: ends with an error, says why, and claims no sums.
refused() {
    local sentence=$1 status=0
    shift
    : >said
    "$@" >out 2>err || status=$?
    cat said >>err
    [ $status != 0 ] || fail "$*: no error"
    if grep -q 'sums on each' out; then fail "$*: $(cat out)"; fi
    grep -q "$sentence" err || fail "$*: $(cat out err)"
}
# Ranks say it to a file: MPICH's mpirun may drop what a rank has said just before it aborts.
printf '#!/bin/sh\nexec ./mpi 2>>said\n' >said_by_mpi
chmod 755 said_by_mpi
refused '^GPUs here: 1, needed: 2$' kolo softgpu -n 1 -- ./sum
refused '^line [0-9]*: CUDA: out of memory$' \
    env KOLO_SOFTGPU_FAULT=memory:1 kolo softgpu -n 2 -- ./sum
[ "$(grep -c '^line' err)" = 1 ] || fail "sum went on: $(cat err)"
refused '^line [0-9]*: kolo: .*CUDA_ERROR_OUT_OF_MEMORY' \
    env KOLO_SOFTGPU_FAULT=memory:1 mpirun -n 1 kolo softgpu -n 1 -- ./said_by_mpi
[ "$(grep -c '^line' err)" = 1 ] || fail "mpi went on: $(cat err)"
refused '^line [0-9]*: ' env KOLO_SOFTGPU_FAULT=launch:1 kolo softgpu -n 2 -- ./sum
refused '^line [0-9]*: ' \
    env KOLO_SOFTGPU_FAULT=launch:1 mpirun -n 2 kolo softgpu -n 2 -- ./said_by_mpi
echo "gpu_examples ($MPI): ok"
