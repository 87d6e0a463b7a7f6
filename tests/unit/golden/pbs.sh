#!/bin/sh
#PBS -N to-0123456789ab
#PBS -S /bin/sh
#PBS -j oe
#PBS -r n
#PBS -q workq
#PBS -A lab
#PBS -l select=1:ncpus=4:mem=8192mb
#PBS -l walltime=05:59:00
#PBS -m n
umask 077
cd '/shared/my jobs' || exit 1
task=${PBS_ARRAY_INDEX:-$PBS_ARRAYID} pid= warned=
token=$(sed -n "${task:-1}p" batches/to-0123456789ab)
ended=ended/${PBS_JOBID%%[.[-]*}${task:+[$task]}
end() { echo "$token $1 $2" > "$ended.new" && mv "$ended.new" "$ended"; exit "$1"; }
warn() { warned=warned; [ -n "$pid" ] || end 143 warned; kill -TERM "$pid" 2>/dev/null; }
tidy() {
    [ "$(cat "$node/job")" = "$me" ] || return
    chmod -R u+w "$node"
    find "$node" -mindepth 1 -maxdepth 1 ! -name agent.log -exec rm -rf {} +
}
trap warn TERM USR1 USR2 XCPU
rm -f "$ended"
[ -e "orders/$token.sh" ] || end 1 "its order is gone"
. "./orders/$token.sh"
mkdir -p "$node" && exec >> "$node/agent.log" 2>&1 || end 1 "cannot write into $node"
me="$$ on $(uname -n)"
echo "$me" > "$node/job"
module load python/3.12
python=; for each in "$@"; do "$each" -c "import sys; sys.exit(sys.version_info < (3, 9))" 2>/dev/null && python="$each" && break; done
[ -n "$python" ] || end 127 "no Python 3.9 or newer there, tried: $*"
(trap '' USR1 USR2 XCPU; PYTHONPATH="$PWD/$program" exec "$python" -m turnout.agent < "orders/$token.json") & pid=$!
while wait "$pid"; code=$?; kill -0 "$pid" 2>/dev/null; do :; done
wait "$pid" 2>/dev/null; late=$?
[ "$late" -eq 127 ] || code=$late
sleep 1
[ -n "$warned" ] || { rm -f "orders/$token.json" "orders/$token.sh"; [ "$code" -ne 0 ] || tidy; }
end "$code" "$warned"
