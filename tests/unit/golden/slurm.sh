#!/bin/sh
#SBATCH --no-requeue
#SBATCH --job-name=turnout-0123456789abcdef
#SBATCH --open-mode=append
#SBATCH --partition=long
#SBATCH --account=lab
#SBATCH --qos=high
#SBATCH --constraint=avx
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=8192M
#SBATCH --time=05:59:00
#SBATCH --signal=B:TERM@120
#SBATCH -m n
umask 077
cd '/shared/my jobs' || exit 1
task=$SLURM_ARRAY_TASK_ID pid= warned=
token=$(sed -n "${task:-1}p" batches/turnout-0123456789abcdef)
ended=ended/${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${task:+_$task}
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
