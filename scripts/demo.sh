#!/usr/bin/env bash
# Trains two workers on shipped data, goes back to step 2, rejoins the run there
# and compares what comes out with the uninterrupted run.
#   scripts/demo.sh [OUTPUT-DIR]     (default: out; only one that it made is removed)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-out}
export PATH="$PWD/bin:$PATH"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

if [ -e "$out" ] && [ ! -e "$out/.demo" ]; then
  echo "$out is there and is not the demo's; run it elsewhere with: make demo OUT=DIR" >&2
  exit 1
fi
rm -rf "$out"
mkdir -p "$out"
touch "$out/.demo"

say "1. Two workers train six steps, and save every second one."
run launch --nproc 2 train --data testdata/regression.jsonl --model testdata/regression.yaml \
  --config testdata/regression-train.yaml --output-dir "$out"

say "2. The run is set back to step 2: its later checkpoints are put aside."
mkdir "$out/uninterrupted"
run mv "$out/checkpoint-4" "$out/checkpoint-6" "$out/uninterrupted/"

say "3. Two new workers rejoin it there. The checkpoint says everything else."
run launch --nproc 2 resume "$out/checkpoint-2"

say "4. What they wrote, against the uninterrupted run."
same=0
for file in "$out"/uninterrupted/checkpoint-*/*; do
  twin="$out/${file#"$out"/uninterrupted/}"
  if cmp -s "$file" "$twin"; then
    same=$((same + 1))
  else
    echo "DIFFERS: $twin"; exit 1
  fi
done
echo "$same files of checkpoint-4 and checkpoint-6 are equal bit for bit."
