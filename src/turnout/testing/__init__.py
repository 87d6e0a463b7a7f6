"""What tests of turnout, and of what plugs into it, may build on: a clock that waits for nobody, a simulator, and the
conformance kits of compute providers and of calculation backends."""

from turnout.testing.backends import BackendContract as BackendContract
from turnout.testing.contract import Lab as Lab
from turnout.testing.contract import ProviderContract as ProviderContract
