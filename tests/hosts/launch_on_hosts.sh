#!/usr/bin/env bash
# Runs a command that starts mpirun itself on the head of the test hosts.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "$here/netns-hosts.sh" exec head env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=rsh "TMPDIR=$LOCKSTEP_HOSTS_DIR" "OMPI_MCA_plm_rsh_agent=bash $here/netns-hosts.sh agent" "$@"
