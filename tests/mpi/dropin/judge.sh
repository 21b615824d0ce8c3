# For the tests in which programs of others judge libkolo_pmpi.so. Sourced, after `common`.
#
# What counts of a rank's report: all blocking collectives that came to the library, but for those
# of communicators of one rank and of intercommunicators, and for reductions of derived types. Of
# these at least 95 in 100 must have run on kolo.
preload=$PREFIX/lib/libkolo_pmpi.so.0${YIELDS:-}
# Whatever kolo can run it runs, also where MPI is known to be faster.
export KOLO_PMPI_TABLE=none
judges=$top/build/judges
if [ ! -e "$judges/done" ]; then
    "$top/tests/skip/skip.sh" judges 'make has not fetched them from PyPI'
    exit
fi

# The words that put a program on kolo, at its first call.
on_kolo="env LD_PRELOAD=$preload KOLO_PMPI_ATTACH=0 KOLO_REPORT=1"

# Whether each of so many ranks has reported, and enough of its calls were taken.
taken() { # FILE, RANKS
    grep -oE 'kolo: rank [0-9]+: [0-9]+ of [0-9]+ collectives ran on kolo.*' "$1" >reports || true
    awk -v ranks="$2" -v who="$test_name" '
        function ran(words,   found) {
            if (!match($0, "MPI ran [0-9]+ " words)) return 0
            found = substr($0, RSTART + 8)
            return found + 0
        }
        {
            # Communicators that could not be attached are to be none.
            if (/communicators that (could|span)/) wrong = 1
            counted = $6 - ran("of communicators that stay") - ran("reductions of derived types")
            if (100 * $4 < 95 * counted) wrong = 1
            taken += $4; all += counted
        }
        END {
            printf "%s: %d of %d collectives that count ran on kolo, of %d reports\n", who, taken,
                   all, NR
            exit wrong || NR != ranks || !taken
        }' reports || fail "not enough was taken: $(cat reports)"
}
