"""Metapipe's file language: `parse` a file, `plan` its runs. Pure; who calls brings the text and looks for files.

::

    [COMMANDS]
    # comments stay with the command below them
    cut -f 1 {1||2} > {o}
    python summary.py -o {o.csv} {1.*}

    [FILES]
    1. samples/a.tsv
    2. samples/b.tsv

Command N is the N-th line of ``[COMMANDS]`` that is no comment, and step "N" of the plan; its runs are N.1, N.2 …
A line that ends in ``\\`` goes on in the next one.

====================  ==========================================================================================
``{1,2}`` ``{1 2}``   both files in one run
``{1||2}``            a run for each; ``{1,2||3,4}`` are two runs with two files each
``{*.gz}``            all files that match, in one run; ``{*.gz||}`` a run for each. In the order of their names
``{3.2}``             what run 2 of command 3 leaves; ``{3.2-1}`` the first of its outputs
``{3.*}``             what all runs of command 3 leave, in the order of its runs; ``{3.*-1}``, ``{3.*||}`` likewise
``{o}`` ``{o.csv}``   an output: mp.3.2.output, mp.3.2.output.csv; mp.3.2-1.output, … where a command has several
``{o:*.counts}``      inserts ``*.counts``, and says that the command leaves files that match it
``{{`` ``}}``         a brace of the command itself; ``\\{``, ``\\}`` and ``${NAME}`` stay as they are, too
====================  ==========================================================================================

A pattern without ``||`` goes to each run; those with ``||`` are taken in step, and come to equally many. A name in
braces is an alias of ``[FILES]``, else a file of the project, else one that another command leaves. A pattern that is
written as another command's ``{o:…}`` stands for what that one leaves. Files of the shape mp.N.i.output belong to the
pipeline, so no pattern finds those of an earlier time.

Everything else of a command stays as it is written, but for words of ``[PATHS]``. Names of files are quoted where a
shell needs it, in the way that fits where they stand.
"""

from turnout.pipeline.metapipe.expanding import plan
from turnout.pipeline.metapipe.file import File
from turnout.pipeline.metapipe.late import LateStep, late_from
from turnout.pipeline.metapipe.reading import parse
from turnout.pipeline.metapipe.template import heading

__all__ = ["File", "LateStep", "heading", "late_from", "parse", "plan"]
