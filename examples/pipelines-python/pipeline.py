"""Three folds and what they come to, as a pipeline in Python. `pipeline.yaml` is the same as a file.

python pipeline.py             on this machine
python pipeline.py cluster     on a target of yours
"""

from __future__ import annotations

import sys

import folds

import turnout

p = turnout.Pipeline("folds", target=sys.argv[1] if len(sys.argv) > 1 else None)
fit = p.step("fit", folds.fit, matrix={"fold": range(folds.FOLDS)}, args={"model": "{output}"}, outputs="{fold}.json")
p.step("report", folds.report, collect=fit, args={"models": "{inputs}", "page": "{output}"}, outputs="report.txt")

if __name__ == "__main__":
    p.dry_run()
    job = p.run()
    for run in job.runs("fit"):
        print(f"fold {run['params']['fold']}: loss {run['metrics']['loss']:.4f}")
    print(f"all: {job.runs('report')[0]['metrics']['mean_loss']:.4f}")
