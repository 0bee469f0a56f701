import pytest

from simulator.basis.errors import InputError
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.precision import Precision
from workloads.deepseek_v4.state import model_state


def test_rings_grow_by_draft_tokens_and_compressed_pools_do_not():
    plain, drafting = (
        model_state(find_model("v4-flash"), Precision(), mtp=True, draft_tokens=d) for d in (0, 3)
    )
    assert drafting.growth_bytes_per_token == plain.growth_bytes_per_token
    # 44 windows of 584 B, 21 tails of 8,192 and 2,048 B, 20 of 4,096 B: 3 rows more each.
    assert drafting.fixed_bytes - plain.fixed_bytes == 3 * (44 * 584 + 21 * 10_240 + 20 * 4_096)


def test_the_terms_add_up_at_any_context():
    state = model_state(find_model("v4-pro"), Precision(index="fp4"), mtp=True)
    for context in (0, 1, 127, 128, 131, 2**20):
        terms = state.terms(context)
        assert sum(terms.per_request.values()) == state.fixed_bytes
        assert terms.nbytes == state.nbytes(context)
        assert terms.per_token == {
            "c4": 30 * (context // 4) * 584,
            "c4_index": 30 * (context // 4) * 68,
            "c128": 31 * (context // 128) * 584,
        }


def test_a_negative_number_of_draft_tokens_is_refused():
    with pytest.raises(InputError, match="0 draft tokens or more, but got -1"):
        model_state(find_model("v4-pro"), Precision(), draft_tokens=-1)


def test_every_prediction_layer_keeps_a_window():
    config = find_model("v4-flash")
    three = config.model_copy(update={"num_nextn_predict_layers": 3})
    states = [model_state(c, Precision(), mtp=True) for c in (config, three)]
    # One more window of 128 rows of 584 B for each further layer.
    assert states[1].fixed_bytes - states[0].fixed_bytes == 2 * 128 * 584
    assert states[1].growth_bytes_per_token == states[0].growth_bytes_per_token
    assert model_state(three, Precision()) == model_state(config, Precision())
