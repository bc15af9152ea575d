#!/usr/bin/env bash
# Trains SSD300 on your own records: ./train_ssd.sh --dataset_dir=DIR [any flag of `python -m ssd.train`].
# A flag given here wins over the ones below. Environment: PYTHON (default: this project's .venv, else python3).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ -z "${PYTHON:-}" ]]; then
  PYTHON=python3
  if [[ -x "$here/.venv/bin/python" ]]; then PYTHON="$here/.venv/bin/python"; fi
fi
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"

exec "$PYTHON" -m ssd.train \
  --train_dir=./logs/ \
  --dataset_split_name=train \
  --model_name=ssd_300_vgg \
  --save_summaries_secs=60 \
  --save_interval_secs=600 \
  --weight_decay=0.0005 \
  --optimizer=adam \
  --learning_rate=0.001 \
  --batch_size=8 \
  "$@"
