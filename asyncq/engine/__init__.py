"""The running worker: the only code that starts tasks.

A function that sends a statement raises a StoreError if the database cannot be used; its docstring names what it
raises besides.
"""
