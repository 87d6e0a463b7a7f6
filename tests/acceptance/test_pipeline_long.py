"""Commands that are longer than one argument may be, for the files they read are many."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.acceptance.test_pipelines import run, runs_of, states, written
from tests.harness import Cli

FILES = 6000
NAME = "a-name-of-some-length-so-that-all-of-them-are-far-beyond-what-fits"
MANY = """
make: {command: 'for i in {{1..%d}}; do : > out/%s-$i.txt; done', outputs: 'out/*.txt'}
count:
  collect: make
  command: "printf '%%s\\n' {inputs} | wc -l > {output}; printf '%%s\\n' {inputs} | xargs ls | cat {output} - | wc"
  outputs: n.txt
call: {function: 'many:count', args: {files: '{inputs}'}, collect: make}
"""
LONG = "x" * 200_000
XARGS = "printf '%s\\n' {inputs} | xargs PROGRAM"


def test_six_thousand_files_in_one_command(user: Cli, project: Path) -> None:
    (project / "many.py").write_text("def count(files): return {'files': len(files)}")
    view = run(user, written(project, MANY % (FILES, NAME)))
    assert view["state"] == "completed", states(view)
    assert user("logs", "count").stdout.split()[:2] == [str(FILES + 1)] * 2
    assert [each["metrics"] for each in runs_of(user, view, "call")] == [{"files": FILES}]


def test_how_a_long_one_ends(user: Cli, project: Path) -> None:
    """As a short one does; it is tried again, and a search appends its parameters."""
    search = {"space": {"x": [1, 2]}, "sampler": "grid", "minimize": "loss"}
    steps = {
        "fail": {"command": f": {LONG}\nfalse | true\necho not here", "retry": 1},
        "find": {"command": f": {LONG}\necho $0", "search": search},
    }
    view = run(user, written(project, yaml.safe_dump(steps)), code=1)
    assert states(view) == {"fail": {"failed": 1}, "find": {"completed": 2}}
    (failed,) = runs_of(user, view, "fail")
    assert (failed["reason"], failed["exit_code"], failed["attempts"]) == ("exit_code", 1, 2)
    assert user("logs", "fail").stdout == ""
    logged = {user("logs", each["name"]).stdout for each in runs_of(user, view, "find") if each["parent"]}
    assert logged == {"bash --x=1\n", "bash --x=2\n"}


def test_what_nobody_would_read_from_a_file_is_told(user: Cli, project: Path) -> None:
    """Before anything begins; of what is only known later, then."""
    steps = {"word": {"command": ["echo", LONG]}}
    done = user("pipeline", written(project, yaml.safe_dump(steps)), check=False)
    said = ["argument", "has 200,000 bytes, and Linux hands over up to 131,071 in one", XARGS]
    assert done.returncode == 2 and all(each in done.stderr for each in said), done.stderr
    late = {
        "make": {"command": "touch a-file-of-20-bytes.t", "outputs": "*.t"},
        "word": {"command": ["echo", "{input}" * 10_000], "needs": "make", "each": "*.t"},
    }
    view = run(user, written(project, yaml.safe_dump(late)), code=1)
    assert states(view)["word"] == {"failed": 1}
    why = user("why", "word").stdout
    assert all(each in why for each in said), why
