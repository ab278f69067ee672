"""Values of types that have a schema of pydantic: pydantic writes, validates and reads them.

The program that has such a type has imported pydantic. It is found in `sys.modules`, and never imported here.
"""
