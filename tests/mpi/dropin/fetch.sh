#!/bin/sh
# Gets programs of others from PyPI, those of config/judges.txt: they judge libkolo_pmpi.so.
#
#   tests/mpi/dropin/fetch.sh OUT openmpi mpich
#
# OUT gets python (a venv), tests (mpi4py's), openmpi and mpich (mpi4py, compiled for each),
# IMB-MPI1, which is for MPICH and all that have its binary interface, and impi: of Intel MPI what
# programs need on one node.
set -eu
list=$(cd "$(dirname "$0")/../../.." && pwd)/config/judges.txt
rm -rf "$1"
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

python3 -m venv "$out/python"
pip() {
    "$out/python/bin/pip" --quiet --disable-pip-version-check "$@"
}
pip install --only-binary :all: -c "$list" setuptools cython numpy

# Of the 120 MB of that wheel a third is kept.
pip download --no-deps -c "$list" -d "$scratch" impi-rt
(cd "$scratch" && "$out/python/bin/python" -m zipfile -e impi_rt-*.whl wheel)
mkdir -p "$out/impi/bin" "$out/impi/lib"
(
    cd "$scratch"/wheel/*.data/data
    install -m 755 bin/IMB-MPI1 "$out/IMB-MPI1"
    install -m 755 bin/mpiexec.hydra bin/hydra_bstrap_proxy bin/hydra_pmi_proxy "$out/impi/bin"
    install -m 755 lib/libmpi.so.12 lib/libmpifort.so.12 lib/libmpi_abi.so.1 "$out/impi/lib"
)

pip download --no-deps --no-build-isolation --no-binary mpi4py -c "$list" -d "$scratch" mpi4py
tar -xzf "$scratch"/mpi4py-*.tar.gz -C "$scratch"
for mpi in "$@"; do
    # It runs for seconds: compiling it well would take longer.
    (cd "$scratch"/mpi4py-*/ && MPICC=mpicc.$mpi CFLAGS="-O0 -g0" \
        "$out/python/bin/python" setup.py --quiet build --build-temp "$scratch/$mpi" \
        --build-lib "$out/$mpi") >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
done
mv "$scratch"/mpi4py-*/test "$out/tests"
touch "$out/done"
