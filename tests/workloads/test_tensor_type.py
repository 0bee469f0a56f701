import pytest

from workloads.dtype import BF16, FP4_GROUP, FP8_BLOCK, FP32
from workloads.tensor_type import TensorType, activation, vector

EXPERTS = TensorType(
    (("experts", 4), ("gate_up", 2), ("ffn", 192), ("hidden", 64)), FP4_GROUP, lead=1
)


def test_the_query_up_projection_of_flash():
    wq_b = TensorType((("heads", 64), ("head_dim", 512), ("q_lora", 1024)), FP8_BLOCK)
    assert wq_b.matrix == (1, 32_768, 1024)
    assert wq_b.nbytes == 33_554_432 + 2_048


def test_axes_are_matrices_rows_and_columns():
    assert EXPERTS.shape == (4, 2, 192, 64)
    assert EXPERTS.size == 4 * 2 * 192 * 64
    assert EXPERTS.lead_axes == (("experts", 4),)
    assert EXPERTS.row_axes == (("gate_up", 2), ("ffn", 192))
    assert EXPERTS.column_axes == (("hidden", 64),)
    assert EXPERTS.matrix == (4, 384, 64)
    assert EXPERTS.nbytes == 4 * (384 * 64 // 2 + 384 * 2)


def test_several_inner_axes_are_the_columns():
    wo_b = TensorType((("hidden", 130), ("groups", 2), ("o_rank", 64)), FP8_BLOCK, inner=2)
    assert wo_b.matrix == (1, 130, 128)
    assert wo_b.nbytes == 130 * 128 + 2


def test_separate_matrices_have_separate_blocks():
    together = TensorType((("groups", 3), ("rows", 64), ("columns", 128)), FP8_BLOCK)
    apart = TensorType((("groups", 3), ("rows", 64), ("columns", 128)), FP8_BLOCK, lead=1)
    assert together.nbytes == 3 * 64 * 128 + 2  # 192 rows
    assert apart.nbytes == 3 * (64 * 128 + 1)


def test_a_vector_is_one_row():
    assert vector(FP32, ("hidden", 7)).matrix == (1, 1, 7)
    assert vector(FP32, ("hidden", 7)).nbytes == 28
    assert activation(BF16, ("tokens", 0), ("hidden", 7)).nbytes == 0


def test_axes_by_name():
    assert EXPERTS.dim("ffn") == 192
    assert EXPERTS.has("gate_up")
    assert not EXPERTS.has("heads")
    with pytest.raises(KeyError, match="heads"):
        EXPERTS.dim("heads")


def test_divided_keeps_everything_but_the_sizes():
    part = EXPERTS.divided({"experts": 2, "ffn": 3, "heads": 7})
    assert part == TensorType(
        (("experts", 2), ("gate_up", 2), ("ffn", 64), ("hidden", 64)), FP4_GROUP, lead=1
    )
    assert EXPERTS.divided({}) == EXPERTS


def test_divided_refuses_a_remainder():
    with pytest.raises(ValueError, match="5 does not divide axis 'ffn' of size 192"):
        EXPERTS.divided({"ffn": 5})


def test_negative_sizes_are_refused():
    with pytest.raises(ValueError, match="'tokens' has a negative size -1"):
        activation(BF16, ("tokens", -1))
