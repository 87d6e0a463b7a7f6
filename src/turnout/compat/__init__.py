"""Other tools' interfaces: their code works here as it is, and ours through theirs. Their words live only here."""
