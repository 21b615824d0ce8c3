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
#   - in /tmp/kolo-UID and /run/user/UID/kolo: a note of what was measured that was being written
#   - in /dev/shm: segments of the MPI beside kolo, whose names an MPI removes only in good order
#
# Every user of the node can put links, folders and names into /tmp and /dev/shm, so nothing there
# is believed. A folder is entered with the rights of the job's user, and then looked at: it must be
# the one that was meant, and that user's alone. Names are taken from there, relative to it. Only a
# regular file of the user goes, with one name, which is one of those below, and which no process
# has open or mapped, so that other jobs of the same user on this node keep theirs. A job of root is
# left alone. The script always succeeds, for Slurm drains a node whose Epilog fails.
#
# slurmd gives its Epilog no PATH. It waits for it without a limit, and the node stays "completing"
# meanwhile, so the limit is here. Of what an Epilog prints slurmd keeps nothing, so that goes to
# the node's own log, as kolo-epilog.
set -u
# As a variable alone, a shell's own PATH would not reach the commands.
PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
LIMIT=60        # seconds, for everything

# Names in /dev/shm, as Open MPI, MPICH, UCX and PSM2 choose them.
# `kolo doctor` looks for the same ones.
SEGMENTS='vader_segment.* sm_segment.* osc_sm.* osc_rdma* mpich_shar_tmp* mpich_shm*'
SEGMENTS="$SEGMENTS ucx_shm_* psm2_shm*"
# A site adds its own.
SEGMENTS="$SEGMENTS ${KOLO_EPILOG_SEGMENTS:-}"
# What kolo keeps (src/config/kept.rs). A note under way ends with the number of its writer.
NOTES='machine'
# What marks this script's own processes, which have the variables of the job too.
MARK=KOLO_EPILOG_RUNS
# The exit status that says that a process was ended, which is not gone at once.
ENDED=10

part=all
case ${1:-} in --dry-run | --inside | --end | --list | --remove) part=${1#--}; shift ;; esac
uid=${1:-${SLURM_JOB_UID:-}}
job=${SLURM_JOB_ID:-}

case $uid in
    '' | *[!0-9]*) echo "usage: ${0##*/} [--dry-run] UID, or as Slurm's Epilog" >&2; exit 0 ;;
    0*) exit 0 ;;
esac
unset CDPATH

# Users choose names: what a terminal would obey is left out.
tell() { printf 'kolo epilog: %s\n' "${job:+job $job: }$*" | tr -cd '[:print:]\n'; }

# Whether a process is the user's, by its real or its effective number.
is_users() {
    while read -r key real effective _; do
        [ "$key" = Uid: ] || continue
        [ "$real" = "$uid" ] || [ "$effective" = "$uid" ]
        return
    done 2>/dev/null <"$1/status"
    return 1
}

# Whether a process is the user's and of the job. The script's own carry the mark.
is_of_job() {
    is_users "$1" || return 1
    variables=$(tr '\0' '\n' 2>/dev/null <"$1/environ") || return 1
    # A shell of salloc has the variables, and is a process of the job it was typed in.
    case $(cat "$1/cgroup" 2>/dev/null) in
        *"/job_$job/"* | *"/job_$job") ;;
        */job_*) return 1 ;;
    esac
    case "
$variables
" in
        *"
$MARK="*) return 1 ;;
        *"
SLURM_JOB_ID=$job
"*) return 0 ;;
    esac
    return 1
}

# When a process began: its number may be another's by now.
began() {
    stat=$(cat "$1/stat" 2>/dev/null) || return 1
    # The name before it may have any letters.
    set -f
    # shellcheck disable=SC2086
    set -- ${stat##*)}
    set +f
    echo "${20:-}"
}

# Processes of the job that live on: number and beginning.
processes() {
    [ -n "$job" ] || return 0
    for place in /proc/[0-9]*; do
        is_of_job "$place" && when=$(began "$place") && echo "${place#/proc/} $when"
    done
}

# Ends those that are read.
end_processes() {
    ended=0
    while read -r number when; do
        is_users "/proc/$number" && [ "$(began "/proc/$number")" = "$when" ] || continue
        read -r name 2>/dev/null <"/proc/$number/comm" || continue
        tell "process $number ($name) has outlived it${dry:+ and would be killed}"
        [ -n "$dry" ] || { kill -KILL "$number" 2>/dev/null && ended=$ENDED; }
    done
    return $ended
}

# What processes have open or mapped, one name a line, without the folders: a process in a container
# may see the same file elsewhere. Nothing is looked up, as a file server may not answer.
in_use() {
    # As ls and sed are everywhere: a find that could not tell would say that nothing is open.
    {
        ls -l /proc/[0-9]*/fd 2>/dev/null | sed -n 's/^l[^>]* -> //p'
        cat /proc/[0-9]*/maps 2>/dev/null | sed -n 's|^[^/]* \(/.*\)$|\1|p'
    } | sed -n 's|.*/||; /./p' | sort -u
}

# Whether names in the current folder can be taken away by nobody but the user, root, and whoever
# made them: root's or the user's, and sticky where others may write.
is_guarded() {
    seen=$(stat -c '%u %a' . 2>/dev/null) || return 1
    case ${seen%% *} in 0 | "$uid") ;; *) return 1 ;; esac
    case $seen in
        *' '[1357]???) return 0 ;;
        *[2367]? | *[2367]) return 1 ;;
    esac
}

# Enters a folder of a folder, if it is the user's alone and no link. Where one has come to is
# looked at, and not the way: it cannot be exchanged meanwhile.
enter() {
    cd -P -- "$1" 2>/dev/null && above=$(pwd -P) && is_guarded || return 1
    if cd -P -- "./$2" 2>/dev/null; then
        seen=$(stat -c '%u %a' . 2>/dev/null)
        if [ "$(pwd -P)" = "${above%/}/$2" ]; then
            case $seen in "$uid "*00) return 0 ;; esac
        fi
    elif [ ! -e "./$2" ] && [ ! -L "./$2" ]; then
        # The job has not used it, as is usual.
        return 1
    fi
    tell "$1/$2 is a link, or not the user's alone: nothing there was looked at" >&2
    return 1
}

# The same for /dev/shm, where everybody writes.
enter_shm() {
    cd -P /dev/shm 2>/dev/null && [ "$(pwd -P)" = /dev/shm ] && is_guarded
}

# enter_by NUMBER: the folders, by the numbers that the lists have.
enter_by() {
    case $1 in
        1) folder=/dev/shm; enter_shm ;;
        2) folder=/tmp/kolo-$uid; enter /tmp "kolo-$uid" ;;
        3) folder=/run/user/$uid/kolo; enter "/run/user/$uid" kolo ;;
        *) return 1 ;;
    esac
}

# The place on the disk of a file in the current folder that may go: a regular one of the user, with
# no other name, and no link.
may_go() {
    [ -f "./$1" ] && [ ! -L "./$1" ] || return 1
    seen=$(stat -c '%u %h %d:%i' -- "./$1" 2>/dev/null) || return 1
    case $seen in "$uid 1 "*) echo "${seen##* }" ;; *) return 1 ;; esac
}

# Whether a name can stand in a list.
is_plain() { case $1 in *[!A-Za-z0-9._@:+=,-]* | '') return 1 ;; esac; }

# Files that may go, one a line: number of the folder, place on the disk, name. They are listed
# before anybody asks what is in use: what is made later is not among them, and whoever made these
# before is seen then.
candidates() {
    if enter_by 1; then
        for name in $SEGMENTS; do
            is_plain "$name" && place=$(may_go "$name") && echo "1 $place $name"
        done
    fi
    for number in 2 3; do
        enter_by $number || continue
        for note in $NOTES; do
            for name in "$note".[1-9]*; do
                writer=${name#"$note".}
                case $writer in *[!0-9]*) continue ;; esac
                [ -d "/proc/$writer" ] || ! place=$(may_go "$name") || echo "$number $place $name"
            done
        done
    done
}

# $asked: what candidates said, $used: what in_use said.
remove_files() {
    printf '%s\n' "$asked" | while read -r number place name; do
        is_plain "$name" && enter_by "$number" 2>/dev/null || continue
        [ "$(may_go "$name")" = "$place" ] || continue
        if printf '%s\n' "$used" | grep -Fqx -- "$name"; then continue; fi
        tell "$folder/$name ${dry:+would be }removed"
        [ -n "$dry" ] || rm -f -- "./$name"
    done
}

# This script with the rights of the user, and none of root's groups. What nodes have for that
# differs.
as_user() {
    name=$(id -un "$uid" 2>/dev/null) && gid=$(id -g "$uid" 2>/dev/null) || {
        tell "user $uid is not known here: nothing was ended or removed"
        return 1
    }
    text=$(cat "$0")
    set -- env -i "$MARK=1" PATH=/usr/sbin:/usr/bin:/sbin:/bin SLURM_JOB_ID="$job" \
        KOLO_EPILOG_SEGMENTS="${KOLO_EPILOG_SEGMENTS:-}" \
        /bin/sh -c "$text" "$0" "$1" "$uid" "$dry"
    if command -v setpriv >/dev/null; then
        setpriv --reuid="$uid" --regid="$gid" --clear-groups --no-new-privs -- "$@"
    elif command -v runuser >/dev/null; then
        runuser -u "$name" -- "$@"
    elif command -v su >/dev/null; then
        su -s /bin/sh -c 'exec "$@"' -- "$name" sh "$@"
    else
        tell "there is no setpriv, runuser or su here: nothing was ended or removed"
        return 1
    fi
}

# Passes on what is said, to the log of the node too if slurmd is who reads it. A log that does not
# take it is not asked again.
told() {
    log=${SLURM_SCRIPT_CONTEXT:-}
    while IFS= read -r said; do
        printf '%s\n' "$said"
        [ -z "$log" ] || timeout -k 1 2 logger -t kolo-epilog -- "$said" 2>/dev/null || log=
    done
}

# Does everything in a process for which nobody waits longer than the limit. A folder of the user
# may be a file system of his whose server does not answer, and then not even SIGKILL ends who looks
# there; so what is said passes through a process that can be ended.
guarded() {
    {
        (
            timeout -k 1 "$LIMIT" /bin/sh "$0" --inside "$uid" "$dry" 2>&1 </dev/null
            case $? in 124 | 137) tell "it did not end within $LIMIT s, and was left there" ;; esac
        ) 2>/dev/null &
    } | timeout -k 1 $((LIMIT + 2)) cat | told
}

dry=${2:-}
if [ "$part" = dry-run ]; then dry=yes part=all; fi
if [ "$part" = all ]; then guarded; exit 0; fi
if [ "$(id -u)" = 0 ]; then
    # Root sees every process of every user; the user's rights look, end and remove.
    ended=0
    processes | as_user --end || ended=$?
    # What was mapped by a process that was killed counts as in use until it is gone.
    case $ended in 0) ;; "$ENDED") sleep 0.2 ;; *) exit 0 ;; esac
    asked=$(as_user --list)
    { printf '%s\n' "$asked" | sed -n 's/^./? &/p'; in_use | sed 's/^/= /'; } |
        as_user --remove
    exit 0
fi
[ "$(id -u)" = "$uid" ] || [ -n "$dry" ] || exit 0
cd /
case $part in
    end) end_processes; exit ;;
    list) candidates ;;
    remove)
        said=$(cat)
        asked=$(printf '%s\n' "$said" | sed -n 's/^? //p')
        used=$(printf '%s\n' "$said" | sed -n 's/^= //p')
        remove_files
        ;;
    inside) processes | end_processes; asked=$(candidates); used=$(in_use); remove_files ;;
esac
exit 0
