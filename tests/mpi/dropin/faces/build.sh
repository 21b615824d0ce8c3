# Compiles the programs of this folder, for the tests in which libkolo_pmpi.so runs Fortran.
# Sourced, after `common`; `faces` is this folder.

# One module for each type: NAME, TYPE, MPI'S TYPE, VALUE, COMPARED BY, CLASS.
one_type() {
    sed "s/@NAME@/$1/g; s/@TYPE@/$2/g; s/@MPI@/$3/g; s/@MADE@/$4/g; s/@IS@/$5/g; s/@CLASS@/$6/g" \
        "$faces/type.f90" >"$work/source/$1.f90"
}
one_pair() { # NAME, TYPE, MPI'S TYPE
    sed "s/@NAME@/$1/g; s/@TYPE@/$2/g; s/@MPI@/$3/g" "$faces/pair.f90" >"$work/source/$1.f90"
}
mkdir "$work/source"
cp "$faces"/*.inc "$work/source"
for bytes in 1 2 8; do
    one_type integer$bytes "integer($bytes)" MPI_INTEGER$bytes "int(v, $bytes)" == integer
done
one_type integer4 integer MPI_INTEGER v == integer
one_type real4 'real(4)' MPI_REAL 'real(v, 4)' == real
one_type real8 'real(8)' MPI_REAL8 'real(v, 8)' == real
one_type double 'double precision' MPI_DOUBLE_PRECISION 'real(v, 8)' == real
one_type complex8 'complex(4)' MPI_COMPLEX 'cmplx(v, -v, 4)' == complex
one_type complex16 'complex(8)' MPI_DOUBLE_COMPLEX 'cmplx(v, -v, 8)' == complex
one_type logical logical MPI_LOGICAL 'mod(v, 2) == 1' .eqv. logical
one_type character character MPI_CHARACTER 'achar(32 + mod(v, 90))' == character
one_pair 2integer integer MPI_2INTEGER
one_pair 2real real MPI_2REAL
one_pair 2double 'double precision' MPI_2DOUBLE_PRECISION

# Compilers hold calls of a procedure without an interface against each other.
flags="-cpp -O0 -w $(compile_flags "mpif90.$MPI")"
[ "$(fortran_name)" != gfortran ] || flags="$flags -fallow-argument-mismatch"

# Makes ./main: FACE, WORDS TO LINK WITH.
build_face() {
    face=$1
    shift
    cat "$faces/faces.F90" "$work"/source/*.f90 "$faces/main.F90" >all.F90
    # shellcheck disable=SC2086
    $FC $flags -I "$work/source" "-DFACE=$face" all.F90 "$@" -o main >log 2>&1 ||
        fail "face $face does not compile: $(cat log)"
}

# All of so many ranks ran all their collectives on kolo: as many as the program says. What they
# said is in `out` and `err`.
all_taken() { # WHAT, RANKS
    sum=$(sed -n 's/^all \([0-9]*\) are right$/\1/p' out)
    [ -n "$sum" ] || fail "$1, SEED=$SEED: $(cat out err)"
    [ "$(grep -c "kolo: rank [0-9]*: $sum of $sum collectives ran on kolo" err)" = "$2" ] ||
        fail "$1, SEED=$SEED: $sum collectives: $(cat err)"
    ! grep -q 'MPI ran' err || fail "$1, SEED=$SEED: $(cat err)"
    ran="${ran:-} $sum"
}
