"""The rights that a worker needs, computed from sql/: objects of its statements and of all functions that they call."""

import re
from collections.abc import Iterator

from asyncq.store.statements import folder

TOUCHES = {
    "select": r"(?<!delete )\b(?:from|join) asyncq\.(\w+)\b(?!\()",
    "insert": r"\binsert into asyncq\.(\w+)",
    "update": r"(?<!for )(?<!key )\bupdate asyncq\.(\w+)",
    "delete": r"\bdelete from asyncq\.(\w+)",
    "usage": r"\b(?:nextval|pg_sequence_last_value)\('asyncq\.(\w+)'",
}
# An insert that looks for conflicts reads, and may write.
ON_CONFLICT = {
    "select": r"\binsert into asyncq\.(\w+)\b[^;]*\bon conflict\b",
    "update": r"\binsert into asyncq\.(\w+)\b[^;]*\bdo update\b",
}
PATTERNS = [*TOUCHES.items(), *ON_CONFLICT.items()]
# Asked for by the check of the version, which has no file of its own.
VERSION = {"schema": {"usage"}, "table _migrations": {"select"}}
OF_THE_ENQUEUER = "enqueue"


def rights_needed() -> dict[str, str]:
    """Object -> rights, as tests/support/grants.py has them."""
    functions = dict(bodies_of_functions())
    queries = [body for name, body in texts("queries") if name != OF_THE_ENQUEUER]
    public = {name for name in functions if not name.startswith("_")} - {OF_THE_ENQUEUER}
    reached = reachable(public.union(called_by_indexes(), *map(calls, queries)), functions)
    kinds = kinds_of_relations()
    rights = {name: set(held) for name, held in VERSION.items()}
    for body in [*queries, *(functions[name] for name in reached)]:
        touched = [(right, name) for right, pattern in PATTERNS for name in re.findall(pattern, body)]
        touched += [("update", name) for name in locked(body)]
        for right, name in touched:
            rights.setdefault(f"{kinds.get(name, 'table')} {name}", set()).add(right)
    order = list(TOUCHES)
    return {
        **{name: " ".join(sorted(held, key=order.index)) for name, held in rights.items()},
        **{f"function {name}": "execute" for name in reached},
    }


def locked(body: str) -> Iterator[str]:
    """The tables whose rows a `for update` locks, which needs the right to update: those of its own select."""
    for found in re.finditer(r"\bfor (?:no key )?update\b", body):
        depth, level = 0, ""
        for letter in reversed(body[: found.start()]):
            depth += (letter == ")") - (letter == "(")
            if depth < 0 or letter == ";":
                break
            if depth == 0:
                level = letter + level
        yield from re.findall(TOUCHES["select"], level)


def reachable(names: set[str], functions: dict[str, str]) -> set[str]:
    """These functions, and all that they call."""
    seen: set[str] = set()
    while names:
        seen |= names
        names = set().union(*(calls(functions[name]) for name in names)) - seen
    return seen


def calls(body: str) -> set[str]:
    """The functions of ours that a statement or body calls."""
    return set(re.findall(r"(?<!into )\basyncq\.(\w+)\(", body))


def called_by_indexes() -> set[str]:
    """Our functions that indexes call: a role that writes into their tables needs them."""
    created = re.compile(r"^create (?:unique )?index .*?;", re.DOTALL | re.MULTILINE)
    return set().union(*(calls(found) for _, text in texts("migrations") for found in created.findall(text)))


def bodies_of_functions() -> Iterator[tuple[str, str]]:
    """Name and text of each function."""
    for _, text in texts("functions"):
        parts = re.split(r"^create or replace function asyncq\.(\w+)", text, flags=re.MULTILINE)
        yield from zip(parts[1::2], parts[2::2], strict=True)


def kinds_of_relations() -> dict[str, str]:
    """Relations that are no tables: views; a sequence is an argument of the function that draws or reads its value."""
    views = {
        name
        for _, text in texts("migrations")
        for name in re.findall(r"^create view asyncq\.(\w+)", text, re.MULTILINE)
    }
    sequences = {name for _, text in texts("functions") for name in re.findall(TOUCHES["usage"], text)}
    return dict.fromkeys(views, "view") | dict.fromkeys(sequences, "sequence")


def texts(kind: str) -> Iterator[tuple[str, str]]:
    """Name and text of each file of a folder in sql/, without comments."""
    for path in sorted((folder() / kind).rglob("*.sql")):
        yield path.stem, code(path.read_text("utf-8"))


def code(text: str) -> str:
    """A text without its comments."""
    return "\n".join(line.partition("--")[0] for line in text.splitlines())
