# Shared by with_hosts.sh and with_slurm.sh (sourced).

skip() { echo "skipped: $*"; exit 77; }
skip_without() {
  local program
  for program in "$@"; do command -v "$program" >/dev/null || skip "$program is not here (scripts/setup --test)"; done
}

skip_without_namespaces() {
  [ "$(id -u)" = 0 ] || skip "test hosts need root"
  skip_without ip unshare nsenter setsid
  # shellcheck disable=SC2016
  unshare --pid --fork --kill-child --mount-proc --net --uts --ipc --mount sh -c \
    'ip link add br0 type bridge && ip link add port0 type veth peer name port1 && mount -t tmpfs tmpfs /dev/shm' 2>/dev/null ||
    skip "this kernel or container forbids network and mount namespaces"
}

# Calls the command when this script ends. A script killed outright (a test's
# timeout) runs no trap, so a process apart from ours watches for that.
clean_up_with() {
  cleanup=("$@")
  trap '"${cleanup[@]}" >/dev/null 2>&1' EXIT
  (setsid bash -c 'script=$1; shift; while kill -0 "$script" 2>/dev/null; do sleep 1; done; exec "$@"' \
    - $$ "$@" </dev/null >/dev/null 2>&1 &)
}

# In the background, so that a signal to this script is heard at once and passed on.
run_command() {
  local status=0
  "$@" &
  trap 'kill -TERM $! 2>/dev/null; wait $!; exit 143' INT TERM HUP
  wait $! || status=$?
  exit "$status"
}
