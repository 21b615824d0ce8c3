#!/usr/bin/env bash
# Builds the kernels for GPUs: one file that the driver loads, build/kernels/kolo_kernels.fatbin.
#
#   kernels/build.sh              fetch the compiler, compile, check; no GPU and no CUDA is needed
#   kernels/build.sh --self-test  break compiled kernels on purpose, and see the check notice it
#
# Variables: JOBS (how many compile at once; 2).
#
# Each protocol is compiled once, to PTX; the same PTX becomes machine code for each architecture,
# and goes into the file as it is for architectures that come later. The kernels that try a device
# (litmus.cu) become a second file in the same way, kolo_litmus.fatbin, which is not installed.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-2}
cuda=$PWD/build/cuda
out=$PWD/build/kernels
architectures=(80 90 100)
protocols=(Simple Ll Ll128)
# The oldest version of PTX that knows the oldest architecture: the driver of CUDA 11.0.
ptx_version=7.0
bin=$cuda/nvidia/cu13/bin
export PATH=$bin:$PATH

fail() { echo "make kernels: $*" >&2; exit 1; }

# Anew only where what is wanted has changed.
fetch() {
    ! cmp -s kernels/toolkit.txt "$cuda/fetched" || return 0
    command -v python3 >/dev/null || fail "there is no python3"
    python3 -m pip --version >/dev/null 2>&1 || fail "python3 has no pip (Debian: python3-pip)"
    rm -rf "$cuda"
    echo "fetching the compiler from PyPI: 110 MB, 280 MB unpacked in build/cuda"
    # Parts of one release: what pip would add to them is for running programs.
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --root-user-action ignore --target "$cuda" -r kernels/toolkit.txt ||
        fail "the compiler cannot be fetched: this needs PyPI, or a mirror that pip knows of"
    cp kernels/toolkit.txt "$cuda/fetched"
}

# compile PROTOCOL|litmus: no contraction, nothing flushed, divisions rounded as IEEE 754 asks.
compile() {
    local source=kernels/kernels.cu
    [ "$1" != litmus ] || source=kernels/litmus.cu
    nvcc -std=c++17 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true -Werror all-warnings \
        -arch="compute_${architectures[0]}" "-DKOLO_PROTOCOL=$1" -ptx "$source" -o "$out/$1.ptx"
}

# unite PART...: what they have, in one text. A driver refuses a version of PTX that it does not
# know, and nothing here is new but a hint to the compiler about bytes of loads that nobody uses.
unite() {
    printf '.version %s\n.target sm_%s\n.address_size 64\n' "$ptx_version" "${architectures[0]}"
    for one in "$@"; do
        sed -e '1,/^\.address_size/d' -e '/\.pragma "used_bytes_mask/d' "$out/$one.ptx"
    done
}

# assemble PTX FATBIN
assemble() {
    local images=("--image3=kind=ptx,sm=${architectures[0]},file=$1") cubin
    for one in "${architectures[@]}"; do
        cubin=${1%.ptx}.sm_$one.cubin
        # What does not fit the version above is refused here.
        ptxas -O3 --fmad false --warning-as-error --split-compile "$jobs" -arch "sm_$one" \
            "$1" -o "$cubin"
        images+=("--image3=kind=elf,sm=$one,file=$cubin")
    done
    # The older way to compress: drivers before 550 cannot read the newer one.
    fatbinary --64 --compress-all --compress-mode=speed --create="$2" "${images[@]}"
}

build() {
    rm -rf "$out"
    mkdir -p "$out"
    SECONDS=0
    printf '%s\n' "${protocols[@]}" litmus |
        xargs -P "$jobs" -I '{}' kernels/build.sh --compile '{}'
    unite litmus >"$out/kolo_litmus.ptx"
    assemble "$out/kolo_litmus.ptx" "$out/kolo_litmus.fatbin"
    unite "${protocols[@]}" >"$out/kolo.ptx"
    assemble "$out/kolo.ptx" "$out/unchecked.fatbin"
    kernels/check_sass.py "$out/unchecked.fatbin" --ptx-version "$ptx_version"
    mv "$out/unchecked.fatbin" "$out/kolo_kernels.fatbin"
    echo "$out/kolo_kernels.fatbin: $(stat -c %s "$out/kolo_kernels.fatbin") bytes, $SECONDS s"
}

case ${1:-} in
    '') fetch && build ;;
    --compile) compile "$2" ;;
    --self-test)
        [ -f "$out/kolo.ptx" ] || fail "nothing is built: run 'make kernels' first"
        fetch && kernels/check_sass.py --self-test "$out/kolo.ptx"
        ;;
    *) fail "usage: build.sh [--self-test]" ;;
esac
