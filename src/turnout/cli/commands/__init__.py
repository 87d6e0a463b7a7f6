"""The commands and their options; what each does is in the modules beside this package.

A module is loaded when one of its commands is called (or all are listed): starting must stay quick however many there
are.
"""

#: Which module declares which command, by its name there with dashes for underscores.
WHERE = {
    "run": "running",
    "exec": "executing",
    "status": "looking",
    "open": "looking",
    "attach": "looking",
    "logs": "looking",
    "events": "looking",
    "metrics": "looking",
    "show": "looking",
    "why": "looking",
    "list": "listing",
    "set": "tagging",
    "clear": "tagging",
    "cancel": "steering",
    "release": "steering",
    "extract": "steering",
    "upload": "sharing",
    "download": "sharing",
    "delete": "deleting",
    "export": "keeping",
    "import": "keeping",
    "gc": "keeping",
    "rerun": "again",
    "restart": "again",
    "uninstall": "keeping",
    "plot": "plotting",
    "config": "settings",
    "secret": "settings",
    "box": "boxes",
    "ssh": "boxes",
    "provider": "providing",
    "doctor": "hub",
    "hub": "hub",
    "help": "helping",
    "completion": "helping",
}
