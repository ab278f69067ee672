"""Leftovers: which asyncio tasks a worker's handlers have started, and no others."""

import asyncio
from typing import Any

from asyncq.engine.run.child_tasks import ChildTasks


async def hang() -> None:
    """Runs until it is cancelled."""
    await asyncio.Event().wait()


def spawn(leftovers: ChildTasks | None, name: str = "job") -> asyncio.Task[Any]:
    """Start a task as the handler of a worker would, or as anybody."""
    loop = asyncio.get_running_loop()
    return leftovers.mark(name).run(loop.create_task, hang()) if leftovers else loop.create_task(hang())


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel them."""
    for each in tasks:
        each.cancel()
    await asyncio.wait(tasks)


async def test_tasks_that_a_handler_started_are_found_and_others_are_not() -> None:
    """The service's own tasks live in the same loop."""
    leftovers = ChildTasks()
    leftovers.install()
    mine, other = spawn(leftovers, "send"), spawn(None)
    found = leftovers.find()
    await end(mine, other)
    leftovers.uninstall()

    assert {mine: "send"} == found


async def test_tasks_of_another_worker_s_handlers_are_not_found() -> None:
    """Two workers share the loop, and one of them stops."""
    first, second = ChildTasks(), ChildTasks()
    first.install()
    second.install()
    of_first, of_second = spawn(first), spawn(second)
    first.uninstall()
    late = spawn(second)
    found = (set(first.find()), set(second.find()))
    await end(of_first, of_second, late)
    second.uninstall()

    assert ({of_first}, {of_second, late}) == found


async def test_the_loop_is_restored() -> None:
    """The task factory of a loop belongs to the application."""
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    first, second = ChildTasks(), ChildTasks()
    first.install()
    second.install()
    first.uninstall()
    second.uninstall()
    second.uninstall()

    assert before is loop.get_task_factory()


async def test_a_task_factory_of_the_application_stays_in_place() -> None:
    """Such as that of a debugger or of eager tasks; then, on Python 3.11, nothing is found."""
    loop = asyncio.get_running_loop()

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coroutine, loop=loop, **options)

    loop.set_task_factory(factory)
    try:
        leftovers = ChildTasks()
        leftovers.install()
        during = loop.get_task_factory()
        leftovers.uninstall()
        after = loop.get_task_factory()
    finally:
        loop.set_task_factory(None)

    assert (factory, factory) == (during, after)


async def test_code_knows_whether_a_handler_of_the_worker_called_it() -> None:
    """`stop()` from a handler must not wait for that handler."""
    mine, other = ChildTasks(), ChildTasks()
    context = mine.mark("job")

    assert (False, True, False) == (
        mine.in_handler,
        context.run(lambda: mine.in_handler),
        context.run(lambda: other.in_handler),
    )
