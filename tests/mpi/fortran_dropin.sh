#!/bin/sh
# limit: 120 s
# Programs in Fortran run on kolo, unchanged, through mpif.h, `use mpi` and `use mpi_f08`: every
# collective that is taken, with each type, at the first call. Then half of the ranks are in C.
. "$(dirname "$0")/common"
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
faces=$top/tests/mpi/dropin/faces
. "$faces/build.sh"
name=$(fortran_name)
SEED=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
echo "SEED=$SEED"
on_kolo="env LD_PRELOAD=$preload KOLO_PMPI_ATTACH=0 KOLO_REPORT=1"
# Flang cannot read the modules that gfortran has written.
all_faces=1
[ "$name" != gfortran ] || all_faces='1 2 3'
for face in $all_faces; do
    mkdir "$work/$face"
    cd "$work/$face"
    # shellcheck disable=SC2046
    build_face $face $(link_flags "mpif90.$MPI")
    # One of them on three ranks, too.
    numbers=2
    [ -z "$FULL" ] && [ $face != $((SEED % 3 + 1)) ] || numbers='2 3'
    for ranks in $numbers; do
        # shellcheck disable=SC2086
        timeout 60 $MPIRUN -n "$ranks" $on_kolo ./main "$SEED" >out 2>err ||
            fail "face $face, $ranks ranks, SEED=$SEED: $(cat out err)"
        all_taken "face $face, $ranks ranks" "$ranks"
    done
done

if [ "$name" = gfortran ]; then
    cd "$work"
    # shellcheck disable=SC2046,SC2086
    $FC $flags "$faces/half.f90" $(link_flags "mpif90.$MPI") -o in_fortran
    "mpicc.$MPI" -O1 -Wall -Wextra -Werror "$faces/half.c" -o in_c
    # The root of what has one is in either.
    set -- c fortran
    [ $((SEED / 3 % 2)) = 0 ] || set -- fortran c
    # shellcheck disable=SC2086
    timeout 60 $MPIRUN -n 2 $on_kolo ./in_$1 200 : -n 2 $on_kolo ./in_$2 200 >out 2>err ||
        fail "ranks in $1 and $2: $(cat out err)"
    all_taken "first two ranks in $1" 4
fi
echo "$test_name ($MPI, $FC):$ran collectives ran on kolo: ok"
