"""What tests of turnout, and of what plugs into it, may build on: a clock that waits for nobody, a simulator, and the
conformance kit of compute providers."""

from turnout.testing.contract import Lab as Lab
from turnout.testing.contract import ProviderContract as ProviderContract
