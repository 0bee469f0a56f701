"""Index queries, keys and head weights that an experiment runs on: made up, or from a file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulator.basis.errors import InputError
from simulator.indexer.layer_output import QueryAttention
from workloads.block_scale import Array
from workloads.deepseek_v4.config import ModelConfig

_AXES = {"q": ("queries", "heads", "dim"), "k": ("entries", "dim"), "w": ("queries", "heads")}
_NEEDS = "needs the arrays q [queries, heads, dim], k [entries, dim] and w [queries, heads]"
_LARGEST_SCORE = 1e18  # so that float32 holds its square too


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexCase:
    """q [queries, heads, dim], k [entries, dim], w [queries, heads], float32, before any rotation.

    `planted` holds for each query the ids of entries that were made to match it; none where
    nothing was planted. `about` says in a sentence where the values come from. `attention` is what
    the layer looks at for each query, where a model has run; none where it is to be made up.
    """

    name: str
    about: str
    q: Array
    k: Array
    w: Array
    planted: tuple[Array, ...] = ()
    attention: tuple[QueryAttention, ...] = ()
    synthetic: bool = True

    @property
    def queries(self) -> int:
        """Queries."""
        return len(self.q)

    @property
    def entries(self) -> int:
        """Keys that each query scores."""
        return len(self.k)


def load_case(path: Path, config: ModelConfig) -> IndexCase:
    """Case of a `.npz` file with q, k and w; one `InputError` sentence for whatever is wrong."""
    arrays = _arrays(path)
    sizes = {"heads": config.index_n_heads, "dim": config.index_head_dim}
    for name, axes in _AXES.items():
        _check(path, name, arrays[name], axes, sizes, config.name)
        sizes |= dict(zip(axes, arrays[name].shape, strict=True))
    most, entries = config.index_topk, sizes["entries"]
    if entries <= most:
        raise InputError(
            f"{path}: k has {entries:,} entries, but {config.name} picks {most:,}, so every one "
            f"would be picked; give at least {most + 1:,} ({most + 1 - entries:,} more)"
        )
    q, k, w = (arrays[name].astype(np.float32) for name in _AXES)
    largest = sizes["heads"] * sizes["dim"] * np.prod([float(np.abs(a).max()) for a in (q, k, w)])
    if not 0 < largest <= _LARGEST_SCORE:
        raise InputError(
            f"{path}: scores of these q, k and w reach at most {largest:.3g}, expected more than 0 "
            f"and at most {_LARGEST_SCORE:g}, which float32 can hold and rank; scale them"
        )
    about = f"q, k and w of {path.name}: {sizes['queries']:,} queries, {entries:,} keys"
    return IndexCase(name=path.stem, about=about, q=q, k=k, w=w, synthetic=False)


def _arrays(path: Path) -> Mapping[str, Array]:
    if not path.is_file():
        raise InputError(f"there is no file {path}: --npz {_NEEDS}")
    try:
        stored = np.load(path, allow_pickle=False)
        if not isinstance(stored, np.lib.npyio.NpzFile):
            raise InputError(f"{path} holds one bare array: --npz {_NEEDS}; use numpy.savez")
        with stored:
            missing = [name for name in _AXES if name not in stored.files]
            if missing:
                held = ", ".join(sorted(stored.files)) or "nothing"
                raise InputError(
                    f"{path} has no array {' and no '.join(missing)} (it holds {held}): "
                    f"--npz {_NEEDS}"
                )
            return {name: stored[name] for name in _AXES}
    except (ValueError, EOFError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        why = "no arrays, or Python objects" if "pickle" in str(error) else str(error)
        raise InputError(
            f"{path} is no .npz file of plain numbers ({why}): --npz {_NEEDS}"
        ) from error


def _check(
    path: Path,
    name: str,
    array: Array,
    axes: tuple[str, ...],
    sizes: Mapping[str, int],
    model: str,
) -> None:
    shape = ", ".join(map(str, array.shape))
    if array.dtype.kind not in "fiu":
        raise InputError(
            f"{path}: {name} has type {array.dtype}, expected real numbers; bfloat16 values go in "
            "as float32"
        )
    if array.ndim != len(axes):
        raise InputError(
            f"{path}: {name} has {array.ndim} axes [{shape}], expected {len(axes)}: "
            f"[{', '.join(axes)}]"
        )
    for axis, size in zip(axes, array.shape, strict=True):
        wanted = sizes.get(axis, size)
        if size != wanted:
            whose = f"the {wanted} of {model}" if axis != "queries" else f"the {wanted} of q"
            raise InputError(
                f"{path}: {name} [{shape}] has {size} {axis}, expected {whose} "
                f"({abs(size - wanted)} too {'many' if size > wanted else 'few'})"
            )
        if not size:
            raise InputError(f"{path}: {name} [{shape}] is empty, expected at least 1 of {axis}")
    with np.errstate(over="ignore"):
        unusable = array.size - int(np.isfinite(array.astype(np.float32)).sum())
    if unusable:
        raise InputError(
            f"{path}: {name} has {unusable:,} values of {array.size:,} that are not finite in "
            "float32; remove or mask them first"
        )
