"""The database: the only code that imports asyncpg and reads sql/.

A function that sends a statement raises a StoreError as `failures.calling` says, or `failures.connecting` for a
connection that it opens; its docstring names what it raises besides.
"""
