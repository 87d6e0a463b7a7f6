"""NNI: a class that is its `TrainingService` is a compute provider here, and any target can be driven through that
interface (`TrainingService.on`)."""

from turnout.compat.nni.emitter import EventEmitter
from turnout.compat.nni.errors import NNIError, NotFound
from turnout.compat.nni.machines import RemoteMachineMeta
from turnout.compat.nni.service import TrainingService
from turnout.compat.nni.trials import (
    HyperParameters,
    JobApplicationForm,
    TrialJobApplicationForm,
    TrialJobDetail,
    TrialJobMetric,
    TrialJobStatus,
)

__all__ = [
    "EventEmitter", "HyperParameters", "JobApplicationForm", "NNIError", "NotFound", "RemoteMachineMeta",
    "TrainingService", "TrialJobApplicationForm", "TrialJobDetail", "TrialJobMetric", "TrialJobStatus",
]  # fmt: skip
