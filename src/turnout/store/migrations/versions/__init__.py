"""One file per version of the schema, oldest first."""
