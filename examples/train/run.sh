#!/bin/sh
# A run script: prepare what the run needs, then start it with this run's arguments.
set -eu
echo "training on $(uname -n)"
python -u train.py $RUN_ARGS$
