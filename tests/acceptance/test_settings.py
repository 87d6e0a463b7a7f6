"""``turnout config`` and ``turnout secret``, and what settings do to ``turnout run``."""

from __future__ import annotations

import json
import os
import pty
import pwd
import select
import subprocess
from pathlib import Path

import pytest

from tests.harness import Cli, user_environment, wait_until

USAGE, NOT_FOUND, CONFLICT = 2, 3, 4


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(text)
    return path


class TestShow:
    def test_what_holds_here(self, cli: Cli) -> None:
        write(cli.home / "config.yaml", "general: {workspace: mine}\n")
        write(cli.cwd / "turnout.yaml", "general:\n  experiment: tuning\n")
        shown = cli("config", "show", "general").stdout
        assert "workspace: mine\n" in shown and "experiment: tuning\n" in shown and "target: local\n" in shown
        assert cli("config", "show", "general.experiment").stdout == "tuning\n"
        assert cli.json("config", "show", "general.workspace") == "mine"
        assert cli.json("config", "show")["code"]["max-files"] == 200_000

    def test_where_each_value_is_from(self, cli: Cli) -> None:
        user = write(cli.home / "config.yaml", "general: {workspace: mine}\n")
        project = write(cli.cwd / "turnout.yaml", "general:\n  experiment: tuning\n")
        env = {"TURNOUT_TARGET": "local"}
        lines = cli("config", "show", "general", "--origin", env=env).stdout.splitlines()
        found = {line.split()[0]: line.split()[-1] for line in lines}
        assert found["general.workspace"] == f"{user}:1"
        assert found["general.experiment"] == f"{project}:2"
        assert found["general.target"] == "TURNOUT_TARGET"
        assert found["general.grace"] == "default"
        (told,) = json.loads(cli("config", "show", "general.experiment", "--origin", "--json").stdout)
        assert told == {
            "key": "general.experiment",
            "value": "tuning",
            "origin": {"source": "file", "name": str(project), "line": 2},
        }

    def test_a_name_that_is_none(self, cli: Cli) -> None:
        done = cli("config", "show", "general.targte", check=False)
        assert done.returncode == NOT_FOUND
        assert "no setting 'targte' in general" in done.stderr and "did you mean 'target'?" in done.stderr


class TestCheck:
    def test_all_is_well(self, cli: Cli) -> None:
        assert "no files: all well" in cli("config", "check").stdout
        file = write(cli.cwd / "turnout.yaml", "general: {experiment: a}\n")
        assert cli("config", "check").stdout.startswith(f"{file}: all well, ")

    def test_all_problems_at_once_with_their_places(self, cli: Cli) -> None:
        user = write(cli.home / "config.yaml", "hub: {leese: 3}\n")
        project = write(cli.cwd / "turnout.yaml", "genral: {}\n\ncode:\n  max-files: many\n")
        done = cli("config", "check", check=False)
        assert done.returncode == USAGE
        assert done.stdout.splitlines() == [
            f"{user}:1: unknown key 'leese' in hub; did you mean 'lease'?",
            f"{project}:1: unknown section 'genral'; did you mean 'general'?",
            f"{project}:4: code.max-files: expected a whole number above zero, found 'many'; "
            "write for instance `max-files: 4`",
        ]
        told = json.loads(cli("config", "check", "--json", check=False).stdout)
        assert told["files"] == [str(user), str(project)]
        assert told["problems"][0] == {
            "where": f"{user}:1", "what": "unknown key 'leese' in hub", "instead": "did you mean 'lease'?"
        }  # fmt: skip

    def test_names_and_paths_that_every_run_would_refuse(self, cli: Cli) -> None:
        write(
            cli.cwd / "turnout.yaml",
            'general: {experiment: "a b", workspace: job7}\ncode: {working-dir: ../..}\n'
            "data: {share: a/b, path: ../x}\n",
        )
        told = cli("config", "check", check=False).stdout
        for part in (
            "1: general.experiment: expected a name", "1: general.workspace: expected a name",
            "2: code.working-dir: expected a path", "3: data.share: expected a name", "3: data.path: expected a path",
        ):  # fmt: skip
            assert f"turnout.yaml:{part}" in told

    def test_a_file_that_may_name_what_the_users_own_has(self, cli: Cli) -> None:
        write(cli.home / "config.yaml", "boxes: {workshop: {address: localhost}}\n")
        write(cli.cwd / "other.yaml", "general: {target: workshop}\n")
        assert "all well" in cli("config", "check", "other.yaml").stdout
        done = cli("config", "check", "none.yaml", check=False)
        assert done.returncode == NOT_FOUND and "no file none.yaml" in done.stderr

    def test_a_long_file(self, cli: Cli) -> None:
        targets = "".join(f"  t{n}: {{service: local, max-runs: {n + 1}}}\n" for n in range(998))
        write(cli.cwd / "turnout.yaml", f"compute-targets:\n{targets}  last: {{service: lokal}}\n")
        done = cli("config", "check", check=False)
        assert done.returncode == USAGE and "turnout.yaml:1000: " in done.stdout and "'local'" in done.stdout


class TestInit:
    def test_writes_one_that_is_well_and_never_over_another(self, cli: Cli) -> None:
        cli("config", "init")
        file = cli.cwd / "turnout.yaml"
        assert "all well" in cli("config", "check").stdout
        file.write_text("general: {experiment: mine}\n")
        done = cli("config", "init", check=False)
        assert done.returncode == CONFLICT and "--force" in done.stderr
        assert file.read_text() == "general: {experiment: mine}\n"
        assert cli.json("config", "init", "--force") == {"file": str(file)}
        assert (cli.cwd / "turnout.yaml.old").read_text() == "general: {experiment: mine}\n"
        assert sorted(path.name for path in cli.cwd.iterdir()) == ["turnout.yaml", "turnout.yaml.old"]

    def test_path_and_schema(self, cli: Cli) -> None:
        assert cli.json("config", "path") == {
            "user": str(cli.home / "config.yaml"), "project": None, "secrets": str(cli.home / "secrets.json")
        }  # fmt: skip
        cli("config", "init")
        assert cli.json("config", "path")["project"] == str(cli.cwd / "turnout.yaml")
        assert str(cli.home / "config.yaml") in cli("config", "path").stdout
        assert "general" in json.loads(cli("config", "schema").stdout)["properties"]


class TestSecrets:
    VALUE = "hunter2 and more"

    def test_are_kept_listed_and_forgotten_and_never_shown(self, cli: Cli) -> None:
        said = cli("secret", "set", "WANDB", "--from-stdin", input=f"{self.VALUE}\n")
        listed = cli("secret", "list")
        assert listed.stdout.splitlines()[1].split() == ["WANDB", "file"]
        assert cli.json("secret", "list") == [{"name": "WANDB", "where": "file"}]
        assert json.loads((cli.home / "secrets.json").read_text()) == {"WANDB": self.VALUE}
        assert (cli.home / "secrets.json").stat().st_mode & 0o777 == 0o600
        gone = cli("secret", "remove", "WANDB")
        assert cli.json("secret", "list") == []
        assert self.VALUE not in said.stdout + said.stderr + listed.stdout + gone.stdout
        done = cli("secret", "remove", "WANDB", check=False)
        assert done.returncode == NOT_FOUND and "turnout secret list" in done.stderr

    def test_are_asked_for_without_echo(self, cli: Cli) -> None:
        cli.home.mkdir(mode=0o700)
        ours, theirs = pty.openpty()
        argv = cli.argv("secret", "set", "KEY")
        process = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cli.cwd, env=user_environment(cli.home),
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        while b"KEY: " not in seen:
            assert select.select([ours], [], [], 20)[0], seen
            seen += os.read(ours, 1000)
        os.write(ours, self.VALUE.encode() + b"\n")
        while process.poll() is None or select.select([ours], [], [], 0)[0]:
            try:
                seen += os.read(ours, 1000)
            except OSError:
                break
        assert process.wait(20) == 0 and self.VALUE.encode() not in seen
        assert json.loads((cli.home / "secrets.json").read_text()) == {"KEY": self.VALUE}

    def test_nobody_to_ask(self, cli: Cli) -> None:
        done = cli("secret", "set", "KEY", check=False)
        assert done.returncode == USAGE and "--from-stdin" in done.stderr and not (cli.home / "secrets.json").exists()

    @pytest.mark.parametrize(("name", "value"), [("a-b", "x"), ("../x", "x"), ("KEY", "")])
    def test_bad_ones_are_refused(self, cli: Cli, name: str, value: str) -> None:
        done = cli("secret", "set", name, "--from-stdin", input=value, check=False)
        assert done.returncode == USAGE and not (cli.home / "secrets.json").exists()


class TestRuns:
    """What ``turnout run`` takes from settings."""

    def test_commands_of_the_project(self, user: Cli, project: Path) -> None:
        write(project / "turnout.yaml", "commands:\n- echo one\n- echo 'two  three'\n")
        job = user.json("run", "-d")
        assert len(job["runs"]) == 2
        plan = user.json("run", "--dry-run")
        assert plan["commands"] == [["echo", "one"], ["echo", "two  three"]]
        assert user.json("run", "--dry-run", "true")["commands"] == [["true"]], "a command given here wins"

    @pytest.mark.parametrize(
        ("line", "what"),
        [
            ("no-such-program", "commands:2: no command"),
            ("'echo \"x'", "turnout.yaml:3: commands: expected a command line"),
        ],
    )
    def test_a_wrong_command_of_the_project(self, user: Cli, project: Path, line: str, what: str) -> None:
        write(project / "turnout.yaml", f"commands:\n- echo\n- {line}\n")
        done = user("run", check=False)
        assert done.returncode in (USAGE, NOT_FOUND) and what in done.stderr

    def test_each_of_those_is_a_run(self, user: Cli, project: Path) -> None:
        write(project / "turnout.yaml", "commands: [echo one, echo two]\n")
        for option in ("--repeat", "--runs"):
            done = user("run", option, "2", check=False)
            assert done.returncode == USAGE and f"leave {option} out" in done.stderr
            assert f"{option} and `commands:` of turnout.yaml exclude each other" in done.stderr

    def test_as_many_problems_as_the_check_finds(self, user: Cli, project: Path) -> None:
        """Names that lead nowhere are among them."""
        wrong = "".join(f"  k{number}: 1\n" for number in range(12))
        write(project / "turnout.yaml", f"general:\n{wrong}compute-targets: {{a: {{setup: x}}, b: {{service: y}}}}\n")
        found = len(user("config", "check", check=False).stdout.splitlines())
        assert found == 14 and f"… and {found - 10} more" in user("run", "true", check=False).stderr

    def test_columns_that_are_none(self, user: Cli, project: Path) -> None:
        """The list says where they are from, and is there all the same."""
        write(project / "turnout.yaml", "job-reports:\n  columns: [nope]\n")
        user("run", "--wait", "true")
        done = user("list", "jobs")
        assert "job" in done.stdout and "turnout.yaml:2: job-reports.columns: there is no column 'nope'" in done.stderr
        assert user("list", "runs").stderr == ""

    def test_variables_and_which_are_inherited(self, user: Cli, project: Path) -> None:
        write(
            project / "turnout.yaml",
            "general:\n  env-vars: {A: from-file, B: from-file}\n  env-inherit: [minimal, WANTED]\n",
        )
        env = {"WANTED": "w", "UNWANTED": "u"}
        script = 'echo "$A|$B|$WANTED|$UNWANTED|${HOME:+home}"'
        assert user("run", "--env", "B=given", "sh", "-c", script, env=env).stdout == "from-file|given|w||home\n"

    def test_defaults_of_options(self, user: Cli, project: Path) -> None:
        write(project / "turnout.yaml", "general: {retry: 2}\ncode: {allow-secrets: .env}\n")
        write(project / ".env", "A=1\n")
        plan = user.json("run", "--dry-run", "true")
        assert plan["retry"] == 2 and ".env" in plan["files"]
        assert json.loads(user("run", "--dry-run", "--json", "--retry", "0", "true").stdout)["retry"] == 0

    def test_who_submits(self, user: Cli, project: Path) -> None:
        write(project / "turnout.yaml", "general: {username: ada}\n")
        assert user("run", "sh", "-c", "echo $XT_USERNAME").stdout == "ada\n"
        (project / "turnout.yaml").unlink()
        login = pwd.getpwuid(os.getuid()).pw_name
        env = {"USER": "", "LOGNAME": "", "LNAME": "", "USERNAME": ""}
        assert user("run", "sh", "-c", "echo $XT_USERNAME", env=env).stdout == f"{login}\n"

    def test_nodes_of_a_target(self, user: Cli, project: Path) -> None:
        write(project / "turnout.yaml", "compute-targets: {wide: {nodes: 2}}\ngeneral: {target: wide}\n")
        assert user.json("run", "--dry-run", "true")["nodes"] == 2
        assert json.loads(user("run", "--dry-run", "--json", "--nodes", "3", "true").stdout)["nodes"] == 3

    def test_a_box_here_is_a_target(self, cli: Cli) -> None:
        write(cli.home / "config.yaml", "boxes: {workshop: {address: localhost, max-runs: 1}}\n")
        view = cli.json("run", "--wait", "--target", "workshop", "true")
        assert (view["state"], view["target"]) == ("completed", "workshop")


class TestTargetsOfAProject:
    """The hub serves what the project that submits has in its settings."""

    def test_run_there(self, cli: Cli) -> None:
        write(cli.cwd / "turnout.yaml", "compute-targets: {mine: {max-runs: 1}}\ngeneral: {target: mine}\n")
        view = cli.json("run", "--wait", "true")
        assert (view["state"], view["target"]) == ("completed", "mine")

    def test_the_hub_keeps_them_over_a_restart(self, cli: Cli) -> None:
        write(cli.cwd / "turnout.yaml", "boxes: {bench: {address: localhost, max-runs: 1}}\n")
        cli("run", "--wait", "--target", "bench", "true")
        (cli.cwd / "turnout.yaml").unlink()
        cli("hub", "stop")
        cli("hub", "start")
        assert "bench" in cli.json("hub", "status")["targets"]
        assert (cli.home / "targets.json").stat().st_mode & 0o777 == 0o600

    #: Ends when both runs are there at once.
    BOTH = 'touch "$0/$TURNOUT_RUN_NAME"; while [ "$(ls "$0" | wc -l)" -lt 2 ]; do sleep 0.02; done'

    def test_a_change_is_taken_up(self, cli: Cli, tmp_path: Path) -> None:
        """By the next run, though an agent is there from before."""
        there, said = tmp_path / "there", tmp_path / "said"
        there.mkdir()
        for most in (1, 2):
            write(
                cli.cwd / "turnout.yaml",
                f"compute-targets: {{mine: {{max-runs: {most}, prolog: ['echo {most} >> {said}']}}}}\n",
            )
            cli("run", "--wait", "--target", "mine", "true")
        cli("run", "--wait", "--target", "mine", "--runs", "2", "sh", "-c", self.BOTH, str(there))
        assert said.read_text() == "1\n2\n"
        assert {run["target"] for run in cli.json("list", "runs")} == {"mine"}

    def test_a_change_of_your_own_file_too(self, cli: Cli, tmp_path: Path) -> None:
        """What is going ends where it is; a file that is wrong changes nothing."""
        there, out = tmp_path / "there", tmp_path / "out"
        there.mkdir()
        write(cli.home / "config.yaml", "compute-targets: {mine: {max-runs: 1}}\n")
        going = cli.json("run", "-d", "--target", "mine", "sh", "-c", f"until [ -e {out} ]; do sleep 0.02; done")
        wait_until(lambda: cli.json("show", going["runs"][0])["state"] == "running")
        write(cli.home / "config.yaml", "compute-targets: {mine: {max-runs: 2}, more: {max-runs: 1}}\n")
        cli("run", "--wait", "--target", "mine", "--runs", "2", "sh", "-c", self.BOTH, str(there))
        assert cli("run", "--wait", "--target", "more", "echo", "hi").stdout == "hi\n"
        write(cli.home / "config.yaml", "compute-targets: [\n")
        out.touch()
        wait_until(lambda: cli.json("show", going["runs"][0])["state"] == "completed")

    def test_those_of_all_projects_may_be_other_ones_here(self, cli: Cli, tmp_path: Path) -> None:
        """Merged key by key; who submits from elsewhere has them as they were."""
        write(cli.home / "config.yaml", "compute-targets: {big: {max-runs: 1, prolog: ['echo own >> $HOME/said']}}\n")
        write(cli.cwd / "turnout.yaml", "compute-targets: {big: {max-runs: 2}}\n")
        there, elsewhere, env = tmp_path / "there", tmp_path / "elsewhere", {"HOME": str(tmp_path)}
        there.mkdir()
        elsewhere.mkdir()
        cli("run", "--wait", "--target", "big", "--runs", "2", "sh", "-c", self.BOTH, str(there), env=env)
        cli("run", "--wait", "--target", "big", "true", cwd=elsewhere, env=env)
        assert (tmp_path / "said").read_text() == "own\nown\n"
        assert {(node["target"], node["running"]) for node in cli.json("list", "nodes")} == {("big", 0)}
        (listed,) = (each for each in cli.json("list", "targets") if each["name"] == "big")
        assert (listed["max_runs"], listed["nodes"], listed["waiting"]) == (2, 2, 0)

    def test_one_that_nothing_was_sent_to_yet_is_listed(self, cli: Cli) -> None:
        write(
            cli.cwd / "turnout.yaml", "compute-targets: {mine: {max-runs: 3}}\nboxes: {bench: {address: localhost}}\n"
        )
        listed = {each["name"]: each for each in cli.json("list", "targets")}
        assert listed.keys() == {"local", "mine", "bench"}
        assert (listed["mine"]["service"], listed["mine"]["max_runs"], listed["mine"]["nodes"]) == ("local", 3, 0)

    def test_a_mistake_in_one_is_told_before_anything_is_done(self, cli: Cli) -> None:
        write(cli.cwd / "turnout.yaml", "compute-targets:\n  mine: {service: local, max-rnus: 1}\n")
        done = cli("run", "--target", "mine", "true", check=False)
        assert done.returncode == USAGE and "turnout.yaml:2: unknown key 'max-rnus'" in done.stderr
        assert not (cli.home / "turnout.db").exists()

    def test_one_whose_provider_is_not_there(self, cli: Cli) -> None:
        write(cli.cwd / "turnout.yaml", "compute-targets:\n  mine: {service: cray}\n")
        done = cli("run", "--target", "mine", "true", check=False)
        assert done.returncode == NOT_FOUND and "no compute provider 'cray'" in done.stderr
        write(
            cli.cwd / "turnout.yaml", "compute-targets: {mine: {service: cray}}\nproviders: {compute: {cray: a.Cray}}\n"
        )
        done = cli("run", "--target", "mine", "true", check=False)
        assert done.returncode == 2 and "turnout.yaml:2: no package 'a' for a.Cray" in done.stderr

    def test_a_box_that_nothing_reaches_stops_no_hub(self, cli: Cli) -> None:
        write(cli.home / "config.yaml", "boxes: {far: {address: me@far.example.org}}\n")
        cli("run", "--wait", "true")


class TestServices:
    def test_a_database_by_reference(self, cli: Cli, tmp_path: Path) -> None:
        write(
            cli.home / "config.yaml",
            "external-services: {records: {type: sql, url: secret:RECORDS}}\nxt-services: {database: records}\n",
        )
        done = cli("hub", "start", check=False)
        assert done.returncode == NOT_FOUND and "turnout secret set RECORDS" in done.stderr
        cli("secret", "set", "RECORDS", "--from-stdin", input=f"sqlite:///{tmp_path}/elsewhere.db\n")
        cli("run", "--wait", "true")
        assert (tmp_path / "elsewhere.db").exists() and not (cli.home / "turnout.db").exists()

    def test_files_are_kept_elsewhere(self, cli: Cli, tmp_path: Path) -> None:
        big = tmp_path / "big disk"
        write(
            cli.home / "config.yaml",
            f"external-services: {{big: {{type: directory, path: {big}}}}}\nxt-services: {{storage: big}}\n",
        )
        write(cli.cwd / "hello.txt", "hello\n")
        assert cli("run", "--wait", "cat", "hello.txt").stdout == "hello\n"
        assert any(big.rglob("*")) and not any((cli.home / "blobs").rglob("*"))
        assert big.stat().st_mode & 0o077 == 0

    def test_a_vault_is_any_command(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "KEY").write_text("hunter2 and more\n")
        write(
            cli.home / "config.yaml",
            f"external-services: {{safe: {{type: command, command: [cat, '{tmp_path}/{{name}}']}}}}\n"
            "xt-services: {vault: safe}\n",
        )
        shell = 'test "$A" = "hunter2 and more" && echo "$A"'
        assert cli("run", "--wait", "--env", "A=secret:KEY", "sh", "-c", shell).stdout == "****************\n"
        done = cli("run", "--env", "A=secret:OTHER", "true", check=False)
        assert done.returncode == NOT_FOUND and "no secret 'OTHER' in the vault 'safe'" in done.stderr

    @pytest.mark.parametrize(
        ("name", "entry", "what"),
        [
            ("storage", "{type: directory, path: here}", "no external service 'mine' with an absolute path"),
            ("vault", "{type: command, command: [pass]}", "no external service 'mine' with a command for {name}"),
        ],
    )
    def test_a_service_that_is_not_fit_for_it(self, cli: Cli, name: str, entry: str, what: str) -> None:
        write(cli.home / "config.yaml", f"external-services: {{mine: {entry}}}\nxt-services: {{{name}: mine}}\n")
        secret = ("--env", "A=secret:KEY") if name == "vault" else ()
        done = cli("run", *secret, "true", check=False)
        assert done.returncode == USAGE and what in done.stderr and "external-services: {mine:" in done.stderr

    @pytest.mark.parametrize("name", ["storage", "database", "vault"])
    def test_what_all_projects_share_is_not_for_one_to_say(self, cli: Cli, name: str) -> None:
        services = "external-services: {pg: {type: postgres, url: x}}\n"
        write(cli.cwd / "turnout.yaml", f"{services}xt-services: {{{name}: pg}}\n")
        done = cli("config", "check", check=False)
        assert done.returncode == USAGE and f"turnout.yaml:2: `xt-services.{name}` is not for a project" in done.stdout

    def test_a_database_that_is_no_service(self, cli: Cli) -> None:
        write(cli.home / "config.yaml", "xt-services: {database: records}\n")
        done = cli("hub", "start", check=False)
        assert done.returncode == USAGE and "no external service 'records' with a url" in done.stderr


class TestSecretsOfRuns:
    """A run gets the secret; nothing that is kept or shown does."""

    SHOW = ("sh", "-c", 'case "$KEY$TURNOUT_SECRET_OTHER" in hunt*more) echo same ;; esac')

    def test_from_the_file(self, cli: Cli) -> None:
        cli("secret", "set", "WANDB", "--from-stdin", input="hunter2 and more")
        write(cli.cwd / "turnout.yaml", "general: {env-vars: {KEY: secret:WANDB}}\n")
        done = cli("run", "--wait", *self.SHOW, env={"TURNOUT_SECRET_OTHER": "x"})
        assert done.stdout == "same\n"
        database = b"".join(path.read_bytes() for path in cli.home.glob("turnout.db*"))
        assert b"hunter2" not in database
        assert all(b"hunter2" not in path.read_bytes() for path in (cli.home / "nodes").rglob("*") if path.is_file())

    def test_from_the_environment(self, cli: Cli) -> None:
        env = {"TURNOUT_SECRET_WANDB": "hunter2 and more", "TURNOUT_SECRET_OTHER": "x"}
        assert cli("run", "--wait", "--env", "KEY=secret:WANDB", *self.SHOW, env=env).stdout == "same\n"

    def test_what_a_run_prints_of_it_is_covered(self, cli: Cli) -> None:
        cli("secret", "set", "WANDB", "--from-stdin", input="hunter2 and more")
        env = {"TURNOUT_SECRET_OTHER": "tell nobody"}
        shell = 'printf hunter2; sleep 0.5; echo " and more"; echo "$OTHER!"; env | grep -c "hunter2 and more"'
        done = cli(
            "run", "--wait", "--env", "KEY=secret:WANDB", "--env", "OTHER=secret:OTHER", "sh", "-c", shell, env=env
        )
        assert done.stdout == "****************\n***********!\n1\n"
        assert cli("logs", "$lastrun").stdout == done.stdout

    def test_from_the_keyring(self, cli: Cli, tmp_path: Path) -> None:
        """A real one, of the kind that keeps a file."""
        env = {"PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring", "XDG_DATA_HOME": str(tmp_path)}
        env["TURNOUT_SECRET_OTHER"] = "x"
        cli("secret", "set", "WANDB", "--keyring", "--from-stdin", input="hunter2 and more", env=env)
        listed = {each["name"]: each["where"] for each in cli.json("secret", "list", env=env)}
        assert listed == {"WANDB": "keyring", "OTHER": "environment"}
        assert json.loads((cli.home / "secrets.json").read_text()) == {"WANDB": None}
        assert cli("run", "--wait", "--env", "KEY=secret:WANDB", *self.SHOW, env=env).stdout == "same\n"
        assert "removed from the keyring" in cli("secret", "remove", "WANDB", env=env).stdout
        assert cli("run", "--env", "KEY=secret:WANDB", "true", env=env, check=False).returncode == NOT_FOUND

    def test_one_that_is_nowhere_is_told_before_anything_is_done(self, cli: Cli) -> None:
        done = cli("run", "--env", "KEY=secret:WANDB", "true", check=False)
        assert done.returncode == NOT_FOUND and "turnout secret set WANDB" in done.stderr
        assert not (cli.home / "turnout.db").exists()

    def test_one_that_is_gone_when_the_run_starts(self, cli: Cli) -> None:
        cli("secret", "set", "WANDB", "--from-stdin", input="x")
        job = cli.json("run", "-d", "--held", "--env", "KEY=secret:WANDB", "true")
        cli("secret", "remove", "WANDB")
        cli("release", job["job"])
        cli("attach", job["runs"][0], check=False)
        why = cli("why", job["runs"][0]).stdout
        assert "no secret 'WANDB' on this node" in why and "turnout secret set WANDB" in why
