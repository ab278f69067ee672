"""Writes what handlers returned as JSON text, for jobs whose result is stored."""

from typing import Any

from asyncq.domain.codec import Envelopes
from asyncq.domain.errors import CodecFailed, InvalidJob, TaskError
from asyncq.domain.events import ResultRefused
from asyncq.domain.outcome import Completed, clean_error, error_line
from asyncq.domain.result import UnwritableResult
from asyncq.engine.base import user_code
from asyncq.engine.base.observers import Observers
from asyncq.engine.run.run import Run


class Results:
    """Writes results of at most `limit` bytes. One that cannot be written does not fail the job: its work is done."""

    def __init__(self, observers: Observers, limit: int, envelopes: Envelopes | None) -> None:
        self._observers = observers
        self._limit = limit
        self._envelopes = envelopes

    def written(self, run: Run, value: Any, *, tells: bool = True) -> Completed:
        """The outcome of a run that returned a value; `tells`: a refused one is reported."""
        try:
            text = run.task.signature.results.write(value, self._limit)
            if self._envelopes is not None:
                text = self._envelopes.seal_result(run.task.name, text, self._limit)
            return Completed(text)
        except (UnwritableResult, TaskError, CodecFailed, InvalidJob) as error:
            fault = clean_error(str(error))
        except user_code.USERS_ERRORS as error:  # of a property or an iterator of the value
            fault = error_line(error)
        if tells:
            self._observers.emit(run.event(ResultRefused, error=fault))
        return Completed(fault=f"ResultRefused: {fault}")
