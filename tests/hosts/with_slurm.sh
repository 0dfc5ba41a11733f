#!/usr/bin/env bash
# Runs a command beside a small Slurm cluster of its own and ends it, however it ends.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: with_slurm.sh [-n N] [-t MINUTES] [-c CPUS] [-g GPUS] -- CMD...

Starts a Slurm cluster of N nodes (default 2), runs CMD with LOCKSTEP_SLURM_DIR
set, so that slurm-testbed.sh in this folder reaches it (slurm-testbed.sh exec
srun ...), and stops it. Exit code: CMD's, or 77 where this machine cannot.
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/cleanup.sh"
PATH=$PATH:/usr/sbin:/sbin

options=(-n 2 -t 30)
while [ $# -gt 0 ]; do
  case $1 in
    -n | -t | -c | -g) options+=("$1" "$2"); shift 2 ;;
    --) shift; break ;;
    *) usage >&2; exit 2 ;;
  esac
done
[ $# -gt 0 ] || { usage >&2; exit 2; }

skip_without_namespaces
skip_without slurmctld slurmd srun munged
compgen -G '/usr/lib*/*/slurm*/mpi_pmix*.so' >/dev/null || skip "Slurm here has no PMIx plug-in"
LOCKSTEP_SLURM_DIR=$(mktemp -d /var/tmp/lockstep-slurm.XXXXXX)
export LOCKSTEP_SLURM_DIR
clean_up_with "$here/slurm-testbed.sh" stop
"$here/slurm-testbed.sh" start "${options[@]}" >/dev/null
run_command "$@"
