"""Policies that an add may have, and those that are refused: for Python and SQL alike."""

from typing import Any

# Options, and whether the job has a job key.
RIGHT: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({}, True),
    ({"unique": {}}, False),
    ({"unique": {"keys": ["args", "queue"], "states": ["completed", "active"], "period": "PT1H"}}, False),
    ({"unique": {"keys": ["args"], "args_keys": ["a"], "on_conflict": "ignore"}, "rerun": True}, False),
    ({"unique": {"keys": ["meta"], "meta_keys": ["m"], "on_conflict": "replace"}, "meta": {"m": 1, "n": 2}}, False),
    ({"unique": {"on_conflict": "replace_except_schedule"}, "force": True}, True),
    ({"singleton": True}, False),
    ({"singleton": True, "subject": "s"}, False),
    ({"singleton": True, "subject": 'e\u0301 "\\\n\x7f\U0001f600' * 60}, False),
    ({"singleton": True, "rerun": True, "idempotency_key": "k"}, False),
    ({"singleton": True, "force": True}, True),
    ({"singleton": True, "force": False, "rerun": False}, False),
    ({"singleton": False}, True),
    ({"idempotency_key": "k" * 200}, True),
    ({"idempotency_key": "\U0001f511" * 200, "unique": {}}, False),
]

# Options, whether the job has a job key, the code and the field of the error.
WRONG: list[tuple[dict[str, Any], bool, str, str]] = [
    ({"unique": 1}, False, "GWBUP", "unique"),
    ({"unique": []}, False, "GWBUP", "unique"),
    ({"unique": {"argz": 1}}, False, "GWBUP", "unique"),
    ({"unique": {"period": "1 day"}}, False, "GWBUP", "unique.period"),
    ({"unique": {"args_keys": ["x"]}}, False, "GWBUP", "unique.args_keys"),
    ({"unique": {"keys": ["meta"], "meta_keys": ["x"]}}, False, "GWBUP", "unique.meta_keys"),
    ({"singleton": "yes"}, False, "GWBUP", "singleton"),
    ({"singleton": 1}, False, "GWBUP", "singleton"),
    ({"force": "x", "singleton": True}, False, "GWBUP", "force"),
    ({"rerun": 0, "singleton": True}, False, "GWBUP", "rerun"),
    ({"subject": 5, "singleton": True}, False, "GWBUP", "subject"),
    ({"subject": "", "singleton": True}, False, "GWBUP", "subject"),
    ({"subject": "s" * 513, "singleton": True}, False, "GWBUP", "subject"),
    ({"unique": {}, "singleton": True}, False, "GWBUP", "unique"),
    ({"subject": "a"}, False, "GWBUP", "subject"),
    ({"subject": "a", "unique": {}}, False, "GWBUP", "subject"),
    ({"subject": "a", "singleton": False}, False, "GWBUP", "subject"),
    ({"force": True}, False, "GWBUP", "force"),
    ({"rerun": True}, False, "GWBUP", "rerun"),
    ({"rerun": True, "force": True, "singleton": True}, False, "GWBUP", "rerun"),
    ({"rerun": True, "unique": {"on_conflict": "replace"}}, False, "GWBUP", "rerun"),
    ({"rerun": True, "unique": {"on_conflict": "replace_except_schedule"}}, False, "GWBUP", "rerun"),
    ({"unique": {}}, True, "GWBUP", "job_key"),
    ({"singleton": True}, True, "GWBUP", "job_key"),
    ({"idempotency_key": 5}, False, "GWBIK", "idempotency_key"),
    ({"idempotency_key": ""}, False, "GWBIK", "idempotency_key"),
    ({"idempotency_key": "k" * 201}, False, "GWBIK", "idempotency_key"),
]
