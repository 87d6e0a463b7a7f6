"""Pipelines as users write them: steps with commands, fanned out by values and files, joined by the names they share.

::

    read(content, where)      names and values, as YAML has them -> Pipeline
    Builder().step(...)       the same in Python
    plan(pipeline, glob)      -> Plan: every run, or for a late step what makes its runs later
    late_from(plain)          a late step that was written down
"""

from turnout.pipeline.native.builder import Builder
from turnout.pipeline.native.late import LateStep, late_from
from turnout.pipeline.native.model import Pipeline, Step
from turnout.pipeline.native.planning import plan
from turnout.pipeline.native.reading import read

__all__ = ["Builder", "LateStep", "Pipeline", "Step", "late_from", "plan", "read"]
