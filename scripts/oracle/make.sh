#!/usr/bin/env bash
# Makes the fixtures that real PyTorch writes anew, in a directory of their own:
#   scripts/oracle/make.sh PYTHON OUT
# PYTHON has the packages of requirements.txt (`make oracle` installs them), and bin/
# has launch. OUT gets the layout of testdata/, and in torch-files/ and raw-ddp-w2/
# what ckpt/torchfile/testdata holds. Compare with
#   bin/launch harness bisect-resume OUT/regression-w2 testdata/regression-w2
# OUT/eval-*-w2 and OUT/plateau-w2 have more checkpoints than testdata/, which leaves some out.
set -euo pipefail
python=$(realpath -s "$(command -v "$1")")
here=$(cd "$(dirname "$0")" && pwd)
launch=$here/../../bin/launch
mkdir -p "$2"
cd "$2"

"$python" "$here/make_data.py"
for case in regression-w2 digits-mlp-w2 digits-epoch-w2 digits-w1; do
  "$launch" --nproc "${case##*-w}" run -- "$python" "$here/hf_run.py" "$case" "$case"
done
# Runs that evaluate; testdata/ leaves some of their checkpoints out.
for case in eval-steps-w2 eval-epoch-w2 plateau-w2; do
  "$launch" --nproc 2 run -- "$python" "$here/../trainer_run.py" "$here/$case.json"
done

# The bug, as transformers ≤5.17 shows it; later ones resume, and write no log.
if ! "$launch" --nproc 2 run -- "$python" "$here/hf_run.py" regression-w2 bug regression-w2/checkpoint-2 >bug.log 2>&1; then
  sed "s|$here/||g; s|$(dirname "$(dirname "$("$python" -c 'import torch; print(torch.__file__)')")")/||g" bug.log | grep '^\[rank0\]' >bug-rank0.log
fi
rm -rf bug bug.log

"$launch" --nproc 2 run -- "$python" "$here/raw_ddp.py" raw-ddp-w2 raw-ddp-w2
"$python" "$here/torch_files.py" torch-files 7
echo "made in $PWD"
