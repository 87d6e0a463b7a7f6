"""The container of a job, as the command line and the settings have it."""

from __future__ import annotations

from turnout.config.containers import DockerSettings
from turnout.errors import InvalidInput
from turnout.model.container import Container
from turnout.model.setup import Setup

NONE = "none"


def specify(
    asked: str | None, setup: Setup | None, of_setup: DockerSettings | None, of_target: DockerSettings | None
) -> Container | None:
    """The image that was `asked` for (``none``: no container), with what else the setup says, or else the target.
    InvalidInput where no image is named, or the setup installs packages: those are of the node, not of the image."""
    given = of_setup or of_target or DockerSettings()
    if asked == NONE or (asked is None and given == DockerSettings()):
        return None
    image = asked or given.image
    if not image:
        raise InvalidInput("docker: no image is named", hint="write `image: NAME` below `docker:`, or --docker NAME")
    if setup is not None and setup.needs_environment:
        what = f"setup {setup.name} installs packages, and its runs are in a container"
        raise InvalidInput(what, hint="put the packages into the image, or write --docker none")
    return Container(image=image, options=given.options, program=given.program, pull=given.pull, network=given.network)
