"""What tests of turnout, and of what plugs into it, may build on: a clock that waits for nobody, a simulator, and the
conformance kits of compute providers, calculation backends, samplers, stoppers, TrainingServices and job types."""

from turnout.testing.backends import BackendContract as BackendContract
from turnout.testing.contract import Lab as Lab
from turnout.testing.contract import ProviderContract as ProviderContract
from turnout.testing.job_types import JobTypeContract as JobTypeContract
from turnout.testing.sampling import SamplerContract as SamplerContract
from turnout.testing.stopping import StopperContract as StopperContract
from turnout.testing.training import TrainingServiceContract as TrainingServiceContract
