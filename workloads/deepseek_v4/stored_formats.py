"""From what a file says of quantisation to the format of each module of each layer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workloads.deepseek_v4.modules import (
    BF16_ROLES,
    DRAFT_ROLES,
    EXPERT_ROLES,
    ROLES,
    TOP_ROLES,
    Place,
    matches,
)
from workloads.deepseek_v4.quantization import LINEAR_CLASSES, Group, Plan
from workloads.deepseek_v4.weight_plan import LayerFormats, layer_formats


@dataclass(frozen=True, slots=True)
class Stored:
    """Formats of all layers, draft stages behind the backbone, and of what is outside of layers."""

    layers: tuple[LayerFormats, ...]
    embed: str = "bf16"
    head: str = "bf16"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a model decides the names of its modules."""

    backbone: int
    stages: int
    dspark: bool
    indexed: tuple[bool, ...] = ()
    compressed: tuple[bool, ...] = ()


def stored_formats(plan: Plan, shape: Shape) -> Stored:
    """Formats of all modules of a model; what nothing names is BF16, with a note that says so."""
    alone: dict[str, int] = {}
    layers = [
        _layer(plan, shape, Place(n, n - shape.backbone if n >= shape.backbone else None), alone)
        for n in range(shape.backbone + shape.stages)
    ]
    notes = list(plan.notes)
    if shape.dspark:
        layers, said = _draft_experts(plan, layers, shape)
        notes += said
    top = {role: _found(plan, role, Place(None)) for role in TOP_ROLES}
    if alone:
        names = ", ".join(f"{role} ({count})" for role, count in alone.items())
        notes.append(f"modules in no group of the quantization, or ignored, are BF16: {names}")
    return Stored(
        tuple(layers), top["embed/table"] or "bf16", top["head/weight"] or "bf16", tuple(notes)
    )


def _layer(plan: Plan, shape: Shape, place: Place, alone: dict[str, int]) -> LayerFormats:
    found: dict[str, str] = {}
    for role in _roles(shape, place):
        given = _found(plan, role, place)
        if given is None:
            alone[role] = alone.get(role, 0) + 1
        found[role] = given or "bf16"
    return layer_formats(found)


def _roles(shape: Shape, place: Place) -> list[str]:
    number = place.layer or 0
    roles = [role for role in ROLES if _has(role, shape, number)]
    if place.stage is not None:
        roles += ["main_proj"] if shape.dspark and place.stage == 0 else []
        roles += [] if shape.dspark else [r for r in DRAFT_ROLES if r != "main_proj"]
    return roles


def _has(role: str, shape: Shape, number: int) -> bool:
    if role.startswith("attn/indexer"):
        return number < len(shape.indexed) and shape.indexed[number]
    if role.startswith("attn/compressor"):
        return number < len(shape.compressed) and shape.compressed[number]
    return True


def _found(plan: Plan, role: str, place: Place) -> str | None:
    """Format of one module; None where it is left alone."""
    if matches(plan.ignored, role, place):
        return None
    groups = plan.groups if plan.first_wins else plan.groups[::-1]
    # Names win over classes of modules.
    for group in sorted(groups, key=_is_class):
        if _names(group, role, place, plan.embeddings):
            return group.format
    if plan.base is None:
        return None
    return "bf16" if role in TOP_ROLES or role in BF16_ROLES else plan.base.of(role)


def _is_class(group: Group) -> bool:
    return any(target in LINEAR_CLASSES for target in group.targets)


def _names(group: Group, role: str, place: Place, embeddings: bool) -> bool:
    if _is_class(group):
        return role != "embed/table" or embeddings
    return matches(group.targets, role, place)


def _draft_experts(
    plan: Plan, layers: list[LayerFormats], shape: Shape
) -> tuple[list[LayerFormats], list[str]]:
    """Re-packs to NVFP4 keep the experts of a DSpark draft in MXFP4, whatever their groups say."""
    trunk = layers[: shape.backbone]
    if not any(layer.expert.startswith("nvfp4") for layer in trunk):
        return layers, []
    kept = [
        LayerFormats(
            linear=layer.linear,
            expert="fp4",
            roles=tuple(pair for pair in layer.roles if pair[0] not in EXPERT_ROLES),
        )
        for layer in layers[shape.backbone :]
    ]
    said = (
        "experts of the draft stages are in MXFP4, as NVFP4 re-packs of such checkpoints keep them"
    )
    return [*trunk, *kept], [said]


def compile_patterns(plan: Plan) -> str | None:
    """A pattern that is no regular expression, or None where all are."""
    for pattern in (*plan.ignored, *(t for group in plan.groups for t in group.targets)):
        if pattern.startswith("re:"):
            try:
                re.compile(pattern[3:])
            except re.error:
                return pattern
    return None
