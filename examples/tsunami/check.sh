#!/bin/sh
# The field must have the same bits on any number of ranks and with either library.
#
#   ./check.sh PROGRAM [COMM...]      COMM is kolo or mpi; both when none is named
#
# Waves must really cross the edges between blocks, else a wrong halo would go unseen. So there are
# three cases: the uplift off Tohoku, one at the Greenwich meridian, where the grid closes on
# itself, and a high one at 180 E on the equator, where the corners of blocks meet.
#
# MPIRUN (mpirun --oversubscribe) and RANKS (1 2 3 4 7 8) may be set in the environment.
# Exit status: 0 when all checksums agree, mass and energy agree bit for bit on kolo, and energy
# to rounding with plain MPI; 1 when they do not.
set -eu
program=${1:?usage: ./check.sh PROGRAM [kolo] [mpi]}
shift
[ $# -gt 0 ] || set -- mpi kolo
MPIRUN=${MPIRUN:-mpirun --oversubscribe}
RANKS=${RANKS:-1 2 3 4 7 8}
# Open MPI asks for these where root runs it, and where ranks outnumber cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
cases=$(mktemp -d)
trap 'rm -rf "$cases"' EXIT
echo '&tsunami hours = 5 /' > "$cases/tohoku"
echo '&tsunami hours = 4, resolution = 1, source_lon = 359.8, source_lat = -1 /' > "$cases/seam"
echo '&tsunami hours = 4, resolution = 1, source_lon = 180, source_lat = 0.3, up = 20 /' \
  > "$cases/corner"
printf 'IEND' > "$cases/tail"
failed=0 runs=0

# one_case NAME: all libraries and rank numbers against the first run.
one_case() {
  name=$1
  wanted='' energy_wanted='' bits_wanted=''
  for comm in $comms; do
    for n in $RANKS; do
      label="$name, $comm on $n ranks"
      runs=$((runs + 1))
      if ! text=$($MPIRUN -n "$n" "$program" --comm "$comm" --quiet --no-netcdf \
                  --no-picture --namelist "$cases/$name"); then
        echo "FAIL  $label: did not finish"
        failed=1
        continue
      fi
      sum=$(echo "$text" | awk '$1 == "checksum" { print $2 }')
      energy=$(echo "$text" | awk '$1 == "energy" { print $2 }')
      bits=$(echo "$text" | awk '$1 == "bits" { print $3, $5 }')
      : "${wanted:=$sum}" "${energy_wanted:=$energy}"
      if [ "$comm" = kolo ]; then : "${bits_wanted:=$bits}"; fi
      if [ -z "$sum" ] || [ "$sum" != "$wanted" ]; then
        echo "FAIL  $label: checksum '$sum', but the first run had '$wanted'"
        failed=1
      elif ! awk -v a="$energy" -v b="$energy_wanted" \
                 'BEGIN { d = (a - b) / b; exit !(d < 1e-12 && d > -1e-12) }'; then
        echo "FAIL  $label: energy $energy, but the first run had $energy_wanted"
        failed=1
      elif [ "$comm" = kolo ] && { [ -z "$bits" ] || [ "$bits" != "$bits_wanted" ]; }; then
        echo "FAIL  $label: mass and energy $bits, but the first run on kolo had $bits_wanted"
        failed=1
      else
        echo "ok    $label: checksum $sum, energy $energy J, bits of mass and energy $bits"
      fi
    done
  done
}

comms=$*
one_case tohoku
one_case seam
one_case corner

# A run with everything it prints and writes.
if ! $MPIRUN -n 3 "$program" --comm "$1" --resolution 2 --hours 1 --out "$cases/out" \
     > "$cases/text" || ! grep -q '^checksum' "$cases/text"; then
  echo "FAIL  a run with output did not finish"
  failed=1
elif ! tail -c 8 "$cases/out/tsunami.png" | head -c 4 | cmp -s - "$cases/tail" \
     || [ ! -s "$cases/out/tsunami.nc" ]; then
  echo "FAIL  the picture or the NetCDF file is not whole"
  failed=1
else
  echo "ok    picture and NetCDF file"
fi
[ "$failed" = 0 ] && echo "$runs runs: the same field in each case, whatever the number of ranks"
exit "$failed"
