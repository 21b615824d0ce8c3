#!/bin/sh
# libkolo_mpi uses the MPI that the process has, names none itself, and says so where there is none.
. "$(dirname "$0")/common"
for file in libkolo_mpi.so libkolo_mpi_calls.so; do
    needed=$(readelf -d "$mpi_lib/$file" | grep NEEDED)
    ! echo "$needed" | grep -i libmpi || fail "$file brings an MPI"
done
cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/one_mpi.c" -o one_mpi -ldl
check() { # HOW, MAPPED, LAST LINE, ARGUMENTS
    how=$1 mapped=$2 last=$3
    shift 3
    timeout 60 $MPIRUN -n 1 ./one_mpi "$@" >out 2>err || fail "$how: $(cat out err)"
    [ "$(grep -c ^mapped out)" = "$mapped" ] && [ "$(tail -n 1 out)" = "$last" ] ||
        fail "$how: $(cat out err)"
}
default=$(readelf -d "$(realpath "$(ldconfig -p | sed -n "s|.*=> \(.*/$(
    [ "$MPI" = mpich ] && echo libmpich || echo libmpi)\.so\)$|\1|p" | head -n 1)")" |
    sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
check "without an MPI" 1 started "$mpi_lib/libkolo_mpi.so"
check "with one out of sight" 1 started "$mpi_lib/libkolo_mpi.so" "$default"

# One that cannot be found: the name that the library knows is changed in a copy of it.
mkdir -p none/kolo/copy
cp "$lib/libkolo.so.0" none
sed "s/$default/$(echo "$default" | sed 's/^libmp/libxx/')/g" "$mpi_lib/libkolo_mpi.so" \
    >none/kolo/copy/libkolo_mpi.so
cp "$mpi_lib/libkolo_mpi_calls.so" none/kolo/copy
check "where there is none" 0 refused "$PWD/none/kolo/copy/libkolo_mpi.so"
grep -q 'there is no MPI in this process.*Remedy: ' err || fail "said: $(cat err)"

# Another MPI of the family, which has another file name, as MPICH's own has beside Debian's. The
# plugins of Open MPI name their library, so that there its copy cannot stand for another one.
if [ "$MPI" = mpich ]; then
    mkdir other
    sed 's/libmpich\.so\.12/libmpicX.so.12/g' "$(ldconfig -p |
        sed -n 's|.*=> \(.*/libmpich\.so\.12\)$|\1|p' | head -n 1)" >other/libmpicX.so.12
    cc -O1 -Wall -Wextra -Werror "$top/tests/mpi/two_mpis.c" -I "$include" \
        -I "$(folder_of kolo_mpi.h "")" $(compile_flags mpicc.mpich) $link -L other \
        -l:libmpicX.so.12 -Wl,-rpath,"$PWD/other" -o two_mpis
    timeout 60 $MPIRUN -n 2 ./two_mpis >out 2>&1 || fail "another MPI: $(cat out)"
    [ "$(grep -c '^1 MPI, the sum is 3$' out)" = 2 ] || fail "another MPI: $(cat out)"
fi
echo "$test_name ($MPI): ok"
