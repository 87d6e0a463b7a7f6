"""A tuner of NNI as a sampler: an instance of any class with its methods.

NNI gives each request for parameters an id of its own. A tuner that has nothing to give may have it later: it is asked
again when it was told more, and there is nothing left when no trial goes on any more. It may also hand out parameters
by itself, for a request that it could not answer before.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from turnout.compat.nni.calling import call, make, overrides
from turnout.compat.nni.spaces import to_nni
from turnout.plugin.sampler import BadOption, Exhausted, Outcome, Proposal, Result, Sampler, Task
from turnout.wire.nni import OBJECTIVE

#: What a class has to have.
METHODS = ("update_search_space", "receive_trial_result")
_GENERATE, _GENERATE_MANY = "generate_parameters", "generate_multiple_parameters"


def lacking(found: object) -> list[str]:
    """The methods that a class lacks to be a tuner."""
    missing = [name for name in METHODS if not callable(getattr(found, name, None))]
    is_able = callable(getattr(found, _GENERATE, None)) or callable(getattr(found, _GENERATE_MANY, None))
    return missing if is_able else [*missing, _GENERATE]


def tuner_sampler(found: Callable[..., Any], task: Task) -> TunerSampler:
    """A sampler around an instance of this class, which is made with the task's options. ``optimize_mode`` and ``seed``
    are the search's, where they are not among them and the class takes them. BadOption."""
    also: dict[str, object] = {"seed": task.seed}
    if task.objectives:
        also["optimize_mode"] = task.objectives[0].goal.value
    return TunerSampler(task, make(found, task.options, also))


class TunerSampler(Sampler):
    """`tuner` is new: it was told nothing.

    What an earlier instance proposed, it learns by `import_data`, if it has one of its own. Another is asked again for
    what it then proposed, and told the results; so that one that does the same each time is as it was. Results of
    runs that were stopped, failed or cancelled are none, as in NNI: it only hears that they ended."""

    name = "nni"

    def __init__(self, task: Task, tuner: Any) -> None:
        super().__init__(task)
        missing = lacking(tuner)
        if missing:
            raise BadOption(f"{type(tuner).__name__} is no tuner: it has no {', '.join(missing)}")
        self._tuner = tuner
        self._imports = overrides(tuner, "import_data")
        self._next_id = 0
        self._ids: dict[int, int] = {}
        """the runs that go on, and what the tuner calls them"""
        self._made: dict[int, Proposal] = {}
        """what this instance proposed for them"""
        self._ready: deque[tuple[int, Any]] = deque()
        """what it handed out by itself"""
        self._earlier: dict[int, tuple[Proposal, Result | None]] = {}
        """the runs before this instance was asked for the first time"""
        self._foreign: list[Result] = []
        """what was brought in from elsewhere until then"""
        self._adopted: dict[str, list[int]] = {}
        """parameters of runs that go on, or that came to nothing, which it may propose again; 0 = the run is over"""
        self._is_asked = False
        tuner.update_search_space(to_nni(task.space))

    # --- the contract -------------------------------------------------------------------------------------------------

    def ask(self, index: int) -> Proposal | None:
        if index in self._made:
            return self._made[index]
        self._catch_up()
        while True:
            made = self._generate()
            if made is None:
                if not self._ids and not any(any(runs) for runs in self._adopted.values()):
                    raise Exhausted
                return None
            number, params = made
            if not self._is_of_earlier(number, params):
                self._ids[index] = number
                self._made[index] = Proposal(params)
                return self._made[index]

    def tell(self, result: Result) -> None:
        self._made.pop(result.index or 0, None)
        if result.index is not None and result.index in self._ids:
            self._receive(self._ids.pop(result.index), result)
        elif not self._is_asked and result.index is not None:
            self._earlier[result.index] = (result.proposal, result)
        elif not self._is_asked:
            self._foreign.append(result)
        else:
            self._forget(result)
            self._import([result])

    def adopt(self, index: int, proposal: Proposal) -> None:
        self._earlier[index] = (proposal, None)

    # --- what there was before ----------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        if self._is_asked:
            return
        self._is_asked = True
        earlier, self._earlier = sorted(self._earlier.items()), {}
        self._import([*self._foreign, *(result for _, (_, result) in earlier if result is not None)])
        for index, (proposal, result) in earlier:
            if not self._imports:
                self._replay(index, result)
            elif result is None or not _counts(result):
                self._adopted.setdefault(_text(proposal.params), []).append(0 if result else index)

    def _replay(self, index: int, result: Result | None) -> None:
        made = self._generate()
        if made is not None and result is not None:
            self._receive(made[0], result)
        elif made is not None:
            self._ids[index] = made[0]

    def _is_of_earlier(self, number: int, params: dict[str, Any]) -> bool:
        """Whether a run of an earlier instance has these parameters; it is known by that number from now on."""
        runs = self._adopted.get(_text(params))
        if not runs:
            return False
        index = runs.pop()
        if index:
            self._ids[index] = number
        else:
            self._end(number, success=False)
        return True

    def _forget(self, result: Result) -> None:
        """A run of an earlier instance is over, before the tuner proposed the same again. What counts is imported, and
        who imports knows it; what does not may still be proposed, and is not tried again."""
        runs = self._adopted.get(_text(result.proposal.params), [])
        if result.index in runs:
            runs.remove(result.index)
            if not _counts(result):
                runs.append(0)

    def _import(self, results: list[Result]) -> None:
        told = [{"parameter": dict(each.proposal.params), "value": _value(self.task, each)} for each in results
                if _counts(each)]  # fmt: skip
        if told and self._imports:
            self._tuner.import_data(told)

    # --- what the tuner is asked and told -----------------------------------------------------------------------------

    def _generate(self) -> tuple[int, dict[str, Any]] | None:
        if not self._ready:
            number, self._next_id = self._next_id, self._next_id + 1
            many = getattr(self._tuner, _GENERATE_MANY, None)
            try:
                if many is not None:
                    found = list(call(many, [number], st_callback=self._hand_out))
                else:
                    found = [self._tuner.generate_parameters(number)]
            except Exception as error:
                if type(error).__name__ != "NoMoreTrialError":  # of NNI, which need not be installed
                    raise
                found = []
            if found:
                return number, _plain(found[0])
        return self._ready.popleft() if self._ready else None

    def _hand_out(self, number: int, params: Any) -> None:
        self._ready.append((number, _plain(params)))

    def _receive(self, number: int, result: Result) -> None:
        if _counts(result):
            value = _value(self.task, result)
            receive = self._tuner.receive_trial_result
            call(receive, number, dict(result.proposal.params), value, customized=False, trial_job_id=str(result.index))
        self._end(number, success=result.outcome is Outcome.COMPLETED)

    def _end(self, number: int, *, success: bool) -> None:
        end = getattr(self._tuner, "trial_end", None)
        if end is not None:
            end(number, success)


def _counts(result: Result) -> bool:
    return result.outcome is Outcome.COMPLETED and result.is_measured


def _value(task: Task, result: Result) -> Any:
    """A number; of several objectives, all of them, the first as the default."""
    if len(result.values) == 1:
        return result.values[0]
    named = {each.metric: value for each, value in zip(task.objectives, result.values, strict=True)}
    return {**named, OBJECTIVE: result.values[0]}


def _plain(params: Any) -> dict[str, Any]:
    """As JSON can hold them: numpy's numbers are numbers."""
    found = json.loads(json.dumps(params, default=_number))
    if not isinstance(found, dict):
        raise TypeError(f"a tuner proposed {found!r}, which is no mapping of parameters")
    return found


def _number(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} {value!r} cannot be a parameter")


def _text(params: Any) -> str:
    return json.dumps(params, sort_keys=True)
