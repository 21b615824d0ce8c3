#!/bin/sh
# For `HealthCheckProgram` in slurm.conf, which takes no arguments: see healthcheck.sh.
# slurmd gives no PATH, and the name may be that of a link.
PATH=${PATH:+$PATH:}/usr/bin:/bin
self=$(readlink -f -- "$0" 2>/dev/null) || self=$0
exec "${self%/*}/healthcheck.sh" --drain
