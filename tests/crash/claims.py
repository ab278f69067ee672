"""The limits of the chaos suite, and the ledger of claims in the database that judges each start; see claims.sql."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from asyncq import Limit, Queue, Rate
from asyncq.store.statements import render
from tests.crash.watch import ask

KEYS = ("x", "y", "z")
SERIAL = ("a", "b", "c")
WIDE = "wide"
WIDE_AT_ONCE = 3
MOST_SHOWN = 20

FAULTS = "select law, said from chaos.faults order by law, said limit $1"
OVER_RATE = "select * from chaos.over_rate order by seq limit $1"
WRONG_ENDS = "select * from chaos.wrong_ends order by waiter limit $1"
OPEN = "select * from chaos.claims where ended_in is null order by seq limit $1"
STARTS = "select task, count(*)::int from chaos.claims group by task"
FOLLOWED = "select count(*)::int from chaos.claims where follows"
# Not empty while workers run: an end says so by a wakeup, and a later fetch counts it. A gate counts the ends of its
# jobs when the next one is woken.
UNSETTLED = """
select format('partition %s counts %s running jobs', id, running) from asyncq._partitions
where running <> 0 and id <> asyncq._gate((id >> 48)::smallint)
union all
select format('wakeup %s', to_jsonb(wakeup)) from asyncq._wakeups as wakeup
where task_id > 0 or at > asyncq.clock() + interval '10 s'
union all
select format('paused %s', to_jsonb(paused)) from asyncq.pauses as paused
union all
select format('edge %s', to_jsonb(edge)) from asyncq._waits as edge
union all
select format('closing %s', to_jsonb(closing)) from asyncq._closings as closing
limit $1
"""


@dataclass(frozen=True)
class Rule:
    """A limit, as tasks declare it. Without a key, its numbers are totals."""

    name: str
    tasks: tuple[str, ...]
    at_once: int | None = None
    total: int | None = None
    rate: int | None = None
    per_s: float | None = None
    has_key: bool = True

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of its tasks. A limit that limits nothing lets keys take turns."""
        by = "key" if self.has_key else None
        name = self.name if len(self.tasks) > 1 else None
        options: dict[str, Any] = {}
        if (at_once := self.at_once if self.has_key else self.total) is not None:
            options["concurrency"] = Limit(at_once, by=by, name=name, total=self.total if self.has_key else None)
        if self.rate is not None and self.per_s is not None:
            options["rate"] = Rate(self.rate, self.per_s, by=by)
        return options or {"fair": by}

    @property
    def orders(self) -> Mapping[str, int | None]:
        """The scopes of chaos.orders that are its values, as they were declared."""
        rate = "rate" if self.has_key else "total_rate"
        values = {"at_once": self.at_once, "total": self.total, rate: self.rate}
        return {f"{field} limit {self.name}": value for field, value in values.items()}

    @property
    def rows(self) -> Iterator[tuple[str, str, bool, float | None, float | None]]:
        """The rows of chaos.limited."""
        for task in self.tasks:
            yield task, self.name, self.has_key, *((self.per_s, None) if self.has_key else (None, self.per_s))


RULES = (
    Rule("keyed", ("keyed",), at_once=2, total=5),
    Rule("rated", ("rated",), rate=2, per_s=0.5),
    Rule("fair", ("fair",)),
    Rule("shared", ("left", "right"), at_once=3),
    Rule("refused", ("refused",), at_once=3),
    Rule("whole", ("whole",), total=2, has_key=False),
    Rule("paced", ("paced",), rate=4, per_s=0.5, has_key=False),
)
RULE_OF = {task: rule for rule in RULES for task in rule.tasks}
QUEUES = [Queue(WIDE, concurrency=WIDE_AT_ONCE)]


async def open_ledger(db: asyncpg.Connection, schema: str = "asyncq", ledger: str = "chaos") -> None:
    """Create the ledger of a schema, in another schema that exists, with what is declared."""
    text = (Path(__file__).parent / "claims.sql").read_text("utf-8")
    await db.execute(re.sub(r"\bchaos\b", ledger, render(text, schema)))
    limited = [row for rule in RULES for row in rule.rows]
    await db.executemany(f"insert into {ledger}.limited values ($1, $2, $3, $4, $5)", limited)
    declared = {scope: value for rule in RULES for scope, value in rule.orders.items()}
    queues = {f"at_once queue {name}": 1 for name in SERIAL} | {f"at_once queue {WIDE}": WIDE_AT_ONCE}
    await db.executemany(f"insert into {ledger}.orders (scope, value) values ($1, $2)", [*(declared | queues).items()])


async def broken_laws(dsn: str) -> dict[str, object]:
    """The laws that claims broke, by name; empty lists if they kept all."""
    asked = {
        "faults of claims": FAULTS,
        "over a rate": OVER_RATE,
        "claims without an end": OPEN,
        "wrong ends in trees": WRONG_ENDS,
    }
    return {name: [str(dict(row)) for row in await ask(dsn, sql, MOST_SHOWN)] for name, sql in asked.items()}


async def starts(dsn: str) -> dict[str, object]:
    """How many claims there were, by task, and how many followed another one at once."""
    followed = (await ask(dsn, FOLLOWED))[0][0]
    return {"starts": Counter(dict(await ask(dsn, STARTS))), "followed": followed}
