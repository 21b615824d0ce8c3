#!/bin/sh
# For `HealthCheckProgram` in slurm.conf, which takes no arguments: see healthcheck.sh.
exec "$(dirname -- "$0")/healthcheck.sh" --drain
