"""What ``turnout config init`` writes: everything that most projects want to say, ready to be uncommented."""

TEMPLATE = """\
# Settings of this project. All of it is optional: what is not said here comes from your own file
# (`turnout config path`) and from built-in defaults (`turnout config show --origin`).
# The environment (TURNOUT_GENERAL_TARGET=…) and the command line (--target …) win over this file.
# Check it with `turnout config check`. Every key is explained in docs/reference/config.md.

general:
  # workspace: default
  # experiment: default
  # target: local                  # a compute target or a box, see below
  # env-vars: {WANDB_API_KEY: secret:WANDB}   # then: turnout secret set WANDB
  # notify: bell                   # when a job is over

code:
  # code-dirs: [.]                 # what is frozen; `src::dest` puts a directory under another name
  # code-omit: ["*.ckpt"]          # beside .gitignore and .turnoutignore

after-files:
  # after-dirs: ["output/**"]      # what is kept of a run's files

# data: {share: mnist, action: mount}
# model: {share: checkpoints, path: best, action: download}

# setups:
#   torch: {pip-packages: [torch], activate: module load cuda}

# compute-targets:
#   two-at-once: {service: local, max-runs: 2}

# boxes:
#   workshop: {address: me@workshop.example.org, max-runs: 4}

# run-reports: {columns: [name, state, metrics.loss], sort: metrics.loss, last: 20}

# Command lines, a run each, of `turnout run` without a command:
# commands:
#   - python train.py --lr 0.1
#   - python train.py --lr 0.01
"""
