"""The database: the only code that imports asyncpg and reads sql/."""
