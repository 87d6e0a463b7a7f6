"""Settings: built-in defaults < the user's file < the project's < the environment < the command line, key by key.

``settings_at(directory)`` gives them typed; ``gather`` also tells where each is from.
"""

from turnout.config.layers import PROJECT_FILE, Gathered, Options, find_project_file, gather, load, settings_at
from turnout.config.reference import Reference
from turnout.config.sections import (
    AfterFiles,
    BoxSettings,
    Code,
    Config,
    Data,
    General,
    JobReports,
    Model,
    RunReports,
    SetupSettings,
    TargetSettings,
)

__all__ = [
    "PROJECT_FILE",
    "AfterFiles",
    "BoxSettings",
    "Code",
    "Config",
    "Data",
    "Gathered",
    "General",
    "JobReports",
    "Model",
    "Options",
    "Reference",
    "RunReports",
    "SetupSettings",
    "TargetSettings",
    "find_project_file",
    "gather",
    "load",
    "settings_at",
]
