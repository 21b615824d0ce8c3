#!/bin/sh
# Says in one line whether kolo can work on this node: exit status 0 if so, 1 if not, and 3 if that
# is not known, because the command is not there, cannot run, or does not end.
#
#   HealthCheckProgram=PREFIX/share/kolo/slurm/healthcheck-drain.sh        in slurm.conf
#   * || check_cmd_status -t 8 -r 0 PREFIX/.../healthcheck.sh --nhc        in NHC's nhc.conf
#   healthcheck.sh --drain                               drains the node, and resumes it
#
# NHC takes any exit status but 0 for a fault, and drains the node: --nhc ends with 0 where it would
# end with 3. NHC's time (-t) is longer than this script's own, so that the line is always told.
#
# Slurm does nothing about the exit status of its HealthCheckProgram, so it is given the wrapper
# healthcheck-drain.sh, which calls this one with --drain: a node that is not well is drained
# with the line as its reason, and resumed if this script has drained it and it is well again. Only
# faults that last are faults, as jobs fill and empty a node all the time. What somebody else has
# drained stays so, and so does a node of which nothing is known: a file server that is slow for a
# moment must not drain a cluster.
#
# slurmd gives its HealthCheckProgram no PATH and no SLURM_CONF (22.05: SLURMD_NODENAME, and nothing
# else), and Slurm may lie anywhere. So scontrol is the one that belongs to the slurmd above this
# process, and speaks to the cluster of that one. What cannot be done is a second line and an exit
# status other than 0, for only then slurmd keeps in its log what a health check has printed.
#
# KOLO names the command; otherwise it is that of the installation that this script lies in, or else
# the one in PATH. SCONTROL and SLURM_CONF, of a wrapper of the site, name Slurm's.
set -u
# As a variable alone, a shell's own PATH would not reach the commands.
PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

LIMIT=5         # seconds; the command itself takes less than one
SLURM_LIMIT=10  # seconds of each question to Slurm: slurmd ends a check after 60
MOST_ABOVE=16   # processes between slurmd and this one
REASON=kolo:

drain= nhc=
case ${1:-} in
    '') ;;
    --drain) drain=yes ;;
    --nhc) nhc=yes ;;
    *) echo "usage: ${0##*/} [--drain | --nhc]" >&2; exit 2 ;;
esac

# A link to the script leads to its installation.
self=$(readlink -f -- "$0" 2>/dev/null) || self=$0
case $self in */*) here=${self%/*} ;; *) here=. ;; esac
kolo=${KOLO:-}
if [ -z "$kolo" ]; then
    for kolo in "$here/../../../bin/kolo" "$here/../bin/kolo" kolo; do
        if command -v "$kolo" >/dev/null 2>&1; then break; fi
    done
fi

# within SECONDS COMMAND...: its output is $said, its exit status $ended; 124 if it did not end.
# What cannot even be killed, as its file server is away, is left behind: nobody waits for it, and
# it holds nothing that slurmd reads.
within() {
    limit=$1
    shift
    said=$(
        { (timeout -k 1 "$limit" "$@" 2>&1 </dev/null; printf '\n%s' "$?") 2>/dev/null & } |
            timeout -k 1 $((limit + 2)) cat
    )
    ended=$(printf '%s\n' "$said" | sed -n '$p')
    case $ended in '' | *[!0-9]*) ended=124 ;; 137) ended=124 ;; esac
    said=$(printf '%s\n' "$said" | sed '$d')
}

first_line() { printf '%s\n' "$said" | sed -n '/./{p;q;}' | cut -c 1-200; }

# The first line counts: Slurm keeps one as the reason.
if ! command -v "$kolo" >/dev/null 2>&1; then
    line="there is no kolo on this node ($kolo): install it, or name it by KOLO=/path/to/kolo"
    status=3
else
    within "$LIMIT" "$kolo" doctor --node
    status=$ended
    line=$(first_line)
    case $status in
        0) line=${line:-"kolo can work here"} ;;
        # A fault that has no name is none: a wrapper may have failed.
        1) [ -n "$line" ] || { line="kolo doctor --node failed and said nothing" status=3; } ;;
        124) line="kolo doctor --node did not end within $LIMIT s" status=3 ;;
        *)
            line="kolo doctor --node cannot run (status $status): ${line:-it says nothing}"
            status=3
            ;;
    esac
fi
line=${line#kolo: }
echo "$REASON $line"

# The slurmd above this process, which is its child or a child of its children. Under sudo other
# users' processes may follow, who call theirs as they like: those are none.
slurmd_above() {
    process=$PPID above=0 me=$(id -u)
    while [ "${process:-0}" -gt 0 ] && [ "$above" -lt "$MOST_ABOVE" ]; do
        owners=$(sed -n 's/^Uid:[^0-9]*\([0-9]*\)[^0-9]*\([0-9]*\).*/\1 \2/p' \
            "/proc/$process/status" 2>/dev/null)
        [ "$owners" = "$me $me" ] || return 1
        program=$(readlink "/proc/$process/exe") || return 1
        program=${program% (deleted)}
        case ${program##*/} in slurmd | slurmd-*) return 0 ;; esac
        process=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$process/status") above=$((above + 1))
    done
    return 1
}

# One line for each word of the slurmd, or for each of its variables.
words_of() { tr '\0' '\n' 2>/dev/null <"/proc/$process/$1"; }

# The file after -f, which may stand behind other letters and before the name: -Df FILE, -fFILE.
named_by_slurmd() {
    words_of cmdline | sed -n '/^-[bBcCDGMsvZ]*f$/{n;p;q;}
        s/^-[bBcCDGMsvZ]*f\(.*\)$/\1/p' | sed 1q
}

# Which settings scontrol must read, if not those it finds by itself. Where slurmd has fetched them
# from slurmctld it leaves them in /run/slurm/conf, or in its own folder.
settings_of_slurmd() {
    named=$(named_by_slurmd)
    case $named in
        '') named=$(words_of environ | sed -n 's/^SLURM_CONF=//p') ;;
        /*) ;;
        *) named=/proc/$process/cwd/$named ;;
    esac
    if [ -z "$named" ] && words_of cmdline | grep -q '^--conf-server'; then
        for named in /run/slurm/conf /var/spool/slurmd/conf-cache /var/spool/slurm/d/conf-cache; do
            named=$named/slurm.conf
            [ ! -f "$named" ] || break
        done
    fi
    [ ! -f "$named" ] || printf '%s\n' "$named"
}

# Sets scontrol, and SLURM_CONF where it is known. $missing says where nothing was.
find_slurm() {
    scontrol=${SCONTROL:-}
    if slurmd_above; then
        folder=${program%/*}
        for one in "$folder/scontrol" "${folder%/*}/bin/scontrol"; do
            [ -n "$scontrol" ] || [ ! -x "$one" ] || scontrol=$one
        done
        theirs=$(words_of environ | sed -n 's/^PATH=//p')
        [ -n "$scontrol$theirs" ] && scontrol=${scontrol:-$(PATH=$theirs; command -v scontrol)}
        if [ -z "${SLURM_CONF:-}" ]; then SLURM_CONF=$(settings_of_slurmd); fi
    else
        program=
    fi
    [ -n "${SLURM_CONF:-}" ] && export SLURM_CONF || unset SLURM_CONF
    [ -n "$scontrol" ] || scontrol=$(command -v scontrol) || {
        missing="there is no scontrol beside ${program:-slurmd}, in its bin, or in PATH ($PATH)"
        missing="$missing: name it by SCONTROL=/path/to/scontrol in a wrapper of this check"
        return 1
    }
}

# ask WORDS...: what scontrol says, in $said. $missing says why there is no answer.
ask() {
    within "$SLURM_LIMIT" "$scontrol" "$@"
    missing="$scontrol $1 $2, of ${SLURM_CONF:-the usual slurm.conf},"
    case $ended in
        0) return 0 ;;
        124) missing="$missing did not end within $SLURM_LIMIT s" ;;
        *) missing="$missing failed (status $ended): $(first_line)" ;;
    esac
    return 1
}

# Drains or resumes the node, if that is due. Fails where Slurm cannot be asked.
drain_or_resume() {
    find_slurm || return 1
    # slurmd names the node as slurm.conf does, which need not be the name of the host.
    node=${SLURMD_NODENAME:-$(uname -n | sed 's/[.].*//')}
    ask show node "$node" --oneliner || return 1
    now=$said
    # The fields alone: comments and features are free text.
    state=$(printf '%s\n' "$now" | sed -n 's/.* State=\([^ ]*\).*/\1/p')
    case $state in
        *DOWN* | *FAIL* | *NOT_RESPONDING*) held=others ;;
        *DRAIN*)
            case $now in *" Reason=$REASON"*) held=ours ;; *) held=others ;; esac
            ;;
        *) held= ;;
    esac
    if [ "$status" -eq 1 ] && [ -z "$held" ]; then
        ask update NodeName="$node" State=DRAIN Reason="$REASON $line"
    elif [ "$status" -eq 0 ] && [ "$held" = ours ]; then
        ask update NodeName="$node" State=RESUME
    fi
}

if [ -n "$drain" ] && ! drain_or_resume; then
    echo "$REASON this check can neither drain nor resume the node: $missing"
    [ "$status" -ne 0 ] || status=3
fi
if [ -n "$nhc" ] && [ "$status" -eq 3 ]; then status=0; fi
exit "$status"
