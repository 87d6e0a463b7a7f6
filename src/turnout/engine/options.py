"""What was asked for on the command line, under the names it has there, for systems that want to know."""

from __future__ import annotations

from turnout.model.spec import JobSpec


def options_of(spec: JobSpec) -> dict[str, object]:
    """The options of ``turnout run`` that made this job; what was not asked for is None."""
    need = spec.resources
    return {
        "target": spec.target, "workspace": spec.workspace, "experiment": spec.experiment, "name": spec.label,
        "tags": dict(spec.tags), "cpus": need.cpus, "memory": need.memory, "gpus": need.gpus, "time": need.seconds,
        "grace": spec.grace, "retry": spec.retry.failures, "priority": spec.priority, "runs": spec.total,
        "repeat": spec.repeat, "nodes": spec.nodes, "schedule": str(spec.schedule), "concurrent": spec.concurrent,
        "parent_script": spec.parent_script_path, "held": spec.held, "keep_node": spec.keep_node,
        "direct_run": spec.direct, "setup": spec.setup.name if spec.setup is not None else None,
        "docker": spec.container.image if spec.container is not None else None,
        "working_dir": spec.working_dir, "after": list(spec.after), "command": list(spec.display),
    }  # fmt: skip
