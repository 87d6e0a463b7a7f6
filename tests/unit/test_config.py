"""Settings: layers that are merged key by key, values that know where they are from, problems with their place."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import keyring.backends.fail
import keyring.backends.null
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnout import config
from turnout.config import Reference, checking, schema, secrets
from turnout.config.layers import variables
from turnout.config.sections import ROOT
from turnout.config.setting import Setting, walk
from turnout.config.template import TEMPLATE
from turnout.errors import InvalidInput, NotFound, Unavailable
from turnout.home import Home


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TURNOUT_"):
            monkeypatch.delenv(name)


@dataclass
class Files:
    """Two files of settings, and whatever else a test writes beside them."""

    folder: Path
    user: Path = field(init=False)
    project: Path = field(init=False)

    def __post_init__(self) -> None:
        self.user, self.project = self.folder / "config.yaml", self.folder / "turnout.yaml"

    def write(self, user: str = "", project: str = "", **others: str) -> config.Gathered:
        self.user.write_text(user)
        self.project.write_text(project)
        for name, text in others.items():
            (self.folder / f"{name}.yaml").write_text(text)
        return config.gather(self.user, self.project)

    def problems(self, user: str = "", project: str = "", **others: str) -> list[str]:
        """Without the folder's name."""
        return [
            str(each).replace(f"{self.folder}/", "") for each in checking.check(self.write(user, project, **others))
        ]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def origins(gathered: config.Gathered) -> dict[str, str]:
    return {".".join(path): Path(str(each.origin)).name for path, each in walk(gathered.tree)}


class TestLayers:
    """Defaults < the user's file < the project's < the environment < the command line."""

    def test_the_higher_one_wins_key_by_key(self, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TURNOUT_GENERAL_NOTIFY", "bell")
        monkeypatch.setenv("TURNOUT_TARGET", "three")
        files.write("general: {workspace: u, experiment: u, target: u}\n", "general: {experiment: p, target: p}\n")
        options = {"general.target": ("--target", "given"), "general.workspace": ("--workspace", None)}
        found = config.gather(files.user, files.project, options)
        general = found.config().general
        assert (general.workspace, general.experiment, general.target, general.notify) == ("u", "p", "given", "bell")
        told = origins(found)
        assert told["general.workspace"] == "config.yaml:1"
        assert told["general.experiment"] == "turnout.yaml:1"
        assert told["general.target"] == "--target"
        assert told["general.notify"] == "TURNOUT_GENERAL_NOTIFY"
        assert told["general.grace"] == "default"

    def test_names_and_values_merge_lists_and_single_values_replace(self, files: Files) -> None:
        found = files.write(
            "compute-targets:\n  big: {service: local, max-runs: 2, deep: {a: 1, b: [1, 2]}}\n"
            "code: {code-dirs: [a, b]}\n",
            "compute-targets:\n  big: {max-runs: 3, deep: {b: [3]}}\n  small: {}\ncode:\n  code-dirs: c\n",
        ).config()
        assert found.code.code_dirs == ("c",)
        assert found.compute_targets.keys() == {"local", "big", "small"}
        assert found.compute_targets["big"].max_runs == 3
        assert found.compute_targets["big"].settings == {"deep": {"a": 1, "b": [3]}}

    def test_without_anything_defaults_hold(self) -> None:
        assert config.load(None) == config.Config()

    def test_a_project_cannot_change_the_hub_of_all_projects(self, files: Files) -> None:
        (line,) = files.problems(project="\nhub: {lease: 2}\n")
        assert line.startswith("turnout.yaml:2: `hub` is not for a project") and "turnout config path" in line

    def test_the_default_target_of_xt(self, files: Files) -> None:
        assert (
            files.write("xt-services: {target: b}\nboxes: {b: {address: localhost}}\n").config().general.target == "b"
        )
        assert files.write("xt-services: {target: b}\ngeneral: {target: local}\n").config().general.target == "local"

    def test_each_variable_sets_what_it_names(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TURNOUT_CODE_CODE_DIRS", "src, lib::other")
        monkeypatch.setenv("TURNOUT_CODE_MAX_FILE_SIZE", "2M")
        monkeypatch.setenv("TURNOUT_RUN_REPORTS_REVERSE", "yes")
        found = config.load(None)
        assert found.code.code_dirs == ("src", "lib::other") and found.code.max_file_size == 2 << 20
        assert found.run_reports.reverse
        assert len({name for name, _, _ in variables()}) == len(list(variables()))

    def test_a_wrong_variable_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TURNOUT_LEASE", "soon")
        with pytest.raises(InvalidInput, match=r"TURNOUT_LEASE: hub.lease: expected a number") as caught:
            config.load(None)
        assert "unset TURNOUT_LEASE" in caught.value.hint


class TestIncludes:
    def test_come_below_and_are_relative_to_their_file(self, files: Files) -> None:
        (files.folder / "deeper").mkdir()
        (files.folder / "deeper" / "b.yaml").write_text("include: c.yaml\ngeneral: {workspace: b, experiment: b}\n")
        (files.folder / "deeper" / "c.yaml").write_text("general: {workspace: c, notify: c}\n")
        found = files.write(
            project="include: [a.yaml, deeper/b.yaml]\ngeneral: {workspace: own}\n", a="general: {experiment: a}\n"
        )
        general = found.config().general
        assert (general.workspace, general.experiment, general.notify) == ("own", "b", "c")
        assert origins(found)["general.notify"] == "c.yaml:1"
        assert [path.name for path in found.files] == ["config.yaml", "a.yaml", "c.yaml", "b.yaml", "turnout.yaml"]

    def test_a_cycle_shows_the_chain(self, files: Files) -> None:
        (line,) = files.problems(project="include: a.yaml\n", a="include: b.yaml\n", b="\ninclude: [a.yaml]\n")
        assert line.startswith("b.yaml:2: files that include each other: turnout.yaml → a.yaml → b.yaml → a.yaml; ")

    def test_one_that_is_not_there(self, files: Files) -> None:
        (line,) = files.problems(project="include:\n- a.yaml\n")
        assert line.startswith("turnout.yaml:2: no file a.yaml; ")

    def test_the_same_file_by_many_ways_is_read_once(self, files: Files) -> None:
        others = {f"f{n}": f"include: [f{n + 1}.yaml, f{n + 1}.yaml]\n" for n in range(40)}
        found = files.write(project="include: f0.yaml\n", **others, f40="general: {workspace: far}\n")
        assert found.config().general.workspace == "far" and len(found.files) == 43


class TestValues:
    """What is written is read as what it is for."""

    @pytest.mark.parametrize(
        ("written", "key", "value"),
        [
            ("setups: {a: {python: 3.10}}", "setups.a.python", "3.10"),
            ("general: {username: no}", "general.username", "no"),
            ("general: {experiment: 2024-01-31}", "general.experiment", "2024-01-31"),
            ("general: {username: ~}", "general.username", None),
            ("code: {max-size: 1.5G}", "code.max-size", 3 << 29),
            ("hub: {idle: 15m}", "hub.idle", 900.0),
            ("data: {writable: off}", "data.writable", False),
            ("data: {data-action: mount}", "data.action", "mount"),
            ("code:", "code.max-files", 200_000),
            ("code: {code-omit: }", "code.code-omit", ()),
            ("run-reports: {precision: 0}", "run-reports.precision", 0),
            ("compute-targets: {a: {x: 0x, y: 1e3, z: 'true', w: true, v: -4}}", "compute-targets.a.z", "true"),
            ("compute-targets: {a: {x: 0x, y: 1e3, z: 'true', w: true, v: -4}}", "compute-targets.a.v", -4),
        ],
    )  # fmt: skip
    def test_are_typed(self, files: Files, written: str, key: str, value: object) -> None:
        found: object = files.write(written).tree
        for name in key.split("."):
            assert isinstance(found, dict)
            found = found[name]
        assert isinstance(found, Setting) and found.value == value and type(found.value) is type(value)

    def test_a_secret_stays_a_reference(self, files: Files) -> None:
        found = files.write(
            "general: {env-vars: {KEY: secret:WANDB}}\nexternal-services: {s: {type: t, key: 'secret:S'}}\n"
        ).config()
        key = found.general.env_vars["KEY"]
        assert isinstance(key, Reference) and key == "secret:WANDB" and key.name == "WANDB"
        assert isinstance(found.external_services["s"].settings["key"], Reference)
        assert json.dumps(key) == '"secret:WANDB"'


class TestTargets:
    """What ``--target`` takes, and what its provider is told."""

    def test_a_box_is_a_target(self, files: Files) -> None:
        found = files.write(
            "boxes:\n  here: {address: localhost, max-runs: 3}\n  there: {address: me@far, port: 2222}\n"
        ).config()
        assert found.targets["here"].max_runs == 3 and found.provider_of(found.targets["here"]) == "local"
        there = found.targets["there"]
        assert found.provider_of(there) == "ssh"
        assert found.settings_of(there) == {"address": "me@far", "os": "linux", "port": 2222}

    def test_a_new_type_is_never_refused(self, files: Files) -> None:
        written = (
            'external-services:\n  cloud: {type: myCloudCompute, account: "https://me@cloud/service", retries: 3}\n'
            "compute-targets:\n  cloud4x: {service: cloud, sku: G4, nodes: 1}\n"
            "providers:\n  compute: {myCloudCompute: extensions.my_cloud_compute.MyCloudCompute}\n"
        )
        assert files.problems(written)[0].startswith("config.yaml:6: no package 'extensions' for extensions.my_cloud")
        (files.folder / "extensions").mkdir()
        (files.folder / "extensions" / "my_cloud_compute.py").write_text("")
        assert files.problems(written) == []
        found = files.write(written).config()
        target = found.targets["cloud4x"]
        assert found.provider_of(target) == "myCloudCompute"
        assert found.settings_of(target) == {"account": "https://me@cloud/service", "retries": 3, "sku": "G4"}

    def test_a_provider_that_publishes_its_keys_has_them_checked(self, files: Files) -> None:
        @dataclass(frozen=True)
        class Keys:
            account: str
            retry_limit: Optional[int] = None  # noqa: UP045 - as a plugin for Python 3.9 writes it
            zones: list[str] = field(default_factory=list)

        found = files.write(
            "external-services:\n  s: {type: t, acount: me, retry-limit: 3}\n"
            "compute-targets:\n  a: {service: s, zones: north}\n  b: {service: s, account: me, retry-limit: ~}\n"
        )
        lines = [str(each).partition("config.yaml:")[2] for each in checking.check(found, {"t": Keys}.get)]
        assert lines == [
            "2: unknown key 'acount' in external-services.s; did you mean 'account'?",
            "4: compute-targets.a.zones: expected a list, found 'north'; "
            "write what its provider takes, see `turnout config schema`",
            "4: compute-targets.a: no 'account', which its provider needs; write `account: …`",
        ]  # fmt: skip

    def test_a_number_where_text_belongs_wants_quotes(self, files: Files) -> None:
        found = files.problems("compute-targets: {one: {service: slurm, account: 4711}}\n")
        assert found == [
            'config.yaml:1: compute-targets.one.account: expected text, found 4711; write it in quotes, "4711"'
        ]
        assert files.problems("boxes: {one: {address: ada, port: 2222}}\n") == []

    def test_who_starts_providers_refuses_what_they_do_not_know(self, files: Files) -> None:
        found = files.write("compute-targets: {one: {service: local, max-rnus: 1}}\n")
        with pytest.raises(InvalidInput, match="unknown key 'max-rnus' in compute-targets") as caught:
            checking.checked(found)
        assert "max-runs" in caught.value.hint


class TestProblems:
    """All at once, each with file, line, what it is, and what to write instead."""

    @pytest.mark.parametrize(
        ("written", "said"),
        [
            ("genral: {}", "1: unknown section 'genral'; did you mean 'general'?"),
            ("inclde: x", "1: unknown section 'inclde'; did you mean 'include'?"),
            ("general:\n  workspce: a", "2: unknown key 'workspce' in general; did you mean 'workspace'?"),
            ("general: {username: true}", '1: general.username: expected text, found true; write "t'),
            ("general: {workspace: [a]}", "1: general.workspace: expected a name of letters, digits"),
            ("general: {workspace: }", "1: general.workspace: expected a name of letters, digits"),
            ("general: 3", "1: general: expected names and values, found '3'; write `name: value` below it"),
            ("code: {max-files: 1.5}", "1: code.max-files: expected a whole number above zero, found '1.5'; write"),
            ("code: {max-files: '5'}", "1: code.max-files: expected a whole number above zero, found text in quotes"),
            ("code: {max-size: lots}", "1: code.max-size: expected a size in bytes above zero, or 500M, 4G, found"),
            ("hub: {lease: .nan}", "1: hub.lease: expected a number of seconds above zero"),
            ("hub: {lease: -1}", "1: hub.lease: expected a number of seconds above zero"),
            ("data: {action: mout}", "1: data.action: expected one of none, download, mount, found 'mout'"),
            ("general: {retry: often}", "1: general.retry: expected a whole number, or never, found 'often'"),
            ("data: {writable: perhaps}", "1: data.writable: expected true or false, found 'perhaps'"),
            ("data: {action: none, data-action: none}", "1: 'data-action' is another word for 'action'"),
            ("commands: {a: b}", "1: commands: expected a list, found names and values; write `[one, two]`"),
            ('commands:\n- echo\n- echo "x', "3: commands: expected a command line, its quotes closed, found 'echo"),
            ("commands: [{a: b}]", "1: commands: expected a command line, its quotes closed, found names and values"),
            ("after-files: {after-dirs: [../x]}", "1: after-files.after-dirs: expected a pattern of files below"),
            ("run-reports: {columns: [name, nope]}", "1: run-reports.columns: there is no column 'nope'"),
            ("job-reports: {sort: stat}", "1: job-reports.sort: there is no column 'stat'; did you mean state?"),
            ("compute-targets: {a: {max-rnus: 1}}", "1: unknown key 'max-rnus' in compute-targets.a; did you mean"),
            ("compute-targets: {a: {settings: 1}}", "1: unknown key 'settings' in compute-targets.a; known: alloc"),
            ("providers: {compute: {x: y}}", "1: providers.compute.x: expected a class as package.module.Class"),
            ("providers: {comopute: {}}", "1: unknown key 'comopute' in providers; did you mean 'compute'?"),
            ("general: {env-vars: {A: secret:no-name}}", "1: general.env-vars.A: expected text"),
            ("compute-targets: {a b: {}}", "1: compute-targets: target 'a b'"),
            ("compute-targets: {a: {service: nope}}", "1: compute-targets.a.service: no service or provider 'nope'; "),
            ("compute-targets: {a: {setup: x}}", "1: compute-targets.a.setup: no setup 'x'; there are none"),
            ("general: {target: lokal}", "1: general.target: no target or box 'lokal'; did you mean 'local'?"),
            ("xt-services: {storage: s}", "1: xt-services.storage: no external service 's'"),
            ("external-services: {s: {key: 1}}", "1: external-services.s: no 'type'; write"),
            ("boxes: {b: {max-runs: 1}}", "1: boxes.b: no 'address'; write `address: HOST`"),
            ("boxes: {local: {address: x}}", "1: boxes.local: there is a target of that name; give"),
            ("general:\n\ttarget: a", "2: a tab; indent with spaces"),
            ("\ncode:\n  max-files: 3\n  max-files: 4", "4: 'max-files' is there already, in line 3; keep one"),
            ("general: {target: 'a}", "2: found unexpected end of stream; close the quote"),
            ("general:\n  target: a: b", "2: mapping values are not allowed in this context; quote a value"),
            ("general: {target: @a}", "1: found character that cannot start any token; quote it"),
            ("general: &a {}", "1: an anchor, &a; write plain names"),
            ("general: {target: !!str a}", "1: a tag, tag:yaml.org,2002:str; write plain names"),
            ("a: 1\n---\nb: 1", "2: a second document; keep what is above"),
            ("- a", "1: expected sections, found a list; write"),
            ("[a]: b", "1: a list as a name; write `name: value`"),
            ("include: {}", "1: include: expected text"),
        ],
        ids=lambda text: text[:24],
    )  # fmt: skip
    def test_of_each_kind(self, files: Files, written: str, said: str) -> None:
        assert any(line.startswith(f"config.yaml:{said}") for line in files.problems(written + "\n")), files.problems(
            written
        )

    def test_all_of_them_in_order(self, files: Files) -> None:
        lines = files.problems("code: {max-files: x}\ngenral: {}\nhub: {leese: 1}\n", "data: {action: x}\n")
        assert [line.partition(": ")[0] for line in lines] == [
            "config.yaml:1", "config.yaml:2", "config.yaml:3", "turnout.yaml:1"
        ]  # fmt: skip

    def test_one_error_tells_them_all(self, files: Files) -> None:
        gathered = files.write("code: {max-files: x, max-size: y}\n")
        with pytest.raises(InvalidInput, match=r"max-files(.|\n)*max-size") as caught:
            gathered.config()
        assert "turnout config check" in caught.value.hint

    @pytest.mark.parametrize(
        "text", ["", "# only a comment\n", "general:\ncode: {}\n", "\ufeffgeneral: {}\n", TEMPLATE]
    )
    def test_nothing_is_wrong_with_little(self, files: Files, text: str) -> None:
        assert files.problems(text, text) == []

    def test_the_template_is_right_when_it_is_uncommented(self, files: Files) -> None:
        kept = [line for line in TEMPLATE.splitlines() if not line.startswith("# ") or line[2:3] in " dmscbr"]
        text = "\n".join(line.replace("# ", "", 1) for line in kept if "docs/" not in line and "own file" not in line)
        assert files.problems(text) == []
        assert files.write(text).config().commands == ("python train.py --lr 0.1", "python train.py --lr 0.01")


def test_an_empty_entry_that_needs_something(files: Files) -> None:
    assert files.problems("boxes:\n  big:\n") == [
        "config.yaml:2: boxes.big: there is nothing in it; write `address: HOST`"
    ]
    assert files.problems("external-services:\n  x: {}\n")[0].startswith("config.yaml:2: external-services.x: there")
    assert files.problems("compute-targets:\n  here:\n") == []


class TestVariables:
    """One that sets nothing is told: its name is wrong, or it is no variable's to set."""

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("TURNOUT_CODE_MAX_FILE", "no setting has this variable; did you mean TURNOUT_CODE_MAX_FILES?"),
            ("TURNOUT_TARGE", "no setting has this variable; did you mean TURNOUT_TARGET?"),
            ("TURNOUT_QQQQ", "no setting has this variable; unset it"),
            ("TURNOUT_GENERAL_ENV_VARS", "general.env-vars cannot be set by a variable; write it into turnout.yaml"),
            ("TURNOUT_SETUPS", "setups cannot be set by a variable; write it into turnout.yaml"),
        ],
    )
    def test_one_that_sets_nothing(self, files: Files, monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
        monkeypatch.setenv(name, "1")
        (line,) = files.problems()
        assert line.startswith(f"{name}: {said}")

    def test_those_that_are_for_others(self, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where turnout lives, secrets, and what a run finds around it: runs may call turnout."""
        for name in ("HOME", "DATABASE", "SECRET_KEY", "RUN_NAME", "JOB", "NODE", "SPOOL", "DATA_DIR", "OUTPUT_DIR"):
            monkeypatch.setenv(f"TURNOUT_{name}", "x")
        assert files.problems() == []


class TestWhateverIsWritten:
    """Reading settings never raises anything but what says where the mistake is."""

    VALUES = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
        max_leaves=20,
    )  # fmt: skip
    NAMES = st.sampled_from(["include", *ROOT.keys])

    @given(text=st.text(max_size=200) | st.text(alphabet="ab:-[]{}&*!|>'\"#%@\t\n ,?~0", max_size=60))
    def test_text(self, tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
        self._check(tmp_path_factory, text.encode("utf-8", "surrogatepass"))

    @settings(suppress_health_check=[HealthCheck.too_slow])  # what is drawn is large, and the machine may be busy
    @given(content=st.dictionaries(NAMES, VALUES | st.dictionaries(st.text(max_size=8), VALUES, max_size=3)))
    def test_structures(self, tmp_path_factory: pytest.TempPathFactory, content: dict[str, object]) -> None:
        self._check(tmp_path_factory, json.dumps(content).encode())

    @staticmethod
    def _check(folders: pytest.TempPathFactory, content: bytes) -> None:
        file = folders.getbasetemp() / "fuzzed.yaml"
        file.write_bytes(content)
        found = config.gather(file)
        for problem in checking.check(found):
            assert problem.where.rpartition(":")[2].isdigit() and problem.what and problem.instead
        if not found.problems:
            assert isinstance(found.config(), config.Config)

    def test_without_the_quick_parser(self, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
        assert files.write("\ngeneral:\n  workspace: a\n").config().general.workspace == "a"
        assert files.problems("\ngeneral:\n\tworkspace: a\n") == ["config.yaml:3: a tab; indent with spaces"]
        assert files.problems("a: &a [x]\nb: *a\n")[0].startswith("config.yaml:1: an anchor, &a")


class TestProjectFile:
    def test_is_found_upwards(self, tmp_path: Path) -> None:
        (tmp_path / "a" / "b").mkdir(parents=True)
        (tmp_path / "turnout.yaml").write_text("")
        assert config.find_project_file(tmp_path / "a" / "b") == tmp_path / "turnout.yaml"
        (tmp_path / "a" / "turnout.yaml").write_text("")
        assert config.find_project_file(tmp_path / "a" / "b") == tmp_path / "a" / "turnout.yaml"

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    def test_a_strangers_in_a_directory_for_all_is_not_taken(self, tmp_path: Path) -> None:
        shared = tmp_path / "shared"
        shared.mkdir()
        (shared / "turnout.yaml").write_text("")
        os.chown(shared / "turnout.yaml", 65534, 65534)
        assert config.find_project_file(shared) == shared / "turnout.yaml"
        shared.chmod(0o1777)
        assert config.find_project_file(shared) is None


class TestSchema:
    def test_knows_every_section_and_key(self) -> None:
        told = json.loads(json.dumps(schema.json_schema()))
        assert told["additionalProperties"] is False
        assert {"include", *ROOT.keys} == set(told["properties"])
        assert told["properties"]["data"]["properties"]["action"]["anyOf"][0]["enum"] == ["none", "download", "mount"]
        assert told["properties"]["compute-targets"]["additionalProperties"]["additionalProperties"] is True

    def test_every_key_is_explained(self) -> None:
        def lines(record: object = ROOT) -> Iterator[str]:
            for each in record.keys.values():  # type: ignore[attr-defined]
                yield each.doc
                inner = getattr(each.kind, "kind", each.kind)
                if hasattr(inner, "keys"):
                    yield from lines(inner)

        assert all(line.endswith(".") and "\n" not in line for line in lines())


class TestSecrets:
    @pytest.fixture
    def home(self, tmp_path: Path) -> Home:
        return Home(tmp_path / "home")

    def test_the_environment_then_the_file(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        secrets.store("KEY", "from the file", home)
        assert secrets.resolve("KEY", home) == secrets.resolve("secret:KEY", home) == "from the file"
        monkeypatch.setenv("TURNOUT_SECRET_KEY", "from here")
        assert secrets.resolve("KEY", home) == "from here"
        assert secrets.known(home) == [secrets.Known("KEY", "environment")]

    def test_only_you_can_read_the_file(self, home: Home) -> None:
        secrets.store("KEY", "x", home)
        path = Path(secrets.secrets_file(home))
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o640)
        with pytest.raises(InvalidInput, match="others can read") as caught:
            secrets.resolve("KEY", home)
        assert "chmod 600" in caught.value.hint

    def test_one_that_is_nowhere_says_where_it_was_looked_for(self, home: Home) -> None:
        with pytest.raises(NotFound, match=r"TURNOUT_SECRET_KEY.*secrets\.json.*keyring") as caught:
            secrets.resolve("KEY", home)
        assert "turnout secret set KEY" in caught.value.hint

    def test_a_keyring_that_does_not_answer_has_nothing(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        """As on a server where nobody is logged in. What is known to be in it is another matter."""
        monkeypatch.setattr(keyring.core, "_keyring_backend", keyring.backends.fail.Keyring())  # type: ignore[no-untyped-call]
        with pytest.raises(NotFound):
            secrets.resolve("KEY", home)
        monkeypatch.setattr(keyring.core, "_keyring_backend", keyring.backends.null.Keyring())  # type: ignore[no-untyped-call]
        secrets.store("KEY", "in the ring", home, in_keyring=True)
        monkeypatch.setattr(keyring.core, "_keyring_backend", keyring.backends.fail.Keyring())  # type: ignore[no-untyped-call]
        with pytest.raises(Unavailable, match="does not answer"):
            secrets.resolve("KEY", home)

    def test_removing(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        secrets.store("KEY", "x", home)
        assert secrets.remove("KEY", home) == secrets.Known("KEY", "file")
        monkeypatch.setenv("TURNOUT_SECRET_KEY", "x")
        with pytest.raises(NotFound) as caught:
            secrets.remove("KEY", home)
        assert "unset TURNOUT_SECRET_KEY" in caught.value.hint

    @pytest.mark.parametrize("name", ["", "a-b", "../x", "1a", "a" * 101, "a\n"])
    def test_names_that_cannot_be(self, home: Home, name: str) -> None:
        with pytest.raises(InvalidInput, match="no name of a secret"):
            secrets.store(name, "x", home)

    @pytest.mark.parametrize("value", ["", "a\0b", "x" * 70_000])
    def test_values_that_cannot_be(self, home: Home, value: str) -> None:
        with pytest.raises(InvalidInput, match="empty or too long"):
            secrets.store("KEY", value, home)

    @pytest.mark.parametrize("text", ["", "[]", '{"A": 1}', "{"])
    def test_a_file_that_is_none(self, home: Home, text: str) -> None:
        secrets.store("KEY", "x", home)
        Path(secrets.secrets_file(home)).write_text(text)
        with pytest.raises(InvalidInput, match=r"secrets\.json"):
            secrets.resolve("KEY", home)
