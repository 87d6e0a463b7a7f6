"""TrialKeeper: a run whose command is started on a platform that nobody here controls, and wrapped there.

`keeping` is the wrapper, behind ``turnout trialkeeper``: to the hub it is an agent with one run. A target of the
service ``trialkeeper`` is where runs wait for one (`waiting`). What NNI's own keeper says is understood in `saying`.
"""
