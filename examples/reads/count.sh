#!/bin/bash
# How often each word of K letters is in the reads: count.sh K READS.gz. The first line names the columns.
set -euo pipefail
export LC_ALL=C
gzip -dc "$2" | awk -v k="$1" 'NR == 1 { split(substr($1, 2), part, "."); print k "-mer\t" part[1] }'
gzip -dc "$2" | awk -f kmers.awk -v k="$1" | sort | uniq -c | awk '{ print $2 "\t" $1 }'
