#!/bin/sh
# Epilog: removes what a job that was killed has left on this node, as the user of the job.
#
#   Epilog=PREFIX/share/kolo/slurm/epilog.sh          in slurm.conf; slurmd runs it as root
#   epilog.sh --dry-run UID                           by hand: only tells
#
# kolo's own memory has no name (memfd) and its sockets have no file: both end with their processes.
# So what can be left is
#
#   - processes of the job that were not ended with it, which hold such memory and ports
#   - in /tmp/kolo-UID: a note of what was measured that was being written
#   - in /dev/shm: segments of the MPI beside kolo, whose names an MPI removes only in good order
#
# A file goes only if no process of the user has it open or mapped, so other jobs of the same user
# on this node keep theirs. Everything is done with the rights of the job's user, never with those
# of root; a job of root is left alone. It always succeeds, for Slurm drains a node whose Epilog
# fails.
set -u

# Names in /dev/shm, as Open MPI, MPICH, UCX and PSM2 choose them.
# `kolo doctor` looks for the same ones.
SEGMENTS='kolo-* vader_segment.* sm_segment.* osc_sm.* osc_rdma* mpich_shar_tmp* mpich_shm*'
SEGMENTS="$SEGMENTS ucx_shm_* psm2_shm*"
# A site adds its own.
SEGMENTS="$SEGMENTS ${KOLO_EPILOG_SEGMENTS:-}"
# What marks this script's own processes, which have the variables of the job too.
MARK=KOLO_EPILOG_RUNS

part=all
case ${1:-} in --dry-run | --end | --remove) part=${1#--}; shift ;; esac
uid=${1:-${SLURM_JOB_UID:-}}
job=${SLURM_JOB_ID:-}

case $uid in
    '' | *[!0-9]*) echo "usage: ${0##*/} [--dry-run] UID, or as Slurm's Epilog" >&2; exit 0 ;;
    0) exit 0 ;;
esac

tell() { echo "kolo epilog: ${job:+job $job: }$*"; }

# Whether a process is the user's, by its real or its effective number.
is_users() {
    while read -r key real effective _; do
        [ "$key" = Uid: ] || continue
        [ "$real" = "$uid" ] || [ "$effective" = "$uid" ]
        return
    done 2>/dev/null <"$1/status"
    return 1
}

# Processes of the job that live on, by number. The script's own carry the mark.
processes() {
    [ -n "$job" ] || return 0
    for place in /proc/[0-9]*; do
        is_users "$place" || continue
        variables=$(tr '\0' '\n' 2>/dev/null <"$place/environ") || continue
        # A shell of salloc has the variables, and is a process of the job it was typed in.
        case $(cat "$place/cgroup" 2>/dev/null) in
            *"/job_$job/"* | *"/job_$job") ;;
            */job_*) continue ;;
        esac
        case "
$variables
" in
            *"
$MARK="*) ;;
            *"
SLURM_JOB_ID=$job
"*) echo "${place#/proc/}" ;;
        esac
    done
}

# Ends those whose numbers are read; fails if there was one, for they are not gone at once.
end_processes() {
    ended=0
    while read -r number; do
        read -r name 2>/dev/null <"/proc/$number/comm" || continue
        tell "process $number ($name) has outlived it${dry:+ and would be killed}"
        [ -n "$dry" ] || { kill -KILL "$number" 2>/dev/null && ended=1; }
    done
    return $ended
}

# What the user's processes have open or mapped, one path a line.
in_use() {
    for place in /proc/[0-9]*; do
        is_users "$place" || continue
        sed -n 's|^[^/]* \(/.*\)$|\1|p' "$place/maps" 2>/dev/null
        # As ls and sed are everywhere: a find that could not tell would say that nothing is open.
        ls -l "$place/fd" 2>/dev/null | sed -n 's/^l[^>]* -> //p'
    done | sort -u
}

# Files that may go, one a line: place on the disk and path. They are listed before anybody asks
# what is in use: what is made later is not among them, and whoever made these before is seen then.
candidates() {
    if cd /dev/shm 2>/dev/null; then
        for name in $SEGMENTS; do stat -c '%d:%i %n' -- "/dev/shm/$name" 2>/dev/null; done
    fi
    # A note under way ends with the number of the process that writes it.
    for file in "/tmp/kolo-$uid"/*.[0-9]*; do
        writer=${file##*.}
        case $writer in *[!0-9]*) continue ;; esac
        [ -d "/proc/$writer" ] || stat -c '%d:%i %n' -- "$file" 2>/dev/null
    done
}

drop() {
    [ "$(stat -c %d:%i -- "$2" 2>/dev/null)" = "$1" ] || return 0
    shift
    [ -f "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] || return 0
    if printf '%s\n' "$used" | grep -Fqx -- "$1"; then return 0; fi
    tell "$1 ${dry:+would be }removed"
    [ -n "$dry" ] || rm -f -- "$1"
}

# $asked: what candidates said, $used: what in_use said.
remove_files() {
    printf '%s\n' "$asked" | while read -r place path; do
        [ -z "$path" ] || drop "$place" "$path"
    done
}

# This script with the rights of the user: none of root's groups, and no way back.
as_user() {
    gid=$(id -g "$uid" 2>/dev/null) || {
        tell "user $uid is not known here: nothing was ended or removed"
        return 0
    }
    env "$MARK=1" PATH=/usr/sbin:/usr/bin:/sbin:/bin setpriv --reuid="$uid" --regid="$gid" \
        --clear-groups --no-new-privs -- /bin/sh -c "$(cat "$0")" "$0" "$1" "$uid"
}

dry=
if [ "$part" = dry-run ]; then dry=yes part=all; fi
if [ "$(id -u)" = 0 ] && [ -z "$dry" ]; then
    # Root looks, for it sees every process of the user; the user's rights end and remove. What was
    # mapped by a process that was killed counts as in use until it is gone.
    processes | as_user --end || sleep 0.2
    { candidates | sed 's/^/? /'; in_use | sed 's/^/= /'; } | as_user --remove
    exit 0
fi
[ "$(id -u)" = "$uid" ] || [ -n "$dry" ] || exit 0
case $part in
    end) end_processes; exit ;;
    remove)
        said=$(cat)
        asked=$(printf '%s\n' "$said" | sed -n 's/^? //p')
        used=$(printf '%s\n' "$said" | sed -n 's/^= //p')
        remove_files
        ;;
    all) processes | end_processes; asked=$(candidates); used=$(in_use); remove_files ;;
esac
exit 0
