#!/bin/bash
# The counts of all samples side by side, 0 where one has no such word: join.sh COUNTS...
set -euo pipefail
export LC_ALL=C
joined=$(mktemp)
trap 'rm -f "$joined" "$joined.more"' EXIT
cat "$1" > "$joined"
for counts in "${@:2}"; do
    join --header -t $'\t' -a 1 -a 2 -e 0 -o auto "$joined" "$counts" > "$joined.more"
    mv "$joined.more" "$joined"
done
cat "$joined"
