"""Write policies: when a cached object is copied to the next lower tier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulator.basis.errors import InputError, unknown_name


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePolicy:
    """When to write down, as answers to the three moments of an object's life in a tier.

    `writes_on_use(uses)`: asked when the object is stored (uses = 0) and each time it is hit.
    `on_eviction`: an object without a lower copy is written when it leaves.
    `exclusive`: a lower copy is dropped when the object is loaded, so that every eviction writes.
    """

    name: str
    writes_on_use: Callable[[int], bool]
    on_eviction: bool
    exclusive: bool = False

    def __reduce__(self) -> tuple[Callable[[str], WritePolicy], tuple[str]]:
        """By its name, as another process finds it."""
        return find_write_policy, (self.name,)

    def on_store(self) -> bool:
        """Whether a new object goes to the lower tier at once."""
        return self.writes_on_use(0)

    def on_hit(self, uses: int, *, lower_copy: bool) -> bool:
        """Whether an object goes to the lower tier at its `uses`-th hit."""
        return not lower_copy and self.writes_on_use(uses)

    def on_evict(self, *, lower_copy: bool) -> bool:
        """Whether an object that leaves is written to the lower tier."""
        return self.on_eviction and not lower_copy


WRITE_POLICIES: dict[str, WritePolicy] = {
    policy.name: policy
    for policy in (
        WritePolicy(name="through", writes_on_use=lambda uses: True, on_eviction=False),
        WritePolicy(name="back", writes_on_use=lambda uses: False, on_eviction=True),
        WritePolicy(
            name="on-eviction", writes_on_use=lambda uses: False, on_eviction=True, exclusive=True
        ),
        # The second use of an object is its first hit after the request that stored it.
        WritePolicy(name="selective", writes_on_use=lambda uses: uses >= 1, on_eviction=False),
    )
}


def find_write_policy(name: str) -> WritePolicy:
    """Write policy by name; raises `InputError` with the nearest name for a typo."""
    policy = WRITE_POLICIES.get(name.strip().lower())
    if policy is None:
        raise InputError(unknown_name("write policy", name, WRITE_POLICIES))
    return policy
