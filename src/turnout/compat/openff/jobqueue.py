"""Dask's workers as jobs of a scheduler, by `dask_jobqueue`."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from turnout.futures.dask import Dask
from turnout.futures.engine import Needs
from turnout.futures.errors import MissingExtra

try:
    import dask
    import dask_jobqueue
    import distributed
except ImportError as error:
    raise MissingExtra("dask-jobqueue", "dask") from error

#: So short a time each task shall take that there is a worker for each.
_DURATION = "1ns"
_SIDES = ("scheduler", "worker", "client")


def job_script(cluster: str, asked: dict[str, Any]) -> str:
    """What a worker's job would be, without a scheduler of Dask's."""
    job = getattr(dask_jobqueue, cluster).job_cls
    script: str = job("tls://SCHEDULER:8786", name="worker", **_with_settings(job, asked)).job_script()
    return script


class Jobs(Dask):
    """Between so many and so many workers (`range`, and how often to look), in clusters of this name. They talk over
    TLS with a key of their own, which lies in the directory of this process as long as they are there."""

    range: tuple[int, int, str] = 1, 1, "10000ms"

    def __init__(self, needs: Needs, cluster: str, asked: dict[str, Any], adaptive: type[Any] | None) -> None:
        super().__init__(needs)
        self._kind = getattr(dask_jobqueue, cluster)
        self._asked = _with_settings(self._kind.job_cls, asked)
        self._adaptive = {} if adaptive is None else {"Adaptive": adaptive}

    def connect(self) -> Any:
        with contextlib.ExitStack() as undo:
            folder = tempfile.mkdtemp(prefix=".turnout-dask-", dir=os.getcwd())
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            settings = dask.config.get(f"jobqueue.{self._kind.job_cls.config_name}.scheduler-options", None) or {}
            options = {"dashboard": False, "dashboard_address": "127.0.0.1:0", **settings}
            self._cluster = self._kind(**self._asked, security=_keys(Path(folder)), scheduler_options=options)
            undo.callback(self._cluster.close)
            client = distributed.Client(self._cluster, set_as_default=False)
            client.register_plugin(Finding([each or os.getcwd() for each in sys.path]), name="turnout")
            self._adapt()
            self._undo = undo.pop_all()
            return client

    def disconnect(self) -> None:
        self._undo.close()

    def scale(self, workers: int) -> None:
        self.range = workers, workers, self.range[2]
        self._adapt()

    def script(self) -> str:
        """What a worker's job is."""
        script: str = self._cluster.job_script()
        return script

    def _adapt(self) -> None:
        least, most, interval = self.range
        self._cluster.adapt(minimum=least, maximum=most, interval=interval, target_duration=_DURATION, **self._adaptive)


class Finding(distributed.WorkerPlugin):  # type: ignore[misc]
    """Workers find the modules that we find: they see the same files."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def setup(self, worker: Any) -> None:
        sys.path += [each for each in self._paths if each not in sys.path]


def _keys(folder: Path) -> Any:
    """New ones, in files that only this user can read: the script of a job names them."""
    made = distributed.Security.temporary()
    files = {}
    for name, text in (("ca", made.tls_ca_file), ("cert", made.tls_worker_cert), ("key", made.tls_worker_key)):
        files[name] = folder / f"{name}.pem"
        files[name].touch(0o600)
        files[name].write_text(text)
    sides = {f"tls_{side}_{what}": str(files[what]) for side in _SIDES for what in ("cert", "key")}
    return distributed.Security(require_encryption=True, tls_ca_file=str(files["ca"]), **sides)


def _with_settings(job: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """What a user has in settings of Dask's comes before what is asked for; the settings stay what they are."""
    both = dict(asked)
    for name in ("job_script_prologue", "job_extra_directives"):
        known = dask.config.get(f"jobqueue.{job.config_name}.{name.replace('_', '-')}", None) or []
        both[name] = [*known, *asked[name]]
    return both
