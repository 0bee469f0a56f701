"""Which format each module of a checkpoint is stored in, layer by layer."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from simulator.basis.errors import InputError
from simulator.basis.yaml_loader import KeyFaultError, StrictModel
from workloads.deepseek_v4.modules import BF16_ROLES, EXPERT_ROLES
from workloads.weight_format import weight_format


def _known(name: str) -> str:
    try:
        weight_format(name)
    except InputError as error:
        raise KeyFaultError((), error.message) from None
    return name


FormatName = Annotated[str, AfterValidator(_known)]


class LayerFormats(StrictModel):
    """Formats of one layer's modules by role; those of no role are BF16 or FP32 by their nature.

    `linear` is that of every linear layer that `roles` does not name and released checkpoints
    quantise, `expert` that of the routed experts.
    """

    linear: FormatName = "fp8"
    expert: FormatName = "fp4"
    roles: tuple[tuple[str, FormatName], ...] = ()

    def of(self, role: str) -> str:
        """Name of a module's format."""
        for name, given in self.roles:
            if name == role:
                return given
        if role in EXPERT_ROLES:
            return self.expert
        return "bf16" if role in BF16_ROLES else self.linear


def layer_formats(found: dict[str, str]) -> LayerFormats:
    """Formats of a layer from those of all its modules, in the shortest form."""
    linear = _commonest(
        [f for role, f in found.items() if role not in (*EXPERT_ROLES, *BF16_ROLES)]
    )
    expert = found.get("moe/w2", "fp4")
    plain = LayerFormats(linear=linear, expert=expert)
    other = tuple((role, name) for role, name in found.items() if plain.of(role) != name)
    return LayerFormats(linear=linear, expert=expert, roles=other)


def _commonest(names: list[str]) -> str:
    return max(dict.fromkeys(names), key=names.count) if names else "fp8"
