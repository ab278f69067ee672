"""The operator of the chaos suite: pauses, resumes, and changes limits while workers run; a seed decides the orders.

Each order is recorded in the transaction of its call, for the ledger of claims.
"""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import anyio
import asyncpg
from anyio.abc import TaskGroup

from tests.crash.claims import KEYS, RULES, SERIAL, WIDE, WIDE_AT_ONCE, Rule
from tests.crash.watch import BROKEN, ask

# What is ordered, and how often in one deck.
ORDERS = {
    "pause_task": 3,
    "pause_queue": 4,
    "pause_limit": 2,
    "pause_key": 4,
    "pause_everything": 1,
    "set_at_once": 6,
    "set_key": 6,
    "set_queue": 4,
    "set_total": 5,
    "set_rate": 5,
    "set_weight": 1,
}
PLAIN_TASKS = ("note", "crowd", "pay")
# What may be paused: the arguments of pause and resume, by kind.
PAUSES = {
    "task": [{"task": name} for name in (*PLAIN_TASKS, *(task for rule in RULES for task in rule.tasks))],
    "queue": [{"queue": name} for name in (*SERIAL, WIDE)],
    "limit": [{"limit_name": rule.name} for rule in RULES],
    "key": [{"limit_name": rule.name, "key": key} for rule in RULES if rule.has_key for key in KEYS],
    "everything": [{}],
}
# The newest values of all scopes.
HELD = "select distinct on (scope) scope, value from chaos.orders order by scope, seq desc"
INSERT = "insert into chaos.orders (scope, value) values ($1, $2)"
CALL_S = 10
PATIENCE_S = 30


class Operator:
    """Gives orders.

    Args:
        dsn: The server.
        chance: The source of all random choices.

    Attributes:
        given: How many orders were committed, by kind.
    """

    def __init__(self, dsn: str, chance: random.Random) -> None:
        self._dsn = dsn
        self._chance = chance
        self._connection: asyncpg.Connection | None = None
        self._one_call = anyio.Lock()
        self.given: Counter[str] = Counter()

    async def order_for_ever(self, group: TaskGroup) -> None:
        """Give one order after the other; pauses end in the background."""
        while True:
            cards = [kind for kind, times in ORDERS.items() for _ in range(times)]
            self._chance.shuffle(cards)
            for kind in cards:
                await anyio.sleep(self._chance.uniform(0.02, 0.3))
                act, _, what = kind.partition("_")
                order: Callable[[TaskGroup], Awaitable[bool]] = (
                    partial(self._pause, what) if act == "pause" else getattr(self, f"_{kind}")
                )
                if await order(group):
                    self.given[kind] += 1

    async def restore(self) -> None:
        """Resume everything, and unset what was set."""
        with anyio.fail_after(PATIENCE_S):
            held = {row["scope"]: row["value"] for row in await ask(self._dsn, HELD)}
            for pause in (pause for pauses in PAUSES.values() for pause in pauses):
                if held.get(scope := _scope_of(pause)) is not None:
                    await self._until_given("resume", pause, {scope: None})
            for rule in RULES:
                if rule.orders.items() - held.items():
                    await self._until_given("unset_limit", {"name": rule.name}, rule.orders)
                for key in KEYS if rule.has_key else ():
                    if held.get(scope := f"at_once key {rule.name} {key}") is not None:
                        await self._until_given("unset_limit", {"name": rule.name, "key": key}, {scope: None})
            await self._until_given("unset_limit", {"name": WIDE}, {f"at_once queue {WIDE}": WIDE_AT_ONCE})
        self.leave()

    # The orders

    async def _pause(self, kind: str, group: TaskGroup) -> bool:
        pause = self._chance.choice(PAUSES[kind])
        given = await self._give("pause", pause, {_scope_of(pause): 1})
        # A key has few jobs: none may be due for a while.
        longest_s = 3.0 if kind == "key" else 0.8
        group.start_soon(self._resume, pause, self._chance.uniform(0.05, longest_s))
        return given

    async def _resume(self, pause: Mapping[str, str], seconds: float) -> None:
        await anyio.sleep(seconds)
        await self._until_given("resume", pause, {_scope_of(pause): None})

    async def _set_at_once(self, _: TaskGroup) -> bool:
        rule = self._chance.choice([rule for rule in RULES if rule.at_once is not None])
        return await self._set(rule, "at_once", self._chance.choice([1, 2, 3, 5, None]))

    async def _set_total(self, _: TaskGroup) -> bool:
        rule = self._chance.choice([rule for rule in RULES if rule.total is not None])
        return await self._set(rule, "total", self._chance.choice([1, 2, 3, 6, None]))

    async def _set_rate(self, _: TaskGroup) -> bool:
        rule = self._chance.choice([rule for rule in RULES if rule.rate is not None])
        field = "rate" if rule.has_key else "total_rate"
        return await self._set(rule, field, self._chance.choice([1, 2, 3, 5, None]))

    async def _set(self, rule: Rule, field: str, value: int | None) -> bool:
        names: dict[str, object] = {"name": rule.name}
        if value is None:
            names["unlimited"] = [field]
        else:
            names[field] = value
            if field.endswith("rate"):
                names[field.replace("rate", "per_s")] = rule.per_s
        return await self._give("set_limit", names, {f"{field} limit {rule.name}": value})

    async def _set_key(self, _: TaskGroup) -> bool:
        rule = self._chance.choice([rule for rule in RULES if rule.has_key])
        key, value = self._chance.choice(KEYS), self._chance.choice([1, 2, 4, None])
        scope = {f"at_once key {rule.name} {key}": value}
        if value is None:
            return await self._give("unset_limit", {"name": rule.name, "key": key}, scope)
        return await self._give("set_partition", {"limit_name": rule.name, "key": key, "at_once": value}, scope)

    async def _set_queue(self, _: TaskGroup) -> bool:
        value = self._chance.choice([1, 2, 3, 5])
        return await self._give("set_limit", {"name": WIDE, "at_once": value}, {f"at_once queue {WIDE}": value})

    async def _set_weight(self, _: TaskGroup) -> bool:
        names = {"limit_name": "fair", "key": self._chance.choice(KEYS), "weight": self._chance.choice([0.5, 2.0])}
        return await self._give("set_partition", names, {})

    async def _until_given(self, function: str, names: Mapping[str, object], orders: Mapping[str, int | None]) -> None:
        while not await self._give(function, names, orders):
            await anyio.sleep(0.05)

    async def _give(self, function: str, names: Mapping[str, object], orders: Mapping[str, int | None]) -> bool:
        """Call a function, and record in its transaction what holds from now on; False if the server refuses.

        Before the first worker has started, nothing is declared.
        """
        arguments = ", ".join(f"{name} => ${number}" for number, name in enumerate(names, 1))
        async with self._one_call:
            done = False
            try:
                if self._connection is None:
                    self._connection = await asyncpg.connect(self._dsn, timeout=5)
                async with self._connection.transaction():
                    sql = f"select asyncq.{function}({arguments})"
                    await self._connection.execute(sql, *names.values(), timeout=CALL_S)
                    await self._connection.executemany(INSERT, orders.items())
                done = True
            except (*BROKEN, TimeoutError):
                pass
            finally:
                if not done:
                    self.leave()
            return done

    def leave(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


def _scope_of(pause: Mapping[str, str]) -> str:
    """The scope of a pause in chaos.orders."""
    match pause:
        case {"limit_name": name, "key": key}:
            return f"pause key {name} {key}"
        case {"limit_name": name}:
            return f"pause limit {name}"
        case {"task": name}:
            return f"pause task {name}"
        case {"queue": name}:
            return f"pause queue {name}"
        case _:
            return "pause everything"
