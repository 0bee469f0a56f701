"""All kernel families, collected from the modules that define them."""

from __future__ import annotations

from simulator.basis.errors import InputError, unknown_name
from simulator.kernels import (
    attention_module,
    gemm,
    graph_all_reduce,
    hyper_connection,
    index_logits,
    moe,
    nccl,
    sparse_core,
    top_k,
    unit_rates,
)
from simulator.kernels.family import Family, check_families

# A call is of exactly one family; a later family may use constants of an earlier one.
_MODULES = (
    gemm,
    moe,
    index_logits,
    top_k,
    sparse_core,
    hyper_connection,
    nccl,
    graph_all_reduce,
    attention_module,
    unit_rates,
)

FAMILIES: dict[str, Family] = {}
for _module in _MODULES:
    for _name, _family in _module.FAMILIES.items():
        assert _name not in FAMILIES, f"two kernel families are called {_name}"
        FAMILIES[_name] = _family
check_families(FAMILIES)


def find_family(name: str) -> Family:
    """Family by name; an unknown one is an InputError that lists the known."""
    if name not in FAMILIES:
        raise InputError(unknown_name("kernel family", name, tuple(FAMILIES)))
    return FAMILIES[name]
