#!/bin/sh
# Epilog: removes what a job that was killed has left on this node, as the user of the job.
#
#   Epilog=/opt/kolo/share/kolo/slurm/epilog.sh       in slurm.conf; slurmd runs it as root
#   epilog.sh --dry-run UID                           by hand: only tells
#
# kolo's own memory has no name (memfd) and its sockets have no file: both end with their processes.
# So what can be left is
#
#   - processes of the job that were not ended with it, which hold such memory and ports
#   - in /tmp/kolo-UID: a note of what was measured that was being written
#   - in /dev/shm: segments of the MPI beside kolo, whose names an MPI removes only in good order
#
# A file goes only if no process of the user has it open or mapped, so other jobs of the same user on
# this node keep theirs. Everything is done with the rights of the job's user, never with those of
# root; a job of root is left alone. It always succeeds, for Slurm drains a node whose Epilog fails.
set -u

# Names in /dev/shm, as Open MPI, MPICH, UCX and PSM2 choose them; a site adds its own.
SEGMENTS=${KOLO_EPILOG_SEGMENTS:-'kolo-* vader_segment.* sm_segment.* osc_rdma* mpich_shar_tmp* MPICH* ucx_shm_* psm2_shm*'}
# What marks this script's own processes, which have the variables of the job too.
MARK=KOLO_EPILOG_RUNS

dry=
if [ "${1:-}" = --dry-run ]; then dry=yes; shift; fi
uid=${1:-${SLURM_JOB_UID:-}}
job=${SLURM_JOB_ID:-}

case $uid in
    '' | *[!0-9]*) echo "usage: ${0##*/} [--dry-run] UID, or as Slurm's Epilog" >&2; exit 0 ;;
    0) exit 0 ;;
esac

# As root: once more as the user, with none of root's groups and no way back.
if [ "$(id -u)" = 0 ]; then
    gid=$(id -g "$uid" 2>/dev/null) || gid=$uid
    env "$MARK=1" PATH=/usr/sbin:/usr/bin:/sbin:/bin setpriv --reuid="$uid" --regid="$gid" \
        --clear-groups --no-new-privs -- "$0" ${dry:+--dry-run} "$uid" || true
    exit 0
fi
[ "$(id -u)" = "$uid" ] || exit 0

tell() { echo "kolo epilog: ${job:+job $job: }$*"; }

# Processes of the job that live on. The script's own carry the mark.
killed=
if [ -n "$job" ]; then
    for place in /proc/[0-9]*; do
        variables=$(tr '\0' '\n' 2>/dev/null <"$place/environ") || continue
        case "
$variables
" in
            *"
$MARK="*) continue ;;
            *"
SLURM_JOB_ID=$job
"*) ;;
            *) continue ;;
        esac
        read -r name 2>/dev/null <"$place/comm" || continue
        tell "process ${place#/proc/} ($name) has outlived it${dry:+ and would be killed}"
        if [ -z "$dry" ]; then kill -KILL "${place#/proc/}" 2>/dev/null; killed=yes; fi
    done
fi
# What they have mapped counts as in use until they are gone.
[ -z "$killed" ] || sleep 0.2

# What the user's processes have open or mapped, one path a line.
in_use() {
    for place in /proc/[0-9]*; do
        [ -r "$place/maps" ] || continue
        sed -n 's|^[^/]* \(/.*\)$|\1|p' "$place/maps" 2>/dev/null
        for file in "$place"/fd/*; do readlink "$file" 2>/dev/null; done
    done | sort -u
}
used=$(in_use)

drop() {
    [ -f "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] || return 0
    if printf '%s\n' "$used" | grep -Fqx -- "$1"; then return 0; fi
    tell "$1 ${dry:+would be }removed"
    [ -n "$dry" ] || rm -f -- "$1"
}

cd /dev/shm 2>/dev/null && for name in $SEGMENTS; do drop "/dev/shm/$name"; done

# A note under way ends with the number of the process that writes it.
for file in "/tmp/kolo-$uid"/*.[0-9]*; do
    writer=${file##*.}
    case $writer in *[!0-9]*) continue ;; esac
    [ -d "/proc/$writer" ] || drop "$file"
done
exit 0
