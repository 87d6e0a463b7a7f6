"""Hub, agents, commands and people in one process, on one virtual clock, with everything going wrong that can."""
