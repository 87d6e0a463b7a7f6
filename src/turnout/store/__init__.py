"""The only SQL. SQLite by default, PostgreSQL by URL; the same tables and statements on both."""
