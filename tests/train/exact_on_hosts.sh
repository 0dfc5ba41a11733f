#!/usr/bin/env bash
# exact_on_hosts.sh PROGRAM RECIPES [MODEL…]: five models trained in exact mode over four test hosts
# have the weights that one process gives. Small ones, for a few steps; models that are named are
# trained as their recipes say, for 50 steps. Runs beside hosts of with_hosts.sh.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$1 recipes=$2
shift 2
work=$(mktemp -d /var/tmp/exact_on_hosts.XXXXXX)
trap 'rm -rf "$work"' EXIT
for line in $(seq 1000); do printf 'line %d of %d parts\n\n' $((line * 7919 % 10007)) $((line % 13)); done >"$work/text.txt"

settings() { # RECIPE
  case $1 in
    mlp) echo "data.train=images:samples=500,size=28,channels=1 data.test= batch=50 model.hidden=[64] steps=20 schedule.warmup_epochs=0.1" ;;
    mnist_cnn) echo "data.train=images:samples=500,size=28,channels=1 data.test= batch=16 steps=8" ;;
    resnet18) echo "data.train=images:samples=100,size=32,channels=3 data.test= batch=16 steps=2" ;;
    lstm) echo "data.train=$work/text.txt data.pack_window=33 batch=20 model.hidden=64 steps=15" ;;
    gpt) echo "data.train=$work/text.txt data.pack_window=33 batch=20 model.width=48 model.layers=2 steps=15" ;;
  esac
}

different=0
models=("$@")
[ $# -gt 0 ] || models=(mlp mnist_cnn resnet18 lstm gpt)
for recipe in "${models[@]}"; do
  read -r -a words <<<"$([ $# = 0 ] && settings "$recipe" || echo "steps=50 data.test=")"
  run=(train "$recipes/$recipe.toml" "${words[@]}" exact=true --print-hash --runs "$work/runs")
  one=$("$program" "${run[@]}" -n 1)
  four=$("$here/../hosts/launch_on_hosts.sh" "$program" "${run[@]}" --bind none --hosts ls1:2,ls2:1,ls3:2,ls4:1)
  echo "$recipe: one rank $one, six ranks on four hosts $four"
  [ -n "$one" ] && [ "$one" = "$four" ] || different=1
done
exit $different
