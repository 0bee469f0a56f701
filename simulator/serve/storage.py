"""What the tiers of the prefix caches held over a run, and how it wears and costs."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.serve.run import ServingRun
from simulator.serve.tiered_prefixes import DEVICE

NS_AN_HOUR = 3.6e12
HOURS_A_YEAR = 8766
# Servers and drives are written off over this time.
YEARS_IN_USE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUse:
    """A tier that kept prefixes during the run: what it held over time, what was written to it.

    `loaded_tokens`: of hits that came from it. `wear_share`: share of the writes that the tier
    endures; None where it does not wear.
    """

    name: str
    gb_hours: float
    usd: float = 0.0
    written_bytes: int = 0
    read_bytes: int = 0
    loaded_tokens: int = 0
    wear_share: float | None = None


def storage_of(run: ServingRun) -> tuple[StorageUse, ...]:
    """Tiers of all replicas together, fastest first; none without a prefix cache.

    Assumes: a tier is paid for in whole, written off over 5 years; device memory is paid with the
        chips.
    """
    if not run.prefixes:
        return ()
    hours = run.end_ns / NS_AN_HOUR
    found = []
    for place, store in enumerate(run.prefixes[0].cache.stores):
        tier = store.tier
        stores = [prefixes.cache.stores[place] for prefixes in run.prefixes]
        written = sum(one.written_bytes for one in stores)
        usd = 0.0
        if tier.price is not None and tier.name != DEVICE:
            whole = tier.price.si * tier.capacity_bytes / 1e9 * len(stores)
            usd = whole * hours / (YEARS_IN_USE * HOURS_A_YEAR)
        years = tier.device_years(written, run.end_ns / 1e9) if written else None
        found.append(
            StorageUse(
                name=tier.name,
                gb_hours=sum(p.byte_ns[tier.name] for p in run.prefixes) / 1e9 / NS_AN_HOUR,
                usd=usd,
                written_bytes=written,
                read_bytes=sum(one.read_bytes for one in stores),
                loaded_tokens=sum(p.loaded_tokens[tier.name] for p in run.prefixes),
                wear_share=None if years is None else hours / HOURS_A_YEAR / years / len(stores),
            )
        )
    return tuple(found)
