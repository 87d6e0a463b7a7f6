"""``from xtlib.run import Run``: what a script does through XT's `Run`, it does as a run of turnout.

turnout has to be installed where the script runs; nodes that have only what a run finds there (``import turnout``) do
not have this.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import turnout
from turnout.compat.xt import checkpoints, drawing, sharing, telling

__all__ = ["Run"]


class Run:
    """Outside a run, the same calls check what they are given and drop it.

    `xt_logging` False: parameters, metrics and events are dropped. `checkpoints_enabled` False: there are none. The
    other arguments tell XT where to log to; they are taken, kept as attributes, and mean nothing. No files for
    TensorBoard are written, whatever `tensorboard_path` (or `tb_path`) says.
    """

    def __init__(
        self,
        config: Any = None,
        store: Any = None,
        xt_logging: bool = True,
        aml_logging: bool = True,
        checkpoints_enabled: bool = True,
        tensorboard_path: str | None = None,
        supress_normal_output: bool = False,
        *,
        tb_path: str | None = None,
    ) -> None:
        self.config = config
        self.store = store
        self.aml_logging = aml_logging
        self.checkpoints_enabled = checkpoints_enabled
        self.tensorboard_path = tensorboard_path or tb_path
        self.supress_normal_output = supress_normal_output
        self.ws_name = os.environ.get("TURNOUT_WORKSPACE")
        self.exper_name = os.environ.get("TURNOUT_EXPERIMENT")
        self.run_name = os.environ.get("TURNOUT_RUN_NAME")
        self.resume_name = self.run_name if turnout.is_restart() else None
        self.xt_logging = xt_logging
        self._submitted = turnout.params()
        self._draws = 0

    # --- what it tells ------------------------------------------------------------------------------------------------

    def log_hparam(self, name: str, value: object) -> None:
        self.log_hparams({name: value})

    def log_hparams(self, data_dict: Mapping[str, object]) -> None:
        """They are the run's parameters; a later value of a name replaces an earlier one."""
        if self.xt_logging:
            turnout.params(data_dict)

    def log_metric(self, name: str, value: object, step_name: str | None = None, stage: str | None = None) -> None:
        self.log_metrics({name: value}, step_name, stage)

    def log_metrics(
        self, data_dict: Mapping[str, Any], step_name: str | None = None, stage: str | None = None
    ) -> None:  # fmt: skip
        """`step_name` is the metric that counts the steps; `stage` and a dash go in front of the others' names. Without
        it, or where it is not a whole number, the values of each metric are numbered as they come."""
        prefix = f"{stage}-" if stage else ""
        metrics = {name if name == step_name else f"{prefix}{name}": value for name, value in data_dict.items()}
        if self.xt_logging:
            turnout.log(metrics, step=telling.whole(data_dict.get(step_name) if step_name else None))

    def log_event(self, event_name: str, data_dict: Mapping[str, object]) -> None:
        """One line of JSON in ``xt-events.jsonl`` of the output directory, which is kept with the run: ``time``,
        ``event``, ``data``. TypeError for what JSON cannot hold."""
        if self.xt_logging and self.run_name is not None:
            telling.note(event_name, data_dict)

    def tag_run(self, tag_dict: Mapping[str, object]) -> None:
        """None as a value: a tag without one."""
        turnout.tag({name: "" if value is None else value for name, value in tag_dict.items()})

    def tag_job(self, tag_dict: Mapping[str, object]) -> None:
        """A run cannot change its job: the tags are set on the run, and stderr tells how to set them on the job."""
        self.tag_run(tag_dict)
        telling.say_how_to_tag_the_job(tag_dict)

    # --- how it goes on after a restart -------------------------------------------------------------------------------

    def is_resuming(self) -> bool:
        """Whether an earlier attempt of this run was begun."""
        return turnout.is_restart()

    def set_checkpoint(self, dict_cp: Mapping[str, object], fn_cp: str | None = None) -> bool:
        """Keeps the dictionary, and a copy of the file, for later attempts of this run. They replace those of an
        earlier checkpoint in one step: who is killed in the middle of this finds the earlier one. Without a file, that
        of the earlier one stays. False where nothing is kept."""
        if not self._has_checkpoints:
            return False
        checkpoints.put(dict_cp, fn_cp)
        self.log_event("set_checkpoint", dict_cp)
        return True

    def get_checkpoint(self, fn_cp_dest: str | None = None) -> dict[str, Any] | None:
        """The dictionary that was set last, by this attempt or an earlier one; None = there is none. Its file is copied
        to `fn_cp_dest`."""
        found = checkpoints.get(fn_cp_dest) if self._has_checkpoints else None
        if found is not None:
            self.log_event("get_checkpoint", found)
        return found

    def clear_checkpoint(self) -> bool:
        if not self._has_checkpoints:
            return False
        checkpoints.clear()
        self.log_event("clear_checkpoint", {})
        return True

    @property
    def _has_checkpoints(self) -> bool:
        return self.checkpoints_enabled and self.run_name is not None

    # --- what it is given ---------------------------------------------------------------------------------------------

    def get_next_hp_set_in_search(
        self, hp_space_dict: Mapping[str, Any], search_type: str | None = None, hparam_search: object = None
    ) -> dict[str, Any]:
        """A value for each parameter of the space, as XT's HP files write it: those that the search gave to this run;
        another is drawn at random, the same again after a restart. InvalidInput names what is wrong with the space.
        `search_type` belongs to the search that made this run, and means nothing here."""
        self._draws += 1
        seed = f"{os.environ.get('TURNOUT_JOB')}/{self.run_name}/{self._draws}" if self.run_name else None
        drawn = drawing.draw_set(hp_space_dict, seed)
        chosen = {name: self._submitted.get(name, value) for name, value in drawn.items()}
        self.log_hparams({name: value for name, value in chosen.items() if name not in self._submitted})
        return chosen

    def upload_files_to_share(
        self, share: str, store_path: str, local_path: str, show_feedback: bool = True
    ) -> dict[str, Any]:
        """InvalidInput inside a run, which has no way to a share; elsewhere as ``turnout upload``."""
        return sharing.upload(share, store_path, local_path)

    def download_files_from_share(
        self, share: str, store_path: str, local_path: str, show_feedback: bool = True, snapshot: bool = True
    ) -> dict[str, Any]:
        """InvalidInput inside a run, which has no way to a share; elsewhere as ``turnout download``."""
        return sharing.download(share, store_path, local_path)

    def get_store(self) -> Any:
        """What the constructor was given as `store`: there is none of XT's here."""
        return self.store

    def close(self) -> None:
        """Nothing is left to do."""
