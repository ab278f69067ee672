"""Says hello. In a task folder the file's name is the task's name."""

from asyncq import JobContext, task


@task
async def hello(name: str, ctx: JobContext) -> None:
    """The parameter is a field of the payload: `{"name": "Bobby"}`."""
    ctx.logger.info("Hello, %s", name)
