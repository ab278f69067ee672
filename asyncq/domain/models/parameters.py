"""The parameters of a handler, of which pydantic writes and reads some, and msgspec the others."""

from collections.abc import Mapping
from typing import Any

import msgspec

from asyncq.domain.models.adapter import Adapter
from asyncq.domain.models.values import is_a
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD, LARGEST_PAYLOAD, encode


class ParametersReader:
    """Reads a struct whose fields are the parameters; the decoder leaves those of pydantic as JSON."""

    def __init__(self, decoder: msgspec.json.Decoder[Any], adapters: Mapping[str, Adapter]) -> None:
        self._decoder = decoder
        self._adapters = adapters

    def decode(self, payload: str, /) -> Any:
        """The struct; msgspec.ValidationError with the path of the field."""
        read = self._decoder.decode(payload)
        for name, adapter in self._adapters.items():
            value = getattr(read, name)
            if isinstance(value, msgspec.Raw):
                setattr(read, name, adapter.decode(value, f"$.{name}"))
        return read


class ParametersWriter:
    """Writes the arguments of a call: a dict, or a struct of the class `arguments`."""

    def __init__(self, adapters: Mapping[str, Adapter], arguments: type[msgspec.Struct] | None) -> None:
        self._adapters = adapters
        self._arguments = arguments

    def encode(self, value: Any, *, limit: int = DEFAULT_MAX_PAYLOAD) -> str:
        """Write arguments, or another value with the same JSON; InvalidJob (GWBPL) as `payload.encode`."""
        if self._arguments is not None and isinstance(value, self._arguments):
            value = {name: getattr(value, name) for name in value.__struct_fields__}
        if not is_a(value, dict):
            return encode(value, limit=limit)
        return encode(
            {name: self._item(name, item) for name, item in value.items() if item is not msgspec.UNSET}, limit=limit
        )

    def _item(self, name: Any, item: Any) -> Any:
        adapter = self._adapters.get(name)
        if adapter is None:
            return item
        return msgspec.Raw(adapter.encode(item, path=f"$.{name}", limit=LARGEST_PAYLOAD).encode())
