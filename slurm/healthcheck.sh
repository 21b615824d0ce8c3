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
# KOLO names the command; otherwise it is that of the installation that this script lies in, or else
# the one in PATH.
set -u

LIMIT=5         # seconds; the command itself takes less than one
REASON=kolo:

drain= nhc=
case ${1:-} in
    '') ;;
    --drain) drain=yes ;;
    --nhc) nhc=yes ;;
    *) echo "usage: ${0##*/} [--drain | --nhc]" >&2; exit 2 ;;
esac

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
kolo=${KOLO:-}
if [ -z "$kolo" ]; then
    for kolo in "$here/../../../bin/kolo" "$here/../bin/kolo" kolo; do
        if command -v "$kolo" >/dev/null 2>&1; then break; fi
    done
fi

# The first line counts: Slurm keeps one as the reason.
if ! command -v "$kolo" >/dev/null 2>&1; then
    line="there is no kolo on this node ($kolo): install it, or name it by KOLO=/path/to/kolo"
    status=3
else
    said=$(timeout -k 1 "$LIMIT" "$kolo" doctor --node 2>&1 </dev/null)
    status=$?
    line=$(printf '%s\n' "$said" | sed -n '/./{p;q;}' | cut -c 1-200)
    case $status in
        0) line=${line:-"kolo can work here"} ;;
        # A fault that has no name is none: a wrapper may have failed.
        1) [ -n "$line" ] || { line="kolo doctor --node failed and said nothing" status=3; } ;;
        124 | 137) line="kolo doctor --node did not end within $LIMIT s" status=3 ;;
        *)
            line="kolo doctor --node cannot run (status $status): ${line:-it says nothing}"
            status=3
            ;;
    esac
fi
line=${line#kolo: }
echo "$REASON $line"

if [ -n "$drain" ]; then
    # slurmd names the node as slurm.conf does, which need not be the name of the host.
    node=${SLURMD_NODENAME:-$(hostname -s)}
    now=$(scontrol show node "$node" --oneliner 2>/dev/null)
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
        scontrol update NodeName="$node" State=DRAIN Reason="$REASON $line"
    elif [ "$status" -eq 0 ] && [ "$held" = ours ]; then
        scontrol update NodeName="$node" State=RESUME
    fi
fi
if [ -n "$nhc" ] && [ "$status" -eq 3 ]; then status=0; fi
exit "$status"
