#!/usr/bin/env bash
# requeue_on_slurm.sh PROGRAM BATCH_SCRIPT SLURM: a job that Slurm warns saves its training, is queued
# again, and ends with the weights of one that was left alone. SLURM is slurm-testbed.sh, whose
# cluster with_slurm.sh has started.
set -euo pipefail
program=$1 script=$2 slurm=$3
work=$(mktemp -d /var/tmp/requeue_on_slurm.XXXXXX)
trap 'rm -rf "$work"' EXIT
cat >"$work/blobs.toml" <<'TOML'
steps = 4000
batch = 32
exact = true
[data]
train = "blobs:samples=1000,dims=16,classes=4"
[model]
name = "mlp"
hidden = [32]
[checkpoints]
every_steps = 100
TOML

patiently() { # SECONDS WHAT CMD…
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    [ $SECONDS -lt $end ] || {
      echo "not within its time: $what"
      cat "$work"/*.log
      "$slurm" exec scontrol show job "$job"
      "$slurm" logs
      exit 1
    }
    sleep 0.2
  done
}
job_says() { "$slurm" exec scontrol show job "$job" | grep -q "$1"; } # PATTERN
has_checkpoints() { compgen -G "$work/runs/warned/checkpoints/*/manifest.json" >/dev/null; }

alone=$("$program" train "$work/blobs.toml" --print-hash --runs "$work/runs" 2>/dev/null)
job=$("$slurm" exec sbatch --parsable --export="ALL,LOCKSTEP=$program,RANKS=2" --output="$work/job.log" \
  "$script" "$work/blobs.toml" warned --runs "$work/runs" --bind none)
patiently 60 "a first checkpoint" has_checkpoints
"$slurm" exec scancel --batch --signal=USR1 "$job"
patiently 60 "the job is queued again" job_says "Restarts=1"
patiently 60 "the job is queued again" job_says "JobState=PENDING"
grep -q "saved before its end" "$work/job.log" || { echo "it was not saved"; cat "$work/job.log"; exit 1; }
# slurmd counts in seconds: a start within that of the first one's end it takes for one that was ended, and refuses it.
sleep 2
# Slurm lets a job wait for two minutes before its second start.
has_ended() {
  ! job_says "JobState=PENDING" || "$slurm" exec scontrol update "JobId=$job" StartTime=now || true
  job_says "JobState=COMPLETED"
}
patiently 120 "the end" has_ended
requeued=$(grep -E '^[0-9a-f]{32}$' "$work/job.log" | tail -n 1)
echo "left alone $alone, queued again $requeued"
[ -n "$alone" ] && [ "$alone" = "$requeued" ]
