#!/bin/sh
# Builds the Fortran interface with one compiler and runs its tests without MPI: 1 to 4 processes
# that meet by a unique id.
#
#   FC=gfortran LIBDIR=folder-of-libkolo.so tests/fortran/run.sh
set -eu
FC=${FC:?name the Fortran compiler}
LIBDIR=$(cd "${LIBDIR:?name the folder of libkolo.so}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$LIBDIR/libkolo.so" "$work/libkolo.so.0" # beside libkolo_fortran, as in an installation

fail() {
    echo "fortran ($FC): $*" >&2
    exit 1
}

library=$(FC=$FC LIBDIR=$LIBDIR "$here/../../bindings/fortran/build.sh" "$work" | tail -n 1)
name=$(basename "$library" .so.0)
name=${name#libkolo_fortran_}
case $name in
gfortran)
    flags="-Wall -Wextra -Werror -Wno-compare-reals -Wno-maybe-uninitialized -fcheck=all"
    trap_flags=-ffpe-trap=invalid,zero,overflow
    ;;
*) flags= trap_flags= ;;
esac
link="-L $work -lkolo_fortran_$name -L $LIBDIR -lkolo -Wl,-rpath,$work"
cd "$work"
cc -Wall -Wextra -Werror -I "$here/../../bindings/fortran" -I "$here/../../bindings/c/include" \
    "$here/words.c" "$here/../../bindings/fortran/kolo_fortran_words.c" -o words
./words || fail "sentences are not in the words of Fortran"
for part in start_plain checks; do
    $FC $flags -I "$name" -c "$here/$part.f90" -o "$part.o"
done
for program in reductions moves types blocks exact errors recipes registered made stops launch \
    ignored printed once ended; do
    $FC $flags -I "$name" "$here/$program.f90" start_plain.o checks.o $link -o "$program"
done
$FC $flags $trap_flags -I "$name" "$here/traps.f90" start_plain.o checks.o $link -o traps

# Default kinds of 8 bytes. flang warns of a constant that is not used.
for kinds in -fdefault-integer-8 "-fdefault-integer-8 -fdefault-real-8"; do
    mkdir -p wide_kinds
    (
        cd wide_kinds
        for part in start_plain checks; do
            $FC $flags $kinds -I "../$name" -c "$here/$part.f90" -o "$part.o"
        done
        $FC $flags $kinds -I "../$name" "$here/wide.f90" ./*.o $link \
            -o "../wide$(echo $kinds | wc -w)"
    ) 2>wide.log || fail "wide.f90 with $kinds does not compile: $(cat wide.log)"
done

# Descriptors, and where values lie, depend on how the compiler optimises.
for level in 0 2; do
    for program in described values; do
        $FC $flags -O$level -I "$name" "$here/$program.f90" start_plain.o checks.o $link \
            -o "$program$level"
    done
done

# Starts $1 on $2 ranks; the exit code is that of the last rank that failed.
on_ranks() {
    program=$1 nranks=$2 result=0 pids= rank=0
    rm -f id id.part
    while [ "$rank" -lt "$nranks" ]; do
        KOLO_TEST_RANK=$rank KOLO_TEST_RANKS=$nranks KOLO_TEST_ID=$work/id \
            timeout 60 "./$program" >"out.$rank" 2>"err.$rank" &
        pids="$pids $!"
        rank=$((rank + 1))
    done
    for pid in $pids; do
        wait "$pid" || result=$?
    done
    return "$result"
}

# The environment says who is who.
for nranks in 1 3; do
    pids=
    for rank in $(seq 0 $((nranks - 1))); do
        env -u SLURM_STEP_ID -u SLURM_STEPID KOLO_RANK="$rank" KOLO_NRANKS="$nranks" \
            KOLO_COMM_ID=127.0.0.1:$((20000 + $$ % 10000)) \
            timeout 60 ./launch >"out.$rank" 2>"err.$rank" &
        pids="$pids $!"
    done
    for pid in $pids; do
        wait "$pid" || fail "launch on $nranks ranks: $(cat err.*)"
    done
    [ "$(cat out.*)" = "launch: ok" ] || fail "launch on $nranks ranks said: $(cat out.*)"
    rm -f out.* err.*
done

for nranks in 1 2 3 4; do
    for program in reductions moves types blocks exact errors traps recipes registered made; do
        on_ranks "$program" "$nranks" || fail "$program on $nranks ranks: $(cat err.*)"
        [ "$(cat out.*)" = "$program: ok" ] || fail "$program on $nranks ranks said: $(cat out.*)"
    done
done

for nranks in 1 2 3; do
    for name_of in described values; do
        for level in 0 2; do
            on_ranks $name_of$level "$nranks" ||
                fail "$name_of at -O$level on $nranks ranks: $(cat err.*)"
            [ "$(cat out.*)" = "$name_of: ok" ] || fail "$name_of at -O$level said: $(cat out.*)"
        done
    done
done

for nranks in 1 2 3; do
    for kinds in 1 2; do
        on_ranks wide$kinds "$nranks" || fail "wide$kinds on $nranks ranks: $(cat err.*)"
        [ "$(cat out.*)" = "wide: ok" ] || fail "wide$kinds on $nranks ranks said: $(cat out.*)"
    done
done

# A program that stops with a text ends with status 0.
for nranks in 2 3; do
    rm -f out.* err.*
    on_ranks ended "$nranks" || fail "ended on $nranks ranks: $(cat err.*)"
    [ "$(cat out.*)" = "ended: ok" ] || fail "ended on $nranks ranks said: $(cat out.*)"
done

# What an ignored ierror said is on standard error, once for each cause, and then counted.
on_ranks ignored 2 || fail "ignored: $(cat err.*)"
for rank in 0 1; do
    for words in "ERROR kolo .*kolo_allreduce: .*logical(4)" "ERROR kolo .*: kolo_bcast: root 2 " \
        "2 more calls have failed for the same reason: kolo_allreduce: .*logical(4)" \
        "3 more calls have failed for the same reason as kolo_bcast: root 2 "; do
        [ "$(grep -c "$words" err.$rank)" = 1 ] || fail "not once '$words': $(cat err.$rank)"
    done
    [ "$(wc -l <err.$rank)" = 4 ] || fail "more than that: $(cat err.$rank)"
done

# Without ierror the process ends, with the sentence on standard error and its output written.
if on_ranks stops 1; then fail "a wrong call without ierror came back"; fi
for words in "kolo: rank 0: kolo_allreduce: .*logical(4)" "Remedy: " "no ierror"; do
    grep -q "$words" err.0 || fail "no '$words' in: $(cat err.0)"
done
grep -q "written before" out.0 || fail "the output before the stop is lost"
if grep -q survived out.0; then fail "the program went on"; fi

# The place of a call that fails, where that is asked for.
$FC $flags -g -I "$name" "$here/placed.f90" start_plain.o checks.o $link -o placed
line_of() { grep -n "! $1" "$here/placed.f90" | cut -d: -f1; }
KOLO_ERRORS=backtrace on_ranks placed 1 || fail "placed: $(cat err.*)"
for words in "kolo_send: .*\. Called by step of module ocean (.*:$(line_of here))" \
    "kolo_allreduce: .* has 1\. .*\. Called by melt of module ocean (.*:$(line_of too))"; do
    grep -q "kolo: rank 0: $words\$" out.0 || fail "no '$words' in: $(cat out.0)"
done
# The log and the report have Fortran's names, too.
KOLO_DEBUG=trace KOLO_REPORT=1 on_ranks moves 2 || fail "moves: $(cat err.*)"
for words in "TRACE kolo .*: kolo_bcast #.* x logical(4), root 0, " "^  kolo_bcast  *[0-9]" \
    "^  kolo_comm_split  *- " "^  kolo_comm_destroy  *- "; do
    grep -q "$words" err.0 || fail "no '$words' in: $(cat err.0)"
done
if grep -q "Broadcast\|AllReduce\|CommDestroy\|int32\| char," err.0; then
    fail "names of C: $(grep "Broadcast\|AllReduce\|CommDestroy\|int32\| char," err.0)"
fi
on_ranks placed 1 || fail "placed: $(cat err.*)"
if grep -q "Called by" out.0; then fail "a place that nobody has asked for: $(cat out.0)"; fi

# The sentence stands there once, and not before in the words of C.
if on_ranks once 1; then fail "a wrong root without ierror came back"; fi
[ "$(grep -c "root 6 " err.0)" = 1 ] || fail "not once 'root 6': $(cat err.0)"
grep -q "^kolo: rank 0: kolo_bcast: root 6 " err.0 || fail "not in Fortran's words: $(cat err.0)"

# The same where a print waits for the result. It holds its unit, so what that has may be lost.
result=0
on_ranks printed 1 || result=$?
[ "$result" = 1 ] || fail "a wrong call inside a print ended with $result: $(cat err.0)"
grep -q "kolo: rank 0: kolo_sum_exact: .*mask" err.0 || fail "no 'mask' in: $(cat err.0)"
if grep -q survived out.0; then fail "the program went on"; fi

# Wrong programs do not compile.
$FC -I "$name" -c "$here/reject/accepted.f90" -o reject.o || fail "accepted.f90 does not compile"
for wrong in "$here"/reject/*.f90; do
    case $wrong in */accepted.f90) continue ;; esac
    if $FC -I "$name" -c "$wrong" -o reject.o 2>reject.log; then fail "$wrong compiles"; fi
    grep -qi "kolo\|subscript\|private\|definable" reject.log || fail "$wrong: $(cat reject.log)"
done
echo "fortran ($name): ok"
