#!/usr/bin/env bash
# Under an srun that MPI cannot speak to, a program says so in one line and ends with 2.
#   without_pmix.sh TESTBED PROGRAM
set -euo pipefail
testbed=$1 program=$2
for manager in none pmi2; do
  status=0
  words=$("$testbed" exec srun --mpi=$manager -N 2 -n 4 "$program" loop 2>&1) || status=$?
  echo "srun --mpi=$manager ended with $status: $words"
  [ "$status" = 2 ] || { echo "expected exit code 2"; exit 1; }
  [ "$(grep -c -- '--mpi=pmix' <<< "$words")" = 1 ] || { echo "expected one line naming --mpi=pmix"; exit 1; }
done
