#!/bin/sh
# limit: 100 s
# mpi: openmpi
# HPC Challenge finds on kolo what it finds on MPI alone.
. "$(dirname "$0")/common"
. "$top/tests/mpi/dropin/judge.sh"
command -v hpcc >/dev/null || fail "there is no hpcc: Debian has a package of this name"

# Its own input: what Debian gives as an example, with a system of 500 unknowns.
cat >hpccinf.txt <<'I'
HPLinpack benchmark input file
Programs of others on kolo
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
500          Ns
1            # of NBs
40           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
2            Ps
2            Qs
16.0         threshold
3            # of panel fact
0 1 2        PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
2            # of broadcast
1 4          BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
1            Number of additional problem sizes for PTRANS
300          values of N
1            number of additional blocking sizes for PTRANS
16           values of NB
I

# Its verdicts; times, rates and residuals are left out.
run() { # NAME, WORDS BEFORE THE PROGRAM...
    name=$1
    shift
    rm -f hpccoutf.txt
    # shellcheck disable=SC2086
    timeout 80 $MPIRUN -n 4 "$@" hpcc >"$name.out" 2>&1 || fail "$name: $(cat "$name.out")"
    sed -nE -e 's/^(\|\|Ax-b.*=).*(PASSED|FAILED)/\1 \2/p' \
        -e '/^(Success|PTRANS_residual|MPIRandomAccess.*Errors)=/p' \
        -e '/(completed and|errors in) /p' hpccoutf.txt >"$name.found"
}
run plain
# shellcheck disable=SC2086
run kolo $on_kolo
[ "$(grep -c -e '^Success=1' -e ' PASSED$' kolo.found)" = 7 ] ||
    fail "it does not succeed: $(cat kolo.found)"
cmp plain.found kolo.found || fail "$(diff plain.found kolo.found)"
taken kolo.out 4
echo "$test_name ($MPI): ok"
