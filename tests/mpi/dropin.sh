#!/bin/sh
# limit: 150 s
# Programs that know nothing of kolo run on it, and what they compute is what MPI computes.
. "$(dirname "$0")/common"
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
# Whatever kolo can run it runs, also where MPI is known to be faster.
export KOLO_PMPI_TABLE=none
library=$PREFIX/lib/libkolo_pmpi.so.0
[ -e "$library" ] || fail "there is no $library"
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
! echo "$needed" | grep -v '^lib\(c\|dl\|pthread\)\.so' | grep -v '^ld-linux' ||
    fail "libkolo_pmpi.so needs more than the C library"

"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin.c" -o drawn
SEED=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$SEED"

# The lines of the ranks, in their order, go to NAME.out.
run() { # NAME, RANKS, WORDS BEFORE THE PROGRAM...
    name=$1 ranks=$2
    shift 2
    # shellcheck disable=SC2086
    timeout 60 $MPIRUN -n "$ranks" "$@" ./drawn "$SEED" 300 >"$name.raw" 2>"$name.err" ||
        fail "$name, $ranks ranks, SEED=$SEED: $(cat "$name.err")"
    # MPICH's UCX tells of messages that nobody has received, which a rank without the library has.
    grep -E '^[0-9]+: [0-9a-f]{16}$' "$name.raw" | sort >"$name.out"
    [ "$(wc -l <"$name.out")" = "$ranks" ] || fail "$name, SEED=$SEED: $(cat "$name.raw")"
}

# All calls that the library may take are taken: those that MPI ran were early.
all_taken() { # NAME, RANKS, EARLY CALLS OF EACH COMMUNICATOR
    lines=$(grep -c 'collectives ran on kolo' "$1.err" || true)
    [ "$lines" = "$2" ] || fail "$1: $lines lines of $2 ranks: $(cat "$1.err")"
    sed -n 's/^kolo: rank [0-9]*: \([0-9]*\) of \([0-9]*\) collectives.*/\1 \2/p' "$1.err" |
        while read -r taken calls; do
            [ "$calls" = 300 ] || fail "$1: $calls calls were seen: $(cat "$1.err")"
            [ $((calls - taken)) = $((3 * $3)) ] || fail "$1: $taken taken: $(cat "$1.err")"
        done
}

for ranks in 2 3 4; do
    run plain $ranks
    for attach in 0 7; do
        run kolo $ranks env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=$attach KOLO_REPORT=1
        cmp -s plain.out kolo.out ||
            fail "$ranks ranks, after $attach: SEED=$SEED: $(diff plain.out kolo.out)"
        all_taken kolo $ranks $attach
    done
    SEED=$((SEED + 1))
done

# One rank without the library: the others say which, once, and the job runs on MPI alone.
run plain 3
for without in 0 2; do
    cat >some <<S
#!/bin/sh
[ "\${OMPI_COMM_WORLD_RANK:-\${PMI_RANK:-}}" = $without ] || export LD_PRELOAD=$preload
exec "\$@"
S
    chmod +x some
    run some 3 env KOLO_PMPI_ATTACH=0 KOLO_PMPI_TIMEOUT=1 ./some
    cmp -s plain.out some.out || fail "without on rank $without: $(diff plain.out some.out)"
    [ "$(grep -c "^kolo: .*rank $without does not answer" some.err)" = 1 ] &&
        [ "$(grep -c kolo: some.err)" = 1 ] || fail "said of $without: $(cat some.err)"
done

# Settings: MPI keeps all, and a wrong one is told once.
run off 2 env LD_PRELOAD="$preload" KOLO_PMPI=off KOLO_REPORT=1
run plain 2
cmp -s plain.out off.out || fail "off: $(diff plain.out off.out)"
! grep kolo: off.err || fail "KOLO_PMPI=off takes calls"
run wrong 2 env LD_PRELOAD="$preload" KOLO_PMPI_MIN_RANKS=many
cmp -s plain.out wrong.out || fail "a wrong setting: $(diff plain.out wrong.out)"
[ "$(grep -c 'kolo: .*MPI: [^:]*KOLO_PMPI_MIN_RANKS' wrong.err)" = 1 ] &&
    [ "$(grep -c KOLO_PMPI_MIN_RANKS wrong.err)" = 1 ] || fail "said: $(cat wrong.err)"
run few 2 env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=0 KOLO_PMPI_MIN_RANKS=3 KOLO_REPORT=1
[ "$(grep -c ' 0 of 300 collectives ran on kolo' few.err)" = 2 ] || fail "few: $(cat few.err)"

# A program that ends without MPI_Finalize is told of, too. Its MPI may complain, and end the other
# rank before it is so far.
cat >unfinished.c <<'C'
#include <mpi.h>
int main(int argc, char **argv)
{
    int one = 1, all;
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 5; i++) MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return all != 2;
}
C
"mpicc.$MPI" -O1 unfinished.c -o unfinished
timeout 60 $MPIRUN -n 2 env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=0 KOLO_REPORT=1 ./unfinished \
    >unfinished.out 2>&1 || true
grep -q 'kolo: rank [01]: 5 of 5 collectives ran on kolo' unfinished.out ||
    fail "without MPI_Finalize: $(cat unfinished.out)"

# Lists: the calls that are named are taken, and no others.
timeout 60 $MPIRUN -n 2 ./drawn "$SEED" 300 tell >told 2>told.err || fail "$(cat told.err)"
of() { grep -c "^0: call [0-9]* what \($1\) " told || true; }
run only 2 env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=0 KOLO_REPORT=1 \
    KOLO_PMPI_COLLECTIVES=barrier,alltoallv
cmp -s plain.out only.out || fail "two of them: $(diff plain.out only.out)"
[ "$(grep -c " $(of '0\|9') of 300 collectives ran on kolo" only.err)" = 2 ] &&
    [ "$(grep -c "MPI ran $((300 - $(of '0\|9'))) that the settings leave to it" only.err)" = 2 ] ||
    fail "two of them, $(of '0\|9') calls: $(cat only.err)"
run wrong 2 env LD_PRELOAD="$preload" KOLO_PMPI_COLLECTIVES=^bcast:9-
cmp -s plain.out wrong.out || fail "a wrong list: $(diff plain.out wrong.out)"
said='kolo: .*KOLO_PMPI_COLLECTIVES.*`^bcast:9-` is not followed by a range'
[ "$(grep -c "$said" wrong.err)" = 1 ] ||
    fail "said: $(cat wrong.err)"

# Where memory is short, communicators stay with MPI: the slots of one alone take more.
run small 2 env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=0 KOLO_REPORT=1 KOLO_PMPI_MEMORY=1M
cmp -s plain.out small.out || fail "small: $(diff plain.out small.out)"
[ "$(grep -c ' 0 of 300 .* 3 communicators for which kolo may take no more' small.err)" = 2 ] ||
    fail "small: $(cat small.err)"

# A process that can open a GPU, with an MPI that takes its memory: all calls stay there. /dev is a
# copy with one more file, which the processes of this test alone see.
cat >with_gpu.c <<'C'
int MPIX_Query_cuda_support(void) { return 1; }
C
cat >without_gpu.c <<'C'
int MPIX_Query_cuda_support(void) { return 0; }
int MPIX_Query_hip_support(void) { return 0; }
int MPIX_Query_ze_support(void) { return 0; }
int MPIX_Query_rocm_support(void) { return 0; }
C
cc -shared -fPIC with_gpu.c -o with_gpu.so && cc -shared -fPIC without_gpu.c -o without_gpu.so
cat >on_device <<'S'
#!/bin/sh
set -eu
new=$(mktemp -d)
mount -t tmpfs tmpfs "$new"
for file in null zero full random urandom tty; do
    : >"$new/$file" && mount --bind "/dev/$file" "$new/$file"
done
for folder in shm pts; do
    mkdir "$new/$folder" && mount --rbind "/dev/$folder" "$new/$folder"
done
ln -s /proc/self/fd "$new/fd"
: >"$new/nvidiactl"
mount --rbind "$new" /dev
exec "$@"
S
chmod +x on_device
as_root=; [ "$(id -u)" = 0 ] || as_root=-r
main=$MPIRUN
MPIRUN="unshare -m $as_root ./on_device $main"
run gpu 2 env LD_PRELOAD="$preload $PWD/with_gpu.so" KOLO_PMPI_ATTACH=0 KOLO_REPORT=1
cmp -s plain.out gpu.out || fail "on a GPU: $(diff plain.out gpu.out)"
[ "$(grep -c 'kolo: .*stay with MPI: rank 0 can open a GPU' gpu.err)" = 1 ] &&
    [ "$(grep -c kolo: gpu.err)" = 1 ] || fail "said of a GPU: $(cat gpu.err)"
run host 2 env LD_PRELOAD="$preload $PWD/with_gpu.so" KOLO_PMPI_ATTACH=0 KOLO_PMPI_GPU=host \
    KOLO_REPORT=1
all_taken host 2 0
run no_device 2 env LD_PRELOAD="$preload $PWD/without_gpu.so" KOLO_PMPI_ATTACH=0 KOLO_REPORT=1
all_taken no_device 2 0
MPIRUN=$main

# Between two groups arguments mean other things: MPI has these calls, unread.
"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin_groups.c" -o groups
for ranks in 2 5; do
    timeout 60 $MPIRUN -n $ranks env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=0 ./groups ||
        fail "collectives between two groups of $ranks ranks"
done

# An element of more than 2 GiB: 7 GiB of memory.
if [ -n "$FULL" ]; then
    "mpicc.$MPI" -O2 -Wall -Wextra -Werror "$top/tests/mpi/dropin/large.c" -o large
    timeout 150 $MPIRUN -n 2 env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=0 KOLO_REPORT=1 ./large \
        >large.out 2>large.err || fail "more than 2 GiB: $(cat large.err)"
    [ "$(grep -c 'has it$' large.out)" = 2 ] &&
        [ "$(grep -c ' 2 of 2 collectives ran on kolo' large.err)" = 2 ] ||
        fail "more than 2 GiB: $(cat large.err)"
fi

# Copies of types are freed, and others have their handles.
"mpicc.$MPI" -O1 -Wall -Wextra -Werror "$top/tests/mpi/dropin/reused.c" -o reused
timeout 60 $MPIRUN -n 2 env LD_PRELOAD="$preload" KOLO_PMPI_ATTACH=0 ./reused >reused.out 2>&1 &&
    [ "$(grep -c '^rank [01]: [1-9][0-9]* reused' reused.out)" = 2 ] ||
    fail "handles used again: $(cat reused.out)"

# Linked before the MPI it needs no preload.
flags=$(PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig pkg-config --libs kolo-pmpi)
# shellcheck disable=SC2086
"mpicc.$MPI" -O1 unfinished.c -o linked $flags
timeout 60 $MPIRUN -n 2 env KOLO_PMPI_ATTACH=0 KOLO_REPORT=1 ./linked >linked.out 2>&1 || true
grep -q 'kolo: rank [01]: 5 of 5 collectives ran on kolo' linked.out ||
    fail "linked: $(cat linked.out)"

# What is no MPI program meets nothing of it.
said=$(LD_PRELOAD="$library" bash -c true 2>&1) || fail "bash does not run under it"
[ -z "$said" ] || fail "under bash it says: $said"
echo "$test_name ($MPI): ok"
