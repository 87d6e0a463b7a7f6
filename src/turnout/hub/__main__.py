"""``python -m turnout.hub``. What it imports stays to the end: there is no garbage in that to look for meanwhile."""

import gc

gc.disable()

from turnout.hub.main import main  # noqa: E402

gc.freeze()
gc.enable()
main()
