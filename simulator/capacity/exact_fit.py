"""Sizing in which every pool grows as its requests need."""

from __future__ import annotations

from dataclasses import replace

from simulator.capacity.fit import Fit, Limit
from simulator.capacity.request_pages import Charge, Load, request_charges
from simulator.engine.physical_layout import CacheGeometry
from simulator.engine.sizing_rules import ExactSizing


def fit_exact(geometry: CacheGeometry, _rule: ExactSizing, budget_bytes: int, load: Load) -> Fit:
    """Requests of a budget: what is left beside a prompt in flight / bytes of a request.

    Assumes: of the requests one at a time takes a prompt in, the others decode (TensorRT-LLM sizes
        its pools so).
    """
    charges = request_charges(geometry, replace(load, in_flight_tokens=1))
    with_prompt = request_charges(geometry, load)
    pairs = zip(charges, with_prompt, strict=True)
    reserved = tuple(_more(one, more) for one, more in pairs if more.units > one.units)
    left = budget_bytes - sum(charge.nbytes for charge in reserved)
    request_bytes = sum(charge.nbytes for charge in charges)
    requests = left / request_bytes
    return Fit(
        budget_bytes=budget_bytes,
        charges=charges,
        reserved=reserved,
        limits=(Limit(name="memory", requests=requests, about="bytes of a request in all pools"),),
        fixed_bytes=sum(c.nbytes for c in charges if not c.grows),
        bytes_per_token=geometry.rank_bytes_per_token(load.context_parallel),
        tokens=int(max(0.0, requests) * load.context_tokens),
    )


def _more(decoding: Charge, prefilling: Charge) -> Charge:
    """What a request that takes a prompt in holds beyond one that decodes."""
    return replace(
        prefilling,
        name=f"{prefilling.name} of a prompt in flight",
        units=prefilling.units - decoding.units,
        useful_bytes=0,
    )
