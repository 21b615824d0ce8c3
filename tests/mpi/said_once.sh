#!/bin/sh
# What concerns a whole job is said once: a wrong setting, the facts of kolo info, the summary of a
# communicator. What differs between processes is named.
. "$(dirname "$0")/common"
# How often a word was printed; mpirun may put what two ranks print into one line.
words() { grep -o "$1" "$work/out" | wc -l; }
cc -Wall -Wextra -Werror "$top/tests/mpi/alone.c" -I "$include" -I "$(folder_of kolo_mpi.h "")" \
    $(compile_flags "mpicc.$MPI") $link $(link_flags "mpicc.$MPI") -o "$work/alone"
KOLO_BUFFSIZE=nonsense $MPIRUN -n 3 "$work/alone" >"$work/out" 2>"$work/err" ||
    fail "$(cat "$work/out" "$work/err")"
[ "$(words 'refused')" = 3 ] || fail "$(cat "$work/out" "$work/err")"
[ "$(grep -c 'ERROR kolo .* rank 0: .*KOLO_BUFFSIZE.*nonsense' "$work/err")" = 1 ] &&
    [ "$(grep -c nonsense "$work/err")" = 1 ] || fail "not once: $(cat "$work/err")"

# At info rank 0 speaks; every line says who; no colours in a pipe.
KOLO_DEBUG=info $MPIRUN -n 3 "$work/alone" >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
host=$(hostname | cut -d. -f1)
for words in ": 3 ranks on 1 node" "transports: memory of each node" "network: none" \
    "waiting: " "channels: " "AllReduce: " "settings: debug = info (variable KOLO_DEBUG)"; do
    [ "$(grep -c "INFO kolo $host rank 0: .*$words" "$work/err")" = 1 ] ||
        fail "not once '$words': $(cat "$work/err")"
done
if grep ' kolo ' "$work/err" | grep -v " kolo $host rank 0: "; then fail "others speak too"; fi
if grep -q "$(printf '\033')" "$work/err"; then fail "colours: $(cat "$work/err")"; fi
# At trace everybody does, and calls are lines.
KOLO_DEBUG=trace $MPIRUN -n 3 "$work/alone" >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
for rank in 0 1 2; do
    grep -q "DEBUG kolo $host rank $rank: init 8 of 8" "$work/err" || fail "rank $rank is silent"
done

# kolo info: the facts once, and what one process sees otherwise.
cat >"$work/few" <<END
#!/bin/sh
case \${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} in 2) ulimit -n 700 ;; esac
exec "$KOLO" info "\$@"
END
chmod +x "$work/few"
$MPIRUN -n 3 "$work/few" >"$work/out" 2>"$work/err" || fail "$(cat "$work/out" "$work/err")"
for words in "^instruction set " "^ways .*not verbs: " "^locked memory " \
    "^job  *3 processes: 3 on $host" "^differs  *open files on $host (rank 2): 700; on rank 0: "; do
    [ "$(grep -c "$words" "$work/out")" = 1 ] || fail "not once '$words': $(cat "$work/out")"
done
$MPIRUN -n 3 "$work/few" --json >"$work/out" || fail "$(cat "$work/out")"
python3 - "$work/out" <<'END' || fail "$(cat "$work/out")"
import json, sys
info = json.load(open(sys.argv[1]))
assert info["job"]["processes"] == 3, info["job"]
(one,) = info["job"]["differences"]
assert (one["fact"], one["value"], list(one["hosts"].values())) == ("open_files", 700, [[2]]), one
END
echo "$test_name ($MPI): ok"
