#!/usr/bin/env bash
# Under a process manager that Lockstep's MPI cannot speak to, each rank would be rank 0 of 1:
# a program says so in one line and ends with 2.
#   foreign_manager.sh PROGRAM
set -euo pipefail
for claim in "PMI_SIZE=4 PMI_RANK=1" "SLURM_STEP_NUM_TASKS=4 LOCKSTEP_BACKEND=hier"; do
  status=0
  words=$(env $claim "$1" loop 2>&1) || status=$?
  echo "$claim ended with $status: $words"
  [ "$status" = 2 ] || { echo "expected exit code 2"; exit 1; }
  [ "$(wc -l <<< "$words")" = 1 ] || { echo "expected one line"; exit 1; }
  grep -q "${claim%% *} but MPI knows of one rank only.*lockstep launch" <<< "$words" || { echo "expected the remedy"; exit 1; }
done
