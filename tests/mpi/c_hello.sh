#!/bin/sh
# The example of the README, built outside the tree as a user does, on 1 to 4 ranks.
. "$(dirname "$0")/common"
cp "$top/examples/c/hello.c" "$work/"
cd "$work"
cc -Wall -Wextra -Werror hello.c -I "$include" -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o hello
for nranks in 1 2 4; do
    $MPIRUN -n $nranks ./hello >out 2>err || fail "$(cat out err)"
    [ "$(grep -c "of $nranks: the sum is $((nranks * (nranks + 1) / 2))" out)" = "$nranks" ] ||
        fail "hello on $nranks ranks said: $(cat out)"
done
echo "$test_name ($MPI): ok"
