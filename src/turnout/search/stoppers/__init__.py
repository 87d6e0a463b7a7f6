"""Who ends runs early: the stoppers that turnout brings along."""
