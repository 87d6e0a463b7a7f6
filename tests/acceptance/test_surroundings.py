"""What a run finds around it: its code, where it begins, its Python; and what of it is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness import Cli


def frozen(cli: Cli, *options: str) -> list[str]:
    """The files that would be frozen."""
    return sorted(cli.json("run", "--dry-run", *options, "true")["files"])


@pytest.fixture
def project(cli: Cli) -> Path:
    for path in ("src/train.py", "src/data.csv", "tools/helper.py", "tools/deep/notes.tmp", "go.sh"):
        (cli.cwd / path).parent.mkdir(parents=True, exist_ok=True)
        (cli.cwd / path).write_text("print('hello from', __file__)\n")
    (cli.cwd / "go.sh").write_text("pwd; ls; echo $RUN_ARGS$\n")
    return cli.cwd


def test_several_code_directories_become_one_tree(cli: Cli, project: Path) -> None:
    assert frozen(cli, "--code-dir", "src") == ["src/data.csv", "src/train.py"]
    assert frozen(cli, "--code-dir", "src::.", "--code-dir", "tools::lib") == [
        "data.csv", "lib/deep/notes.tmp", "lib/helper.py", "train.py",
    ]  # fmt: skip
    outside = project.parent / "common"
    outside.mkdir()
    (outside / "shared.py").write_text("")
    assert frozen(cli, "--code-dir", "src", "--code-dir", "../common")[0] == "common/shared.py"
    done = cli("run", "--code-dir", "src::code", "src/train.py")
    assert "hello from" in done.stdout and "code/train.py" in done.stdout


def test_patterns_leave_files_out(cli: Cli, project: Path) -> None:
    assert frozen(cli, "--code-omit", "*.csv", "--code-omit", "tools/deep") == [
        "go.sh",
        "src/train.py",
        "tools/helper.py",
    ]
    (project / "turnout.yaml").write_text("code:\n  code-dirs: [tools]\n  code-omit: ['*.tmp']\n")
    assert frozen(cli) == ["tools/helper.py"]


def test_a_run_begins_in_its_working_directory(cli: Cli, project: Path) -> None:
    lines = cli("run", "--working-dir", "tools", "go.sh", "with", "arguments").stdout.splitlines()
    assert any(Path(line).parts[-2:] == ("work", "tools") for line in lines)
    assert lines[-2:] == ["helper.py", "with arguments"] and "deep" in lines
    assert "hello from" in cli("run", "--working-dir", "tools", "src/train.py").stdout


def test_only_what_is_asked_for_is_kept(cli: Cli, project: Path, tmp_path: Path) -> None:
    (project / "make.sh").write_text(
        "mkdir -p results/deep; for n in a.txt b.tmp deep/c.txt; do echo $n > results/$n; done\n"
    )
    cli("run", "--after", "results", "--after-omit", "*.tmp", "make.sh")
    cli("extract", "run1", str(tmp_path / "one"))
    kept = sorted(
        str(path.relative_to(tmp_path / "one" / "after")) for path in (tmp_path / "one" / "after").rglob("*.*")
    )
    assert kept == ["results/a.txt", "results/deep/c.txt"]
    (project / "turnout.yaml").write_text("after-files:\n  after-dirs: ['results/**']\n  after-omit: [results/deep]\n")
    cli("run", "make.sh")
    cli("extract", "run2", str(tmp_path / "two"))
    kept = sorted(path.name for path in (tmp_path / "two" / "after").rglob("*.*"))
    assert kept == ["a.txt", "b.tmp"]


def test_a_python_file_gets_the_environment_that_is_active_here(cli: Cli, project: Path, tmp_path: Path) -> None:
    (project / "where.py").write_text("import os; print(os.environ.get('CONDA_DEFAULT_ENV'), os.environ['PATH'])\n")
    conda = {"VIRTUAL_ENV": "", "CONDA_PREFIX": str(tmp_path / "conda" / "envs" / "lab"), "CONDA_DEFAULT_ENV": "lab"}
    name, path = cli("run", "where.py", env=conda).stdout.splitlines()[-1].split(" ", 1)
    assert name == "lab" and f"{tmp_path}/conda/envs/lab/bin:" in path
    venv = {"VIRTUAL_ENV": str(tmp_path / "venv"), "CONDA_PREFIX": ""}
    assert f"{tmp_path}/venv/bin" in cli("run", "where.py", env=venv).stdout


def test_elsewhere_a_python_file_gets_the_default_environment(cli: Cli, project: Path) -> None:
    def script(environment: str) -> str:
        (project / "turnout.yaml").write_text(
            f"boxes: {{far: {{address: far.example}}}}\ngeneral: {{default-env: {environment}}}\n"
        )
        active = {"VIRTUAL_ENV": "/mine", "CONDA_PREFIX": "/mine"}
        return str(cli.json("run", "--dry-run", "--target", "far", "src/train.py", env=active)["script"])

    assert "activate py39" in script("py39") and "/mine" not in script("py39")
    assert 'export PATH="$HOME"/envs/lab/bin:"$PATH"' in script("~/envs/lab")
    assert script("").splitlines()[2:] == ["exec python3 -u src/train.py $RUN_ARGS$"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--code-dir", "nowhere", "true"), "code directory 'nowhere' is no directory"),
        (("--code-dir", "src", "--code-dir", "tools::src/train.py", "true"), "cannot be one tree"),
        (("--code-dir", "src::../up", "true"), "leads out of the files of a run"),
        (("--working-dir", "nowhere", "true"), "no directory 'nowhere' in what is frozen"),
        (("--code-dir", "src", "go.sh"), "go.sh is outside"),
        (("--after", "../../**", "true"), "'../../**' leads out of the files of a run"),
        (("--after", "/etc/passwd", "true"), "'/etc/passwd' leads out of the files of a run"),
        (("--after", "", "true"), "an empty pattern"),
        (("--after-omit", "../x", "true"), "'../x' leads out of the files of a run"),
        (("",), "an empty command"),
        (("go.bat",), "go.bat is a Windows script, and this target is not Windows"),
    ],
)
def test_what_cannot_be_is_told_and_nothing_is_submitted(
    cli: Cli, project: Path, options: tuple[str, ...], said: str
) -> None:
    (project / "go.bat").write_text("echo hello\r\n")
    done = cli("run", *options, check=False)
    assert done.returncode == 2 and said in done.stderr
    assert not os.path.exists(cli.home / "turnout.db") or cli.json("list", "runs") == []
