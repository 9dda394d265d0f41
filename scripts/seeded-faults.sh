#!/usr/bin/env bash
# Puts each fault of harness/testdata/faults into a copy of the tree, builds it and
# runs the scenario that must see it: the scenario has to fail, and to say what is
# wrong. Without faults all of those scenarios have to pass.
#   scripts/seeded-faults.sh [FAULT...]
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  if [ -f "$file" ]; then printf '%s\0' "$file"; fi
done | tar --null -T - -cf - | tar -xf - -C "$copy"

faults=("$@")
if [ ${#faults[@]} -eq 0 ]; then
  for file in harness/testdata/faults/*.patch; do
    name=${file##*/}
    faults+=("${name%.patch}")
  done
fi
field() { sed -n "s/^$2: //p" "$copy/harness/testdata/faults/$1.patch"; }
build() { (cd "$copy" && CGO_ENABLED=0 "$go" build -o bin/ ./cmd/launch ./cmd/worker); }
run() { (cd "$copy" && REJOIN_PYTHON=/nonexistent bin/launch harness "$@" 2>&1); }
# seeded runs a scenario with a fault in, and takes the fault out again. A hunk must
# fit its place exactly: code that only looks like it may be another fault's.
seeded() {
  local file=$copy/harness/testdata/faults/$1.patch
  if ! (cd "$copy" && git apply --check "$file" 2>&1); then
    echo "the patch does not apply: the code has changed; make it anew"
    return
  fi
  (cd "$copy" && git apply "$file")
  if build 2>&1; then
    run --only "$2" || true
  else
    echo "the tree does not build with the patch: make it anew"
  fi
  (cd "$copy" && git apply -R "$file")
}

only=()
for scenario in $(for f in "${faults[@]}"; do field "$f" scenario; done | sort -u); do
  only+=(--only "$scenario")
done
build
if ! healthy=$(run "${only[@]}"); then
  printf 'scenarios fail without any fault:\n%s\n' "$healthy"
  exit 1
fi

missed=0
for fault in "${faults[@]}"; do
  scenario=$(field "$fault" scenario)
  says=$(field "$fault" says)
  output=$(seeded "$fault" "$scenario" || true)
  told=$(printf '%s\n' "$output" | grep -m1 -E -- "$says" || true)
  if printf '%s\n' "$output" | grep -q "^failed  *$scenario " && [ -n "$told" ]; then
    printf 'seen    %-28s by %-18s %s\n' "$fault" "$scenario" "$(printf '%s' "$told" | sed 's/^ *//' | cut -c1-160)"
  else
    printf 'MISSED  %-28s by %s, which was to say "%s":\n%s\n' "$fault" "$scenario" "$says" "$output"
    missed=$((missed + 1))
  fi
done
printf '%d faults, %d missed\n' "${#faults[@]}" "$missed"
[ "$missed" -eq 0 ]
