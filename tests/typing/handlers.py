"""The types of handlers that `@task` takes, and of their tasks; lines with `# error:` must be refused."""

# ruff: noqa: D103

from datetime import timedelta
from typing import Any, assert_type

import msgspec

from asyncq import (
    Client,
    Collect,
    ConstantRetry,
    ExponentialRetry,
    JobContext,
    JobDiscarded,
    JobsContext,
    JobSpec,
    Limit,
    Queue,
    Rate,
    Task,
    UniquePolicy,
    Worker,
    task,
)


class Email(msgspec.Struct):
    to: str
    subject: str = ""


# The context first, last behind one payload, nowhere; no payload


@task
async def payload_and_context(email: Email, ctx: JobContext) -> None: ...


@task
async def context_and_payload(ctx: JobContext, email: Email) -> None: ...


@task
async def payload_alone(email: Email) -> None: ...


@task
async def context_alone(ctx: JobContext) -> None: ...


@task
async def nothing() -> None: ...


@task
async def fields(day: str, dry_run: bool = False) -> None: ...


@task
async def context_and_fields(ctx: JobContext, day: str, dry_run: bool = False) -> None: ...


@task
async def keyword_only(ctx: JobContext, *, day: str) -> None: ...


@task
def sync_payload(email: Email, ctx: JobContext) -> None: ...


@task
def sync_fields(day: str, count: int = 1) -> int:
    return len(day) * count


@task
async def any_payload_and_context(payload: Any, ctx: JobContext) -> None: ...


@task
async def context_and_any_payload(ctx: JobContext, payload: Any) -> None: ...


@task
async def any_payload_alone(payload: Any) -> None: ...


@task
async def any_field_first(a: Any, b: str) -> None: ...


@task
async def any_field_last(a: str, b: Any) -> None: ...


# With parentheses the same


@task()
async def bare_parentheses(email: Email, ctx: JobContext) -> None: ...


@task(queue="mail", max_attempts=5, priority=-1, flags=["slow"], name="mail.send")
async def with_options(email: Email, ctx: JobContext) -> None: ...


@task(unique=UniquePolicy(keys=["args"]))
async def with_a_policy(email: Email, ctx: JobContext) -> None: ...


@task(unique={"keys": ["args"]})
async def with_an_object(email: Email, ctx: JobContext) -> None: ...


@task(singleton=True)
async def with_a_singleton(ctx: JobContext) -> None: ...


@task(queue="mail")
async def fields_with_options(day: str, dry_run: bool = False) -> None: ...


@task(queue="mail")
def sync_with_options(ctx: JobContext, email: Email) -> None: ...


@task(queue="mail")
async def any_with_options(payload: object, ctx: JobContext) -> None: ...


assert_type(payload_and_context, Task[[Email], None])
assert_type(context_alone, Task[[], None])
assert_type(nothing, Task[[], None])
assert_type(with_options, Task[[Email], None])
assert_type(with_a_policy, Task[[Email], None])
assert_type(with_an_object, Task[[Email], None])
assert_type(with_a_singleton, Task[[], None])
assert_type(payload_and_context.job(Email("a@b.c")), JobSpec[None])
assert_type(payload_and_context.name, str)

payload_and_context.job(Email("a@b.c"))
payload_and_context.job("a@b.c")  # error: a str is no Email
payload_and_context.job()  # error: no payload
payload_and_context.job(Email("a@b.c"), 5)  # error: one too many
context_and_payload.job(Email("a@b.c"))
context_and_payload.job(email=Email("a@b.c"))
context_and_payload.job("a@b.c")  # error: a str is no Email
payload_alone.job(Email("a@b.c"))
payload_alone.job({"to": "a@b.c"})  # error: a dict is no Email
context_alone.job()
context_alone.job(Email("a@b.c"))  # error: it takes no payload
nothing.job()
nothing.job(1)  # error: it takes no payload
sync_payload.job(Email("a@b.c"))
sync_payload.job(1)  # error: an int is no Email
sync_fields.job("x", count=2)
sync_fields.job("x", count="2")  # error: a str is no int
bare_parentheses.job(Email("a@b.c"))
bare_parentheses.job("a@b.c")  # error: a str is no Email
with_options.job(Email("a@b.c"))
with_options.job("a@b.c")  # error: a str is no Email
sync_with_options.job(Email("a@b.c"))
sync_with_options.job()  # error: no payload

# Parameters that take anything are not checked, and never mistaken for the context

any_payload_and_context.job({"a": 1})
context_and_any_payload.job({"a": 1})
any_payload_alone.job({"a": 1})
any_field_first.job(1, "x")
any_field_first.job(a=1, b="x")
any_field_last.job("x", 1)
any_field_last.job(a="x", b=1)
any_with_options.job({"a": 1})

# Fields by name

fields.job(day="2026-11-20", dry_run=True)
fields.job(day="2026-11-20")
fields.job("2026-11-20", True)  # noqa: FBT003
fields.job(dya="2026-11-20")  # error: no such parameter
fields.job(day=20261120)  # error: an int is no str
fields.job(day="2026-11-20", dry_run="yes")  # error: a str is no bool
fields.job(dry_run=True)  # error: day is missing
fields.job()  # error: day is missing
fields.job(day="2026-11-20", priority=5)  # error: an option, not a parameter
fields_with_options.job(day="2026-11-20", dry_run=True)
fields_with_options.job(day=5)  # error: an int is no str
context_and_fields.job(day="2026-11-20")
context_and_fields.job(day=5)  # error: an int is no str
keyword_only.job(day="2026-11-20")
keyword_only.job("2026-11-20")  # error: day has to be named

# The context behind two fields: neither checker can leave it out of a list of named parameters, so that `job` asks for
# it, though the worker would fill it. Write the context first: `async def f(ctx: JobContext, day: str, dry_run: bool)`.


@task
async def context_behind_two_fields(day: str, dry_run: bool, ctx: JobContext) -> None: ...


context_behind_two_fields.job("2026-11-20", dry_run=True)  # error: the limit that is described above


# Options of the decorator


def two_minutes(attempt: int) -> float:
    return 120.0 * attempt


async def report(event: JobDiscarded) -> None: ...


def report_at_once(event: JobDiscarded) -> None: ...


async def takes_a_str(event: str) -> None: ...


def takes_a_str_attempt(attempt: str) -> float:
    return float(attempt)


class OwnPolicy:
    def delay_s(self, attempt: int, random: float) -> float:
        return attempt * random


async def handler(email: Email) -> None: ...


task(retry=ConstantRetry(5))(handler)
task(retry=ExponentialRetry(first=2.0, jitter=0.1))(handler)
task(retry=[1, 10, 60.0])(handler)
task(retry=two_minutes)(handler)
task(retry=lambda attempt: 5.0 * attempt)(handler)
task(retry=OwnPolicy())(handler)
task(retry=None)(handler)
task(retry=5)(handler)  # error: a number is no policy
task(retry="5s")(handler)  # error: a str is no policy
task(retry=takes_a_str_attempt)(handler)  # error: the attempt is an int
task(retry=["5s"])(handler)  # error: a str is no delay
task(on_discarded=report)(handler)
task(on_discarded=report_at_once)(handler)
task(on_discarded=takes_a_str)(handler)  # error: it is given a JobDiscarded
task(queue=5)(handler)  # error: a queue is a str
task(max_attempts="5")(handler)  # error: attempts are an int
task(priority=1.5)(handler)  # error: a priority is an int
task(flags=5)(handler)  # error: flags are a list
task(transactional=True, isolation="serializable")(context_alone.handler)
task(transactional=True, isolation="snapshot")(handler)  # error: no such level
task(transactional="yes")(handler)  # error: a str is no bool
task(timeout=5, expires="5 min", deadline="1 h")(handler)
task(timeout=[5])(handler)  # error: a list is no duration
task(concurrency=20, rate=Rate(100, per="1m"), fair="to")(handler)
task(concurrency=Limit(3, by="to", name="receivers", total=20))(handler)
task(rate=Rate(10, timedelta(seconds=1), by="to"))(handler)
task(concurrency="20")(handler)  # error: a str is no limit
task(concurrency=Rate(10, per=1))(handler)  # error: a rate is no limit
task(rate=100)(handler)  # error: a number has no time
task(fair=["to"])(handler)  # error: a list is no path
Limit("3")  # error: a limit is an int
Limit(3, "to")  # error: by has to be named
Rate(10)  # error: per is missing
Worker("postgresql:///", [fields, Queue("reports", concurrency=4, rate=Rate(10, per="1s"))])
Client("postgresql:///", tasks=[fields, Queue("reports")])
Queue("reports", 4)  # error: concurrency has to be named
Queue("reports", concurrency=Limit(4))  # error: a queue is one partition
task(time_limit=5)(handler)  # error: no such option
task(5)  # error: no function


# Calling the task is calling the handler: tests do so


async def call() -> None:
    answer: Any = await payload_alone(Email("a@b.c"))
    print(answer)


# Several jobs in one call


@task(collect=Collect(max=100, within="2 s"), concurrency=Limit(2, by="to"), rate=Rate(5, 1, by="to"), fair="to")
async def collected(emails: list[Email]) -> None: ...


@task(collect=Collect(max=100, within="2 s"), max_attempts=3)
async def collected_with_context(emails: list[Email], jobs: JobsContext) -> list[Exception | None]:
    return [None for _ in emails]


@task(collect=Collect(max=100, within="2 s"))
def collected_in_thread(jobs: JobsContext, emails: list[Email]) -> None: ...


@task(items=True, concurrency=2)
async def items(emails: list[Email], ctx: JobContext) -> list[Exception | None]:
    return [None for _ in emails]


assert_type(collected, Task[[Email]])
assert_type(collected_with_context, Task[[Email]])
assert_type(collected_in_thread, Task[[Email]])
assert_type(items, Task[[list[Email]], None])


@task(collect=Collect(max=100, within="2 s"))  # error: it takes no list
async def collected_alone(email: Email) -> None: ...


@task(items=True)  # error: it takes no list
async def item_alone(email: Email) -> None: ...
