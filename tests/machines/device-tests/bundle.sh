#!/usr/bin/env bash
# Puts the program that tests kolo on a real GPU into a folder and a tar file, with all that it
# loads: the machine it goes to may have no network, no compiler and no package of ours.
#
#   tests/machines/device-tests/bundle.sh PROGRAM FOLDER [KERNELS]
#
# PROGRAM is what cargo has built, KERNELS the folder of `make kernels`; without kernels there the
# bundle is made all the same, and its program says that they are missing.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: bundle.sh PROGRAM FOLDER [KERNELS]" >&2; exit 2; }
program=$1 folder=$2 kernels=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
most=$((64 << 20))

fail() { echo "make gpu-bundle: $*" >&2; exit 1; }

# What every Linux with glibc has; `make test` holds the bundle against the same list.
is_of_the_system() {
    case ${1##*/} in
        linux-vdso.so.1 | ld-linux-*.so.* | libc.so.6 | libm.so.6 | libgcc_s.so.1) ;;
        libdl.so.2 | libpthread.so.0 | librt.so.1) ;;
        *) return 1 ;;
    esac
}

rm -rf "$folder" "$folder.tar"
mkdir -p "$folder/lib"
install "$program" "$folder/kolo-device-tests"
strip "$folder/kolo-device-tests"
# A line is `name => path (address)`, and names libraries of libraries, too.
while read -r name path; do
    is_of_the_system "$name" || install -m 644 "$path" "$folder/lib/$name"
done < <(ldd "$program" | awk '$2 == "=>" { print $1, $3 }')
for file in kolo_kernels.fatbin kolo_litmus.fatbin; do
    if [ -n "$kernels" ] && [ -f "$kernels/$file" ]; then
        install -m 644 "$kernels/$file" "$folder/$file"
    else
        echo "There is no $file ('make kernels' builds it): nothing will run on a real GPU."
    fi
done
install "$here/run.sh" "$folder/run.sh"
tar --create --file "$folder.tar" --directory "$(dirname "$folder")" "$(basename "$folder")"
bytes=$(stat -c %s "$folder.tar")
[ "$bytes" -le $most ] || fail "$folder.tar has $bytes bytes, more than $most"
echo "$folder.tar: $bytes bytes"
