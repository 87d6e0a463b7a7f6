"""NNI's TrainingService: the class that knows one platform, and starts, watches and ends trials there."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from turnout.compat.nni.spelling import camel, snake
from turnout.compat.nni.trials import JobApplicationForm, TrialJobDetail, TrialJobMetric
from turnout.wire.nni import OBJECTIVE

if TYPE_CHECKING:
    import turnout

MetricListener = Callable[[TrialJobMetric], Any]

#: Its members, in the order of NNI's document. The one that is no method is a property there.
MEMBERS = (
    "list_trial_jobs", "get_trial_job", "add_trial_job_metric_listener", "remove_trial_job_metric_listener",
    "submit_trial_job", "update_trial_job", "is_multi_phase_job_supported", "cancel_trial_job",
    "set_cluster_metadata", "get_cluster_metadata", "clean_up", "run",
)  # fmt: skip
#: Those that nothing here depends on: a class that does not inherit them need not have them.
_OPTIONAL = ("is_multi_phase_job_supported", "get_cluster_metadata")
REQUIRED = tuple(name for name in MEMBERS if name not in _OPTIONAL)


class TrainingService(ABC):
    """Inherit it and write its twelve members for your platform: under the names here, or as NNI's document spells them
    (``submitTrialJob``), each as a coroutine or as a plain method. Both spellings can be called then.

    Whoever drives it calls `set_cluster_metadata` and `add_trial_job_metric_listener`, then `run`, then whatever comes,
    and `clean_up` in the end. An instance is driven by one thread; only a plain `run` has a thread of its own.
    """

    starts_by_form: ClassVar[bool] = False
    """Whether it starts a trial by what its form says (`command`, `code_directory`). Else ``trial_config`` is set anew
    before each submit, and the next trial comes when that one has left WAITING."""

    @abstractmethod
    async def list_trial_jobs(self) -> list[TrialJobDetail]:
        """All trials this instance knows, those that are over as well."""

    @abstractmethod
    async def get_trial_job(self, trial_job_id: str) -> TrialJobDetail:
        """How that trial is now. NotFound for an id that it never gave."""

    @abstractmethod
    def add_trial_job_metric_listener(self, listener: MetricListener) -> None:
        """`listener` is called with a TrialJobMetric for each that a trial tells from now on."""

    @abstractmethod
    def remove_trial_job_metric_listener(self, listener: MetricListener) -> None:
        """It is not called any more."""

    @abstractmethod
    async def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        """Starts a trial, or puts it into a queue of its own, and returns with its id."""

    @abstractmethod
    async def update_trial_job(self, trial_job_id: str, form: JobApplicationForm) -> TrialJobDetail:
        """Finds out how the trial is. (NNI's own code calls it with further parameters of a trial that takes several:
        where `form` has the `index` that the trial has already, there is nothing new in it.)"""

    @property
    @abstractmethod
    def is_multi_phase_job_supported(self) -> bool:
        """Whether one trial may get several sets of parameters, one after the other."""

    @abstractmethod
    async def cancel_trial_job(self, trial_job_id: str, is_early_stopped: bool = False) -> None:
        """Ends that trial: as EARLY_STOPPED, or as USER_CANCELED. One that is over stays as it is. NotFound."""

    @abstractmethod
    async def set_cluster_metadata(self, key: str, value: str) -> None:
        """Something that has to be known of the platform, or of all trials; `value` is mostly JSON."""

    @abstractmethod
    async def get_cluster_metadata(self, key: str) -> str:
        """What was set; it may be "" where nobody needs it."""

    @abstractmethod
    async def clean_up(self) -> None:
        """No trial will come any more: what is left of it on the platform goes. `run` returns."""

    @abstractmethod
    async def run(self) -> None:
        """The main loop, until `clean_up`. A service that needs none returns at once."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        for name in MEMBERS:
            member = own_member(cls, name)
            for spelling in (name, camel(name)):
                is_other = inspect.getattr_static(cls, spelling, None) is not member
                if member is not None and is_other and spelling not in vars(cls):
                    setattr(cls, spelling, member)

    @staticmethod
    def on(
        target: str, *, command: str = "", code_directory: str = ".", metric: str = OBJECTIVE,
        experiment: str | None = None, accept: Callable[[Any], bool] | None = None,
        ssh_options: Sequence[str] = (), client: turnout.Client | None = None, **wishes: Any,
    ) -> TrainingService:  # fmt: skip
        """A target of turnout, driven through this interface: each trial is a run there.

        `command`, a line for bash, is executed in a copy of `code_directory` as it is at the submit; cluster metadata
        ``trial_config`` can say both as well. The run's metric of the name `metric` is what NNI calls ``default``. A
        second instance with the same `experiment` knows the trials of the first. `accept` is asked whether to believe
        the key of a machine of ``machine_list`` that nobody knows; without it none is. `ssh_options` are further
        arguments of ssh for those. `wishes` are further arguments of `turnout.Client.submit_command`.
        """
        from turnout.compat.nni.on_target import Asked, TargetService

        asked = Asked(target, command, code_directory, metric, experiment, accept, wishes, tuple(ssh_options))
        return TargetService(asked, client)


def lacking(found: Any) -> list[str]:
    """The members that a class has to have, and has in neither spelling, or only as the abstract class itself has
    them."""
    is_ours = isinstance(found, type) and issubclass(found, TrainingService)
    return [spelled(found, name) for name in (MEMBERS if is_ours else REQUIRED) if own_member(found, name) is None]


def own_member(found: Any, name: str) -> Any:
    """What a class has under that name in either spelling: the first that is not the abstract one; None."""
    for each in inspect.getmro(found) if isinstance(found, type) else ():
        for spelling in (name, camel(name)):
            if each is not TrainingService and spelling in vars(each):
                return vars(each)[spelling]
    return None


def spelled(found: Any, name: str) -> str:
    """The name as who wrote this class spells such names."""
    own = ((each, own_member(found, each)) for each in MEMBERS)
    is_camel = any(getattr(member, "__name__", "") == camel(each) != each for each, member in own)
    return camel(name) if is_camel else name


def member_of(service: object, name: str) -> Any:
    """A method of a service, or the value of its property, under whichever spelling it has it. AttributeError."""
    return getattr(service, name) if hasattr(type(service), name) else getattr(service, camel(name))


async def ask(service: object, name: str, *given: Any) -> Any:
    """What a member of a service answers, whether it is spelled this way or that, a coroutine or not. Of `given` it
    gets as many as it takes: one that knows of no early stop still cancels."""
    member = member_of(service, name)
    answer = member
    if callable(member):
        by_place, by_name = _arguments(member, dict(zip(_names(name), given, strict=False)))
        answer = member(*by_place, **by_name)
    return await answer if inspect.isawaitable(answer) else answer


def raised(service: object, name: str, error: BaseException) -> str:
    """What people are told of an error of that member."""
    return f"{spelled(type(service), name)} raised {type(error).__name__}: {error}".rstrip(": ")


@functools.cache
def _names(name: str) -> tuple[str, ...]:
    """Of the arguments of that member."""
    member = inspect.getattr_static(TrainingService, name)
    return () if isinstance(member, property) else tuple(inspect.signature(member).parameters)[1:]


def _arguments(method: Callable[..., Any], given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Those that it takes by name only, in either spelling, and the others, in their order."""
    try:
        known = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return list(given.values()), {}
    only = {snake(each.name): each.name for each in known if each.kind is each.KEYWORD_ONLY}
    by_place = [value for name, value in given.items() if name not in only]
    if not any(each.kind is each.VAR_POSITIONAL for each in known):
        by_place = by_place[: sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in known)]
    return by_place, {only[name]: value for name, value in given.items() if name in only}
