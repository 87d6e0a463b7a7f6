"""Who proposes parameters: the samplers that turnout brings along."""
