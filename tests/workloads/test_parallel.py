import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.basis.errors import InputError
from workloads.parallel import ParallelLayout

# 8 ranks: tensor pairs 01 23 45 67; experts in 4 groups, each on the two ranks of a pair.
LAYOUT = ParallelLayout(tensor=2, data=4, expert=4)


def test_ranks_and_parts():
    assert LAYOUT.ranks == 8
    assert LAYOUT.expert_tensor == 2
    assert LAYOUT.divisors() == {
        "heads": 2,
        "groups": 2,
        "shared_ffn": 2,
        "vocab": 2,
        "experts": 4,
        "ffn": 2,
    }
    assert str(LAYOUT) == "tp2 dp4 ep4"


def test_one_chip_divides_nothing():
    assert set(ParallelLayout().divisors().values()) == {1}
    assert set(ParallelLayout().rank_parts(0).values()) == {0}


def test_parts_of_a_rank():
    # Rank 5 is the second of tensor pair 2, and the second of expert group 2.
    parts = LAYOUT.rank_parts(5)
    assert parts == {
        "heads": 1,
        "groups": 1,
        "shared_ffn": 1,
        "vocab": 1,
        "experts": 2,
        "ffn": 1,
    }
    assert list(LAYOUT.tensor_group(5)) == [4, 5]
    assert list(LAYOUT.data_group(5)) == [1, 3, 5, 7]


@st.composite
def layouts(draw):
    tensor, data = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    ranks = tensor * data
    expert = draw(st.sampled_from([d for d in range(1, ranks + 1) if ranks % d == 0]))
    return ParallelLayout(tensor, data, expert)


@given(layouts())
def test_every_part_of_an_axis_is_held_somewhere(layout):
    ranks = range(layout.ranks)
    for axis, parts in layout.divisors().items():
        assert {layout.rank_parts(rank)[axis] for rank in ranks} == set(range(parts))
    pieces = [(layout.rank_parts(r)["experts"], layout.rank_parts(r)["ffn"]) for r in ranks]
    assert len(set(pieces)) == layout.ranks  # every (expert group, inner part) once


@given(layouts())
def test_groups_cut_the_ranks_both_ways(layout):
    for rank in range(layout.ranks):
        tensor, data = layout.tensor_group(rank), layout.data_group(rank)
        assert (len(tensor), len(data)) == (layout.tensor, layout.data)
        assert set(tensor) & set(data) == {rank}
        assert [layout.rank_parts(r)["heads"] for r in tensor] == list(range(layout.tensor))
        assert {layout.rank_parts(r)["heads"] for r in data} == {layout.rank_parts(rank)["heads"]}


@pytest.mark.parametrize("name", ["tensor", "data", "expert"])
def test_degrees_below_one_are_refused(name):
    with pytest.raises(InputError, match=f"{name}-parallel degree must be at least 1, but got 0"):
        ParallelLayout(**{name: 0})


def test_an_expert_degree_that_does_not_divide_the_ranks_is_refused():
    with pytest.raises(InputError) as caught:
        ParallelLayout(tensor=2, data=3, expert=4)
    assert "degree 4 does not divide the 6 ranks" in caught.value.message
    assert "try 1, 2, 3, 6" in caught.value.message
