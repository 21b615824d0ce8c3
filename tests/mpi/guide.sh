#!/usr/bin/env bash
# The quick starts of the guide as a new user follows them: their commands are typed as they stand,
# their programs print what the page says, and what their tables say of MPI and kolo gives the same
# data. Only sizes are made smaller, and MPICH's names are put in.
# limit: 150 s
set -euo pipefail
guide=$SOURCE/docs/guide
# The folder of the examples, with the version that this is.
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$SOURCE/Cargo.toml" | head -n 1)
example=/opt/kolo/$version-openmpi
fail() { echo "guide ($MPI): $*" >&2; exit 1; }

. "$SOURCE/tests/mpi/newcomer"

# block PAGE LANGUAGE NUMBER: what the fenced block of this language and number holds.
block() {
    awk -v open='```'"$2" -v wanted="$3" '$0 == open { on = ++n == wanted; next }
        /^```/ { on = 0 } on' "$guide/$1.md"
}

# typed FOLDER COMMANDS: by a shell that knows nothing else.
typed() {
    local words=${2//"$example"/$PREFIX}
    words=${words//\/opt\/kolo/$PREFIX}
    (cd "$1" && env -i PATH="$work/bin:$PREFIX/bin:$cargo_bin:/usr/local/bin:/usr/bin:/bin" \
        HOME="$work" TMPDIR="$work" CARGO_HOME="$CARGO_HOME" RUSTUP_HOME="$RUSTUP_HOME" \
        PKG_CONFIG_PATH="$PREFIX/lib/pkgconfig" timeout 100 bash -euo pipefail -c "$before
$(as_linked "$words")")
}

# The lines of four ranks, sorted. MPICH's mpirun may put the end of a line behind another one.
lines() { grep -oE 'rank [0-9]+ of [0-9]+: the sum is [0-9]+' "$1" | sort; }

# What a page shows is what its commands print, in any order.
quick_start() { # PAGE FOLDER
    local commands
    commands=$(block "$1" sh 1)
    [ -n "$commands" ] || fail "$1.md has no commands"
    typed "$2" "$commands" >out 2>err || fail "$1.md: $(cat out err)"
    block "$1" text 1 >shown
    [ "$(lines shown | wc -l)" = 4 ] || fail "$1.md does not show four ranks"
    diff <(lines shown) <(lines out) >&2 || fail "$1.md shows another text: $(cat err)"
    [ "$(wc -c <shown)" = "$(wc -c <out)" ] || fail "more is printed than $1.md shows: $(cat out)"
}

# The rows of a page's table: a call of MPI, and that of kolo which does the same.
rows() { # PAGE
    sed -n 's/^| `\(.*\)` | `\(.*\)` |$/\1\t\2/p' "$guide/$1.md" | grep -i '^\(call \)\?mpi_'
}

c_table() {
    cat <<'C'
#include <kolo_mpi.h>
#include <stdio.h>
#include <string.h>
enum { n = 3, all = 64 };
static double s[all], r[all], before[all];
static void fill(int rank, int row) {
    for (int i = 0; i < all; i++) {
        s[i] = 1000 * rank + 10 * row + i;
        r[i] = before[i] = -1 - rank - i;
    }
}
/* Rank 0 tells of all: which ranks have what MPI gave, and whether any has received something. */
static void told(int rank, int row, int same, int moved) {
    MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &moved, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    if (rank == 0) printf("row %d: the same on %d ranks, moved: %d\n", row, same, moved);
}
int main(int argc, char **argv) {
    koloComm_t comm;
    double want[all];
    int rank, nranks, row = 0;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &nranks);
    const int right = (rank + 1) % nranks, left = (rank + nranks - 1) % nranks;
    if (koloCommInitMPI(&comm, world) != koloSuccess) MPI_Abort(world, 1);
C
    while IFS=$'\t' read -r mpi kolo; do
        echo "fill(rank, ++row); if ($mpi != MPI_SUCCESS) MPI_Abort(world, 1);"
        echo 'memcpy(want, r, sizeof r); fill(rank, row);'
        echo "if ($kolo != koloSuccess) MPI_Abort(world, 1);"
        echo 'told(rank, row, memcmp(want, r, sizeof r) == 0, memcmp(before, r, sizeof r) != 0);'
    done < <(rows c)
    echo 'if (koloCommDestroy(comm) != koloSuccess) MPI_Abort(world, 1);'
    echo 'MPI_Finalize(); return 0; }'
}

fortran_table() {
    cat <<'FORTRAN'
program table
  use mpi
  use kolo
  implicit none
  integer, parameter :: n = 3
  integer :: world, ierror, rank, nranks, left, right, row
  type(kolo_comm) :: comm
  real(8) :: s(n), r(n), want_r(n), before(n)
  real(8), allocatable :: whole(:), want_whole(:)
  world = MPI_COMM_WORLD
  call mpi_init(ierror)
  call mpi_comm_rank(world, rank, ierror)
  call mpi_comm_size(world, nranks, ierror)
  right = mod(rank + 1, nranks)
  left = mod(rank + nranks - 1, nranks)
  allocate (whole(n * nranks), want_whole(n * nranks))
  call kolo_comm_init(world, comm)
  row = 0
FORTRAN
    while IFS=$'\t' read -r mpi kolo; do
        printf '  row = row + 1\n  call fill()\n  %s\n  want_r = r\n  want_whole = whole\n' "$mpi"
        printf '  call fill()\n  %s\n  call compare()\n' "$kolo"
    done < <(rows fortran)
    cat <<'FORTRAN'
  call kolo_comm_destroy(comm)
  call mpi_finalize(ierror)
contains
  subroutine fill()
    integer :: i
    s = [(1000.0d0 * rank + 10 * row + i, i = 1, n)]
    before = [(-1.0d0 - rank * row - i, i = 1, n)]
    r = before
    whole = -1
  end subroutine
  subroutine compare()
    integer :: mine(2), of_all(2)
    mine(1) = merge(1, 0, all(r == want_r) .and. all(whole == want_whole))
    mine(2) = merge(1, 0, any(r /= before) .or. any(whole /= -1))
    call mpi_reduce(mine, of_all, 2, MPI_INTEGER, MPI_SUM, 0, world, ierror)
    of_all(2) = min(of_all(2), 1)
    if (rank == 0) print '(*(a,i0))', 'row ', row, ': the same on ', of_all(1), &
      ' ranks, moved: ', of_all(2)
  end subroutine
end program table
FORTRAN
}

# On four ranks each row gives what MPI gives, and all but the barrier have moved something.
table() { # PAGE
    local count
    count=$(rows "$1" | wc -l)
    typed tables "mpirun -n 4 ./$1" >out 2>err || fail "table of $1.md: $(cat out err)"
    [ "$(grep -c '^row [0-9]*: the same on 4 ranks' out)" = "$count" ] ||
        fail "table of $1.md: $(cat out err)"
    [ "$(grep -c 'moved: 1$' out)" = $((count - 1)) ] || fail "table of $1.md: $(cat out err)"
    echo "table of $1.md: $count rows"
}

work=$PWD before=$exports
mkdir c fortran tables site
quick_start c c
quick_start fortran fortran
c_table >tables/c.c
fortran_table >tables/fortran.f90
typed tables 'mpicc -Wall -Wno-dangling-else c.c $(pkg-config --cflags --libs kolo-mpi) -o c'
typed tables 'mpif90 fortran.f90 $(pkg-config --cflags --libs kolo-fortran kolo-mpi) -o fortran'
table c
table fortran

before="$of_cargo
unset PKG_CONFIG_PATH
$before" quick_start rust "$SOURCE"

# For sites: make takes the words, the tree has what is named, kolo takes the file.
page=$guide/sites.md
said=$(typed "$SOURCE" "$(block sites sh 1 | sed 's/^make /make --dry-run /')" 2>&1) ||
    fail "sites.md: $said"
[[ $said == *'FAMILIES="openmpi" '*'bindings/install.sh "'"$PREFIX"'"'* ]] || fail "make: $said"
# Root's half of the two steps: words that install.sh knows, for the folder of the first command.
said=$(typed "$SOURCE" "$(block sites sh 2 |
    sed 's/^make /make --dry-run /; s/^sudo /echo asked /')" 2>&1) || fail "sites.md: $said"
asked=$(echo "$said" | sed -n 's/^asked //p')
[[ $asked == 'FAMILIES=openmpi '*' bindings/install.sh '"$PREFIX" ]] || fail "sudo: $asked"
for word in $(echo "$asked" | grep -oE '[A-Za-z_]+='); do
    grep -q "^#   ${word%=}  *[a-z]" "$SOURCE/bindings/install.sh" || fail "sudo: $word"
done
paths=$(grep -oE "(PREFIX|$example)/(share|lib|bin)[A-Za-z0-9_./-]*" "$page")
[ "$(echo "$paths" | wc -l)" -ge 3 ] || fail "sites.md names only $paths"
for path in $paths; do
    [ -e "$PREFIX/$(echo "$path" | sed "s,^PREFIX/\|^$example/,,")" ] ||
        fail "sites.md names $path, which is not installed"
done
block sites toml 1 >site/kolo.toml
typed site "$(block sites sh 5)" >out 2>err || fail "sites.md: $(cat out err)"
grep -q '^ *socket_ifname.*ib0' out || fail "kolo config diff shows no change: $(cat out err)"
said=$(typed site "kolo doctor --node" 2>&1) || [ $? = 1 ] || fail "kolo doctor --node: $said"
[ "$(echo "$said" | wc -l)" = 1 ] || fail "kolo doctor --node says more than a line: $said"

# For who asks for speed.
commands=$(block faster sh 1 | sed 's/-n 8/-n 2/; s/-e [0-9]*M/-e 64K/')
typed c "$commands" >out 2>err || fail "faster.md: $(cat out err)"
grep -q 'Out of bounds values : 0 OK' out || fail "faster.md: $(cat out err)"
typed c "$(block faster sh 2)" >out 2>err || fail "faster.md: $(cat out err)"
cat out err | grep -q 'kolo report' || fail "KOLO_REPORT=1 reports nothing: $(cat out err)"
explained=$(grep -oE '`kolo explain [^`]*`' "$guide/faster.md" | tr -d '`')
typed c "$explained" | grep -q '^why ' || fail "kolo explain does not say why"
echo "guide ($MPI): ok"
