import pytest

from simulator.basis.errors import InputError
from simulator.cache.allocator import StateSlots


def test_the_lowest_free_slot_comes_first_also_after_slots_were_taken_by_number():
    slots = StateSlots(4)
    assert [slots.take(1), slots.take(), slots.take()] == [1, 0, 2]
    slots.release(1)
    slots.release(0)
    assert [slots.take(), slots.take(1), slots.take()] == [0, 1, 3]
    assert slots.free == 0
    slots.release(1)
    assert slots.take() == 1


def test_what_is_not_free_or_not_live_is_refused():
    slots = StateSlots(2)
    slots.take(1)
    with pytest.raises(InputError, match=r"request row 1 is not free; free rows are \[0\]"):
        slots.take(1)
    with pytest.raises(InputError, match="request row 7 is not free"):
        slots.take(7)
    with pytest.raises(InputError, match=r"request row 0 is not live; live rows are \[1\]"):
        slots.release(0)
    slots.take()
    with pytest.raises(InputError, match="all 2 request rows are taken"):
        slots.take()
    with pytest.raises(InputError, match="1 request row or more, but got 0"):
        StateSlots(0)
