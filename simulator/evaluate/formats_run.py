"""The model run in the formats that are costed, against the run without any: what changes.

Parts are switched on one by one: cache rows, index keys, weights of the routed experts and of the
other linear layers, activations. All else stays in float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from simulator.basis.errors import InputError, unknown_name
from simulator.cache.pool_spec import page_multiple, pools_of
from simulator.evaluate.choices import ChoiceRecord
from simulator.evaluate.evaluator import Evaluator
from simulator.evaluate.request_table import RequestTable
from workloads.block_scale import E4M3_MAX, as_floats, block_scaled, ue8m0_values
from workloads.deepseek_v4.config import ModelConfig
from workloads.deepseek_v4.precision import INDEX_DTYPES, KV_DTYPES, Precision
from workloads.deepseek_v4.state import model_state
from workloads.entry_format import EntryFormat, PlainEntry
from workloads.graph import Node
from workloads.op import Array
from workloads.ops import ExpertDown, ExpertUp, GroupedLinear, Linear
from workloads.state_layout import Region
from workloads.weight_format import weight_format
from workloads.weight_rounding import round_weight

ACTIVATION_BLOCK = 128
_EXPERTS, _LINEAR, _INDEX = "-experts", "-linear", "-index"
_ACTIVATIONS = "fp8-activations"
# Values of the run that are rounded beside it; a step beyond half of its format's is a fault.
ROUNDING_SLACK = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFormats:
    """Formats of a run, None where values stay as they are.

    `block_scale` multiplies the scales of quantised weights.
    """

    kv: str | None = None
    index: str | None = None
    expert: str | None = None
    linear: str | None = None
    activations: bool = False
    block_scale: float = 1.0

    @property
    def name(self) -> str:
        """The words that ask for it; `none` where nothing is quantised."""
        words = [
            self.kv or "",
            f"{self.index}{_INDEX}" if self.index else "",
            f"{self.expert}{_EXPERTS}" if self.expert else "",
            f"{self.linear}{_LINEAR}" if self.linear else "",
            _ACTIVATIONS if self.activations else "",
        ]
        return ",".join(word for word in words if word) or "none"

    @property
    def costed(self) -> Precision:
        """What is costed for them; parts left alone are BF16."""
        return Precision(
            kv=self.kv or "bf16",
            index=self.index or "bf16",
            expert=self.expert or "bf16",
            linear="fp8" if self.linear else "bf16",
        )


def parse_formats(text: str, block_scale: float = 1.0) -> RunFormats:
    """`fp8,fp4-index,fp4-experts`; also `fp8-linear` and `fp8-activations`, or `none`.

    Raises InputError for a word that is no format of a part, and for two of one part.
    """
    found: dict[str, Any] = {}
    for word in (part.strip() for part in text.split(",")):
        if not word or word == "none":
            continue
        key, value = _part(word)
        if key in found:
            raise InputError(f"--quantised names the {key} format twice ({text}); give one")
        found[key] = value
    if not block_scale >= 1:
        raise InputError(f"--block-scale is {block_scale:g}, expected 1 or more")
    return RunFormats(**found, block_scale=block_scale)


def _part(word: str) -> tuple[str, Any]:
    if word == _ACTIVATIONS:
        return "activations", True
    for ending, key in ((_INDEX, "index"), (_EXPERTS, "expert"), (_LINEAR, "linear")):
        if word.endswith(ending):
            name = word.removesuffix(ending)
            if key == "index":
                if name not in INDEX_DTYPES:
                    raise InputError(unknown_name("index format", name, INDEX_DTYPES))
                return key, name
            return key, weight_format(name).name
    name = word.removesuffix("-cache")
    if name not in KV_DTYPES:
        known = [*KV_DTYPES, "fp4-index", "fp8-index", "fp4-experts", "fp8-linear", _ACTIVATIONS]
        raise InputError(unknown_name("part of --quantised", word, known))
    return "kv", name


def subsets(formats: RunFormats) -> list[RunFormats]:
    """All subsets of the parts that are on, the empty one first."""
    parts = [name for name in ("kv", "index", "expert", "linear", "activations")
             if getattr(formats, name)]  # fmt: skip
    return [
        RunFormats(
            **{name: getattr(formats, name) for name in chosen}, block_scale=formats.block_scale
        )
        for count in range(len(parts) + 1)
        for chosen in combinations(parts, count)
    ]


@dataclass(slots=True)
class Rounding:
    """How far stored values of a kind are from the true ones, over half a step of their format."""

    values: int = 0
    worst: float = 0.0

    def add(self, true: Array, stored: Array, half: Array) -> None:
        """More values; one with no step must be exact."""
        off, floor = np.abs(true - stored), 1e-15 * np.abs(true)
        share = np.where(off <= floor, 0.0, off / np.maximum(half, 1e-300))
        self.values += true.size
        self.worst = max(self.worst, float(share.max(initial=0.0)))

    @property
    def holds(self) -> bool:
        """No value is off by more than half a step."""
        return self.worst <= 1 + ROUNDING_SLACK


@dataclass(frozen=True, slots=True, eq=False)
class WatchedEntry(EntryFormat):
    """A format that holds each stored value against its half step."""

    own: EntryFormat
    rounding: Rounding

    @property
    def dim(self) -> int:
        """Values of an entry."""
        return self.own.dim

    @property
    def nbytes(self) -> int:
        """Bytes of an entry."""
        return self.own.nbytes

    def encode(self, values: Array) -> Array:
        """Round and pack, and compare."""
        packed = self.own.encode(values)
        self.rounding.add(values, self.own.decode(packed), self.own.half_step(values))
        return packed

    def decode(self, packed: Array) -> Array:
        """Values of the bytes."""
        return self.own.decode(packed)

    def rotate(self, values: Array) -> Array:
        """Change of basis before rounding."""
        return self.own.rotate(values)

    def half_step(self, values: Array) -> Array:
        """Largest rounding error allowed."""
        return self.own.half_step(values)


class FormatsEvaluator(Evaluator):
    """The evaluator with chosen parts in their formats; `rounding` tells how close they came."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Mapping[str, Array],
        table: RequestTable,
        formats: RunFormats,
        **options: Any,
    ) -> None:
        self.formats = formats
        self.rounding = {name: Rounding() for name in ("cache", "index", "weights", "activations")}
        super().__init__(config, weights, table, precision=formats.costed, **options)
        for name, value in self.params.items():
            wanted = self._weight(name)
            if wanted is not None:
                stored = weight_format(wanted)
                flat = value.reshape(-1, *_matrix_shape(name, value))
                rounded, half = round_weight(flat, stored, formats.block_scale)
                self.rounding["weights"].add(flat, rounded, half)
                self.params[name] = rounded.reshape(value.shape)

    def _entry(self, region: Region) -> EntryFormat:
        plain = PlainEntry(region.format.dim, self.dtype.name)
        if region.kind.endswith("_state"):
            return plain
        index = region.kind.endswith("_index")
        if not (self.formats.index if index else self.formats.kv):
            return plain
        return WatchedEntry(region.format, self.rounding["index" if index else "cache"])

    def _weight(self, name: str) -> str | None:
        """Format of a parameter, None where it stays as it is."""
        local = name.partition("/")[2]
        if local in ("moe/w13", "moe/w2"):
            return self.formats.expert
        linear = ("attn/wq_a", "attn/wq_b", "attn/wkv", "attn/wo_a", "attn/wo_b",
                  "attn/indexer/wq_b", "moe/shared/w13", "moe/shared/w2")  # fmt: skip
        return self.formats.linear if local in linear else None

    def _arrays(self, node: Node, values: Mapping[str, Array]) -> list[Array]:
        arrays = super()._arrays(node, values)
        products = (Linear, GroupedLinear, ExpertUp, ExpertDown)
        if not self.formats.activations or not isinstance(node.op, products):
            return arrays
        if self._weight(node.params[0]) is None:
            return arrays
        arrays[0] = self._activation(arrays[0])
        return arrays

    def _activation(self, x: Array) -> Array:
        """FP8 with a power-of-two scale for 128 neighbours, as engines quantise them."""
        rows = x.reshape(len(x), -1)
        raw, exponents = block_scaled(rows, ACTIVATION_BLOCK, E4M3_MAX, "float8_e4m3fn")
        scales = np.repeat(ue8m0_values(exponents), ACTIVATION_BLOCK, axis=1)[:, : rows.shape[1]]
        rounded = as_floats(raw, "float8_e4m3fn") * scales
        from workloads.block_scale import half_step_of

        half = half_step_of(rows / scales, "float8_e4m3fn") * scales
        self.rounding["activations"].add(rows, rounded, half)
        return rounded.reshape(x.shape)


def _matrix_shape(name: str, value: Array) -> tuple[int, int]:
    """Rows and columns of the matrices of a parameter: groups and experts are matrices apart."""
    if name.endswith("attn/wo_b"):  # both of its last axes are contracted
        return value.shape[0], int(np.prod(value.shape[1:]))
    lead = 1 if name.endswith(("attn/wo_a", "moe/w13", "moe/w2")) and "shared" not in name else 0
    return int(np.prod(value.shape[lead:-1])), value.shape[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatsResult:
    """One run against the reference run.

    `logit_change` is the largest absolute change, `logit_rms` the mean one over the spread of the
    reference's logits; `same_token` the share of rows whose best token stays. `recall` is the share
    of the reference's picks that the run picks too, by layer with an indexer, over rows that see
    more entries than are picked (NaN where none does); `experts_kept` that of expert choices.
    """

    formats: RunFormats
    logits: Array = field(repr=False)
    logit_change: float
    logit_rms: float
    same_token: float
    recall: Mapping[str, float]
    experts_kept: float
    rounding: Mapping[str, Rounding]

    @property
    def holds(self) -> bool:
        """Every stored value is within half a step of its format."""
        return all(one.holds for one in self.rounding.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What is run: a model, its weights, and token ids in chunks, all logits kept."""

    config: ModelConfig
    weights: Mapping[str, Array]
    token_ids: Array
    chunks: Sequence[int]


def run_formats(prompt: Prompt, formats: RunFormats, reference: Any = None) -> FormatsResult:
    """Run in these formats; `reference` is a (logits, choices) pair, by default the run itself."""
    logits, record, rounding = _run(prompt, formats)
    base_logits, base = reference or (logits, record)
    spread = float(base_logits.std()) or 1.0
    change = np.abs(logits - base_logits)
    return FormatsResult(
        formats=formats,
        logits=logits,
        logit_change=float(change.max()),
        logit_rms=float(np.sqrt((change**2).mean())) / spread,
        same_token=float((logits.argmax(axis=1) == base_logits.argmax(axis=1)).mean()),
        recall=_kept(base, record, "top-k", most=prompt.config.index_topk),
        experts_kept=_mean(_kept(base, record, "experts")),
        rounding=rounding,
    )


def run_subsets(prompt: Prompt, formats: RunFormats) -> list[FormatsResult]:
    """Every subset of the formats against the empty one, which comes first."""
    logits, record, _ = _run(prompt, RunFormats())
    return [run_formats(prompt, one, (logits, record)) for one in subsets(formats)]


def _run(prompt: Prompt, formats: RunFormats) -> tuple[Array, ChoiceRecord, dict[str, Rounding]]:
    config = prompt.config
    pools = pools_of(model_state(config, formats.costed))
    page = page_multiple(pools)
    table = RequestTable(1, len(prompt.token_ids), page_tokens=page, pools=pools)
    evaluator = FormatsEvaluator(config, prompt.weights, table, formats, all_logits=True)
    row, record, found, start = table.admit(), ChoiceRecord(), [], 0
    for count in prompt.chunks:
        ids = prompt.token_ids[start : start + count]
        found.append(evaluator.step([(row, ids)], choices=record).logits)
        start += count
    return np.concatenate(found), record, evaluator.rounding


def _kept(
    base: ChoiceRecord, other: ChoiceRecord, kind: str, most: int | None = None
) -> dict[str, float]:
    """Share of the reference's choices that are made again, by layer."""
    found = {}
    for (path, what), arrays in base.taken.items():
        if what != kind:
            continue
        again, whole = 0, 0
        for own, mine in zip(arrays, other.taken[path, what], strict=True):
            for a, b in zip(own, mine, strict=True):
                a, b = a[a >= 0], b[b >= 0]
                if most is not None and len(a) < most:
                    continue  # all that is visible is picked, whatever the scores
                again, whole = again + len(np.intersect1d(a, b)), whole + len(a)
        found[path.partition("/")[0]] = again / whole if whole else float("nan")
    return found


def _mean(shares: Mapping[str, float]) -> float:
    known = [share for share in shares.values() if share == share]
    return float(np.mean(known)) if known else float("nan")
