"""What others write is never a path, an object or a command for the terminal: it is text, or it is refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.harness import Cli, wait_until
from tests.security.doors import LivingHub, a_spec
from turnout import config
from turnout.errors import InvalidInput
from turnout.wire import pack

pytestmark = pytest.mark.xdist_group("security names")

MARKER = "marker that must not be read"
TRAVERSALS = [
    "../../marker.txt", "..%2fmarker.txt", "%2e%2e%2fmarker.txt", "%252e%252e%252fmarker.txt", "..;/marker.txt",
    "....//marker.txt", "\\..\\marker.txt", "/etc/passwd", "file:///etc/passwd", "~/marker.txt", "~root", ".", "..",
    "", " ", "run1\n", "run1\0", "run1/../run1", "run1.", "run01.0x1", "RUN1", "run1 ", "-rf", "ｒｕｎ１",
    "run" + "9" * 300,
]  # fmt: skip
BAD_DIGESTS = [
    "A" * 64,
    "a" * 63,
    "a" * 65,
    "a" * 63 + "g",
    "a" * 63 + "\n",
    "a" * 64 + "\n",
    "../" * 21 + "a",
    "",
    "０" * 64,
]


def put(hub: LivingHub, content: bytes) -> str:
    """Keeps a blob on the hub, as the user's own tools do."""
    digest = hashlib.sha256(content).hexdigest()
    assert hub.api("POST", "/api/blobs", pack.entry(digest, content)).status == 200
    return digest


@pytest.fixture(scope="module")
def marker(hub: LivingHub) -> Path:
    """A file outside of every directory that a request is about."""
    path = hub.cli.home.parent / "marker.txt"
    path.write_text(MARKER)
    return path


@pytest.fixture(scope="module", autouse=True)
def _a_run(hub: LivingHub, marker: Path) -> None:
    hub.cli("run", "--wait", "true")


class TestNamesAreNotPaths:
    """A6: a run's or job's name, and a blob's id, that try to be something else."""

    @pytest.mark.parametrize("name", TRAVERSALS, ids=ascii)
    def test_as_a_run_or_job(self, hub: LivingHub, name: str) -> None:
        for kind, parts in (
            ("runs", ("", "/output", "/events", "/metrics", "/files", "/why", "/wait?seconds=0")),
            ("jobs", ("", "/wait")),
        ):
            for part in parts:
                for written in (quote(name, safe=""), quote(quote(name, safe=""), safe="")):
                    if not written and not part:
                        continue
                    answer = hub.api("GET", f"/api/{kind}/{written}{part}")
                    assert answer.status in (404, 405, 422, 307), f"{answer.status} for {written}{part}"
                    assert MARKER.encode() not in answer.body and b"root:" not in answer.body

    @pytest.mark.parametrize(
        "name", ["../../marker.txt", "..%2fmarker.txt", "/etc/passwd", "..", "", "run1\n", "run1/../run1"], ids=ascii
    )
    def test_on_the_command_line(self, hub: LivingHub, name: str) -> None:
        done = hub.cli("show", "--", name, check=False)
        assert (done.returncode, done.stdout) == (3 if name else 2, "")
        assert done.stderr.startswith("turnout: no run " if name else "turnout: an empty name")

    @pytest.mark.parametrize("digest", BAD_DIGESTS, ids=ascii)
    def test_as_a_blob(self, hub: LivingHub, digest: str) -> None:
        assert hub.api("PUT", f"/api/blobs/{quote(digest, safe='')}", b"x").status in (307, 404, 405, 422)
        for route in ("missing", "get"):
            assert hub.api("POST", f"/api/blobs/{route}", [digest]).status == 422
        assert hub.api("POST", "/api/jobs", a_spec(before=digest), key="k" * 8).status == 422

    def test_content_that_is_not_what_its_name_says(self, hub: LivingHub) -> None:
        digest = hashlib.sha256(b"one thing").hexdigest()
        assert hub.api("PUT", f"/api/blobs/{digest}", b"another").status == 422
        assert hub.api("POST", "/api/blobs", pack.header(digest, 7) + b"another").status == 422
        assert hub.api("POST", "/api/blobs", b"no pack at all, but long enough to be the header of one").status == 422
        assert hub.api("POST", "/api/blobs/missing", [digest]).json() == [digest]

    @pytest.mark.parametrize(
        "name",
        ["a/b", "../a", "a..b", "a\nb", "a\0b", "", " ", "-x", ".x", "run7", "job7", "x" * 129, "a\ud800b"],
        ids=ascii,
    )
    @pytest.mark.parametrize("field", ["label", "experiment", "workspace", "target"])
    def test_as_a_name_given_at_submit(self, hub: LivingHub, name: str, field: str) -> None:
        before = hub.state()
        answer = hub.api(
            "POST", "/api/jobs", a_spec(**{field: name}), key=hashlib.md5(ascii(name).encode()).hexdigest()
        )
        assert answer.status in (404, 422), answer.body
        assert hub.state() == before


class TestFilesStayInside:
    """A5: manifests, scripts and artifacts that name files elsewhere."""

    @pytest.mark.parametrize(
        "path",
        ["../marker.txt", "../../../../marker.txt", "/tmp/marker.txt", "a/../../marker.txt", "a//b", "./a", "a\0b", ""],
        ids=ascii,
    )
    def test_a_snapshot_that_names_them_writes_nothing(self, hub: LivingHub, marker: Path, path: str) -> None:
        content = put(hub, b"overwritten")
        manifest = put(hub, json.dumps([[path, 0o644, 11, content]]).encode())
        answer = hub.api("POST", "/api/jobs", a_spec(before=manifest), key=hashlib.md5(path.encode()).hexdigest())
        assert answer.status == 422 or self._ends(hub, answer.json()["runs"][0]) == "failed"
        assert marker.read_text() == MARKER and not Path("/tmp/marker.txt").exists()

    @pytest.mark.parametrize("path", ["../../../pwn.sh", "/tmp/pwn.sh", "a/../../pwn.sh"])
    def test_a_run_script_that_lies_elsewhere_is_not_written(self, hub: LivingHub, path: str) -> None:
        spec = a_spec(kind="script", script="echo hi\n", script_path=path)
        answer = hub.api("POST", "/api/jobs", spec, key=hashlib.md5(path.encode()).hexdigest())
        assert answer.status == 422 or self._ends(hub, answer.json()["runs"][0]) == "failed"
        assert not Path("/tmp/pwn.sh").exists()
        assert "pwn.sh" not in [name for _, _, names in os.walk(hub.cli.home.parent) for name in names]

    def test_a_run_cannot_have_files_kept_that_are_not_its_own(self, hub: LivingHub, marker: Path) -> None:
        """Past the SDK, which would refuse: records of its own making, and links."""
        outside = marker.parent
        script = f"""
        import json, os, turnout.track as track
        for path in {[*TRAVERSALS, str(marker), "output/link", "output/dir/marker.txt"]!r}:
            track._record("a", json.dumps(path))
        os.symlink({str(marker)!r}, "output/link")
        os.symlink({str(outside)!r}, "output/dir")
        open("output/mine", "w").write("mine")
        """
        (hub.cli.cwd / "keep.py").write_text("\n".join(line[8:] for line in script.splitlines()))
        name = hub.cli.json("run", "--wait", "keep.py")["name"]
        target = outside / "kept"
        hub.cli("extract", name, str(target))
        assert (target / "after/output/mine").read_text() == "mine"
        assert MARKER not in "".join(p.read_text() for p in target.rglob("*") if p.is_file() and not p.is_symlink())
        assert not (target / "after/output/link").exists() and not (target / "after/output/dir").exists()

    def test_a_run_cannot_swap_its_directory_for_a_link(self, hub: LivingHub, marker: Path) -> None:
        """A24: what is captured and what is removed afterwards is the run's own, not what the link leads to."""
        trap = marker.parent / "trap"
        (trap / "output").mkdir(parents=True)
        (trap / "output" / "marker.txt").write_text(MARKER)
        swap = f"cd .. && mv work mine && ln -s {trap} work"
        name = hub.cli.json("run", "--wait", "sh", "-c", swap)["name"]
        hub.cli("extract", name, str(marker.parent / "swapped"))
        assert not (marker.parent / "swapped/after").exists()
        assert (trap / "output" / "marker.txt").read_text() == MARKER

    @pytest.mark.parametrize("pattern", ["../**", "/etc/passwd", "../../../../**/marker.txt", "**/../marker.txt"])
    def test_patterns_reach_nothing_outside(self, hub: LivingHub, pattern: str) -> None:
        answer = hub.api("POST", "/api/jobs", a_spec(after=[pattern]), key=hashlib.md5(pattern.encode()).hexdigest())
        if answer.status != 422:
            (name,) = answer.json()["runs"]
            self._ends(hub, name)
            assert hub.api("GET", f"/api/runs/{name}/files").json()["after"] is None

    @staticmethod
    def _ends(hub: LivingHub, name: str) -> str:
        def ended() -> str:
            state = str(hub.api("GET", f"/api/runs/{name}").json()["state"])
            return state if state in ("completed", "failed", "cancelled") else ""

        return wait_until(ended)


class TestSettingsAreData:
    """A10: YAML that makes objects or grows without end, in the project's file and in the user's."""

    BOMBS = {
        "an object": "general: !!python/object/apply:os.system [touch pwn]\n",
        "a module": "!!python/module:os {}\n",
        "a name": "general: {target: !!python/name:os.system }\n",
        "aliases": "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)),
        "an alias of itself": "general: &a {target: *a}\n",
        "merge keys": "x: &x {a: 1}\ngeneral:\n  <<: *x\n",
        "depth": "general: " + "[" * 200_000 + "\n",
        "depth of mappings": "{a: " * 100_000,
        "a date that is none": "hub: {lease: 2024-13-99}\n",
        "a number that is none": "hub: {lease: !!float abc}\n",
        "not a number": "hub: {lease: .nan}\n",
        "a NUL": "general:\0\n",
        "2 MB": "#" * (2 << 20),
        "a list": "[1, 2]\n",
        "text": "nonsense",
        "bytes": "general: \udcff\n",
    }

    @pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
    def test_refused_with_the_file_named_in_under_a_second(self, tmp_path: Path, bomb: str) -> None:
        file = tmp_path / "turnout.yaml"
        file.write_bytes(bomb.encode("utf-8", "surrogateescape"))
        began = time.process_time()
        with pytest.raises(InvalidInput, match=re.escape(str(file))):
            config.load(file)
        assert time.process_time() - began < 1
        assert not Path("pwn").exists()

    @pytest.mark.parametrize("where", ["turnout.yaml", "config.yaml"])
    def test_wherever_it_lies(self, cli: Cli, where: str) -> None:
        place = cli.cwd if where == "turnout.yaml" else cli.home
        place.mkdir(mode=0o700, exist_ok=True)
        (place / where).write_text(self.BOMBS["an object"])
        done = cli("run", "true", check=False)
        assert done.returncode == 2 and f"{place / where}:1: " in done.stderr and "Traceback" not in done.stderr
        assert not (cli.cwd / "pwn").exists() and not (cli.home / "turnout.db").exists()


class TestTextIsInertInATerminal:
    """A14 on the command line: sequences that move the cursor, set the title, write to the clipboard, or hide text."""

    HOSTILE = (
        "\x1b]0;title\x07 \x1b]52;c;cHdu\x07 \x1b[2J \x1b]8;;http://evil\x07x\x1b]8;;\x07 \x9b31m \r\b \u202eabc \x7f"
    )

    @pytest.fixture(scope="class")
    @classmethod
    def name(cls, hub: LivingHub) -> str:
        script = "from turnout import *\nparams({text: text})\nlog({text: 1.0})\ntag(ok=text)\n"
        (hub.cli.cwd / "hostile.py").write_text(f"text = {cls.HOSTILE!r}\n{script}")
        return str(hub.cli.json("run", "--wait", "--tag", f"a={cls.HOSTILE}", "hostile.py", cls.HOSTILE)["name"])

    @pytest.mark.parametrize(
        "command",
        [
            ("list", "runs"), ("list", "jobs"), ("show",), ("status",), ("events",), ("metrics",), ("why",),
            ("list", "runs", "--columns", "name=\x1b[2J,tags.a,tags.ok"),
        ],
        ids=lambda command: " ".join(command)[:18],
    )  # fmt: skip
    @pytest.mark.parametrize("json", [False, True])
    def test_in_tables_and_json(self, hub: LivingHub, name: str, command: tuple[str, ...], json: bool) -> None:
        told = hub.cli(*command, *(["--json"] if json else []), *([name] if command[0] != "list" else []))
        assert told.stdout and not [c for c in told.stdout + told.stderr if c in "\x1b\x07\x9b\r\b\u202e\x7f"]

    @pytest.mark.parametrize(
        "command",
        [
            ("show", HOSTILE), ("run", HOSTILE), ("run", "--name", HOSTILE, "true"), ("run", "--tag", HOSTILE, "true"),
            ("run", "--env", HOSTILE, "true"), ("run", "--time", HOSTILE, "true"), ("run", "--multi", HOSTILE),
            ("list", "runs", "--filter", HOSTILE), ("list", "runs", "--sort", HOSTILE), (HOSTILE,),
            ("run", "--" + HOSTILE), ("extract", "run1", f"/proc/{HOSTILE}"), ("cancel", "run", HOSTILE),
            ("list", "runs", "--columns", HOSTILE),
        ],
        ids=lambda command: ascii(" ".join(command))[:24],
    )  # fmt: skip
    def test_in_errors(self, hub: LivingHub, command: tuple[str, ...]) -> None:
        done = hub.cli(*command, check=False)
        assert done.returncode not in (0, 1) and "Traceback" not in done.stderr
        assert not [c for c in done.stdout + done.stderr if c in "\x1b\x07\x9b\r\b\u202e\x7f"]

    def test_in_what_would_be_submitted(self, hub: LivingHub) -> None:
        odd = hub.cli.cwd / f"odd {self.HOSTILE.replace('/', '')}"
        odd.write_text("x")
        try:
            done = hub.cli("run", "--dry-run", "--tag", f"a={self.HOSTILE}", "echo", self.HOSTILE)
        finally:
            odd.unlink()
        assert "odd" in done.stdout and "\x1b" not in done.stdout and "\x07" not in done.stdout
