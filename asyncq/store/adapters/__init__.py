"""Connections of SQLAlchemy and psycopg that callers give: they run the store's statements, as asyncpg's do."""
