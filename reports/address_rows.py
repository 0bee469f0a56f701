"""An address result as plain data for JSON; nothing is left out."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from simulator.address.result import AddressResult


def address_to_json(result: AddressResult) -> dict[str, Any]:
    """Mappings and lists under the names of the records."""
    data: dict[str, Any] = {"question": result.question.model_dump(mode="json")}
    for field in fields(result):
        if field.name == "question":
            continue
        value = getattr(result, field.name)
        data[field.name] = (
            [asdict(item) if hasattr(item, "__dataclass_fields__") else item for item in value]
            if isinstance(value, tuple)
            else value
        )
    return data
