#!/bin/bash
# A page with tables, in Markdown: report.sh STATS... -- JOINED...
set -euo pipefail
export LC_ALL=C

table() {
    awk -F '\t' '
        { row = "|"; for (at = 1; at <= NF; at++) row = row " " $at " |"; print row }
        NR == 1 { gsub(/[^|]+/, "---", row); print row }'
}

stats=()
while [ "$1" != -- ]; do stats+=("$1"); shift; done
shift

echo "# Reads"
echo
# Pasted, every second column is names again.
paste "${stats[@]}" | cut -f "1,$(seq -s , 2 2 $((2 * ${#stats[@]})))" | table
for joined in "$@"; do
    echo
    echo "## The most frequent of $(($(wc -l < "$joined") - 1)) words"
    echo
    {
        sed -n 1p "$joined"
        sed 1d "$joined" |
            awk -F '\t' '{ sum = 0; for (at = 2; at <= NF; at++) sum += $at; print sum "\t" $0 }' |
            sort -k 1,1nr -k 2,2 | sed -n 1,5p | cut -f 2-
    } | table
done
