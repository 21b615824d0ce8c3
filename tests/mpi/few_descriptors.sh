#!/bin/sh
# Ranks with few file descriptors: the program runs, or ends soon and says what is missing. A rank
# that cannot let another one in must not leave it waiting.
. "$(dirname "$0")/common"
cp "$top/examples/c/hello.c" "$work/"
cd "$work"
cc -Wall -Wextra -Werror hello.c -I "$include" -I "$(folder_of kolo_mpi.h "")" $link \
    $(compile_flags "mpicc.$MPI") $(link_flags "mpicc.$MPI") -o hello
for most in 16 18 20 22 24 64; do
    status=0
    timeout 60 $MPIRUN -n 3 sh -c "ulimit -n $most; exec ./hello" >out 2>err || status=$?
    [ $status != 124 ] || fail "ulimit -n $most: it hangs: $(cat out err)"
    if [ $status = 0 ]; then
        [ "$(grep -c 'of 3: the sum is 6' out)" = 3 ] || fail "ulimit -n $most: $(cat out err)"
    elif grep -q '^kolo: ' err; then
        # Else it is MPI that could not begin.
        grep -q "no file descriptor left (ulimit -n $most" err || fail "ulimit -n $most: $(cat err)"
    fi
done
[ $status = 0 ] || fail "64 descriptors are not enough: $(cat err)"
echo "$test_name ($MPI): ok"
