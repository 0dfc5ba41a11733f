#!/usr/bin/env bash
# Runs a command beside test hosts of its own and ends them, however it ends.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: with_hosts.sh [-n N] [-t MINUTES] -- CMD...

Starts N test hosts (default 2), runs CMD with LOCKSTEP_HOSTS_DIR set, so that
netns-hosts.sh in this folder reaches them (netns-hosts.sh exec ls1 ...), and
stops them. Exit code: CMD's, or 77 where this machine cannot make hosts.
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/cleanup.sh"
PATH=$PATH:/usr/sbin:/sbin

n=2 minutes=30
while [ $# -gt 0 ]; do
  case $1 in
    -n) n=$2; shift 2 ;;
    -t) minutes=$2; shift 2 ;;
    --) shift; break ;;
    *) usage >&2; exit 2 ;;
  esac
done
[ $# -gt 0 ] || { usage >&2; exit 2; }

skip_without_namespaces
LOCKSTEP_HOSTS_DIR=$(mktemp -d /var/tmp/lockstep-hosts.XXXXXX)
export LOCKSTEP_HOSTS_DIR
clean_up_with "$here/netns-hosts.sh" stop
"$here/netns-hosts.sh" start -n "$n" -t "$minutes" >/dev/null
run_command "$@"
