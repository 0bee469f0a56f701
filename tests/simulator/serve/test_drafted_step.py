"""Drafts are added to a step by hand; the pass of the MTP layer is that of the whole graph."""

import pytest

from simulator.basis.errors import InputError
from simulator.cost.engine_price import engine_price
from simulator.cost.question import ask
from simulator.cost.step_clock import DecodeGroup
from simulator.cost.step_timer import StepTimer, distinct_layers, draft_layer
from simulator.cost.timeline import layer_durations
from simulator.engine.lowering import lower
from simulator.serve.deployment import DraftedStep, deploy
from simulator.serve.scenario import Speculation
from simulator.serve.scenario_file import open_scenario
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.graph import build_graph
from workloads.sharding import shard
from workloads.step_shape import StepShape

WINDOW = 128


class Passes:
    """A pass takes 10 ps a token; what was asked is kept."""

    def __init__(self):
        self.asked = []

    def __call__(self, step):
        self.asked.append(step)
        return 10 * step.tokens


def drafted(step, drafts):
    passes = Passes()
    clock = DraftedStep(lambda step: 1000 + step.tokens, passes, drafts, WINDOW)
    return clock.total_ps(step), passes.asked


def test_decoding_requests_draft_one_token_after_another():
    total, asked = drafted(StepShape.uniform(5, 4, 900_000), 3)
    # The backbone: 1,000 + 20; a pass over 20 tokens; two more over one token of each of 5.
    assert total == 1020 + 200 + 2 * 50
    assert asked == [StepShape.uniform(5, 4, WINDOW), StepShape.uniform(5, 1, WINDOW)]


def test_one_draft_needs_one_pass():
    total, asked = drafted(StepShape.uniform(5, 2, 50), 1)
    assert total == 1010 + 100
    assert asked == [StepShape.uniform(5, 2, 50)]


def test_a_block_is_drafted_in_one_pass():
    passes = Passes()
    clock = DraftedStep(lambda step: 1000, passes, 5, WINDOW, passes=1)
    assert clock.total_ps(StepShape.uniform(2, 6, 4000)) == 1000 + 120
    assert passes.asked == [StepShape.uniform(2, 6, WINDOW)]


def test_prompts_pass_once_and_only_decoding_requests_again():
    total, asked = drafted(StepShape(((512, 0), (4, 8000), (4, 9000))), 3)
    assert total == 1520 + 5200 + 2 * 20
    assert asked[-1] == StepShape.uniform(2, 1, WINDOW)
    assert drafted(StepShape(((4, 0),)), 3)[0] == 1004 + 40


@pytest.mark.parametrize(
    "layout",
    [
        {"model": "v4-flash", "chip": "h200", "count": 4, "engine": "sglang-0.5"},
        {"model": "v4-pro", "chip": "b200", "count": 8, "dp": 8, "ep": 8, "engine": "vllm-0.33"},
    ],
)
@pytest.mark.parametrize(("batch", "new"), [(8, 1), (16, 4), (1, 4096)])
def test_a_pass_is_that_of_the_mtp_layer_in_the_whole_graph(layout, batch, new):
    asked = ask(batch=layout.get("dp", 1), **layout)
    timer = StepTimer(asked, drafting=True)
    step, own = StepShape.uniform(batch, new, 8191), asked.question.layout.data
    backbone, _ = distinct_layers(asked.config)
    ratios = (*backbone.layer_ratios, *(stage.ratio for stage in asked.config.mtp_stages))
    whole = backbone.model_copy(update={"num_nextn_predict_layers": 1, "compress_ratios": ratios})
    graph = build_graph(whole, step.split(own), timer.precision, mtp=True)
    kernels = lower(
        shard(graph, asked.question.layout, step.tokens), timer.target.profile, timer.stats
    )
    prices = [engine_price(kernel.demand, timer.target) for kernel in kernels]
    assert timer.total_ps(step) == layer_durations(kernels, prices, asked.chip)["mtp"]
    assert timer.total_ps(step) == timer.kernel_by_kernel_ps(step)


def test_a_model_without_an_mtp_layer_cannot_draft():
    config = find_model("tiny").model_copy(update={"num_nextn_predict_layers": 0})
    with pytest.raises(InputError, match="has no MTP layer"):
        draft_layer(config)


def test_a_scenario_with_speculation_pays_for_its_drafts():
    changes = ["speculation={draft_tokens: 3, accepted: [1.79, 2.27, 2.5]}"]
    clock = deploy(open_scenario("fixed-8k1k", changes)).clock
    asked = ask(model="v4-flash", chip="h200", count=8, engine="sglang-0.5")
    verify = StepTimer(asked)
    draft = StepTimer(asked, drafting=True)
    verified = verify.total_ps(StepShape.uniform(64, 4, 8188))
    drafts = draft.total_ps(StepShape.uniform(64, 4, 8188))
    drafts += 2 * draft.total_ps(StepShape.uniform(64, 1, 8188))
    found = clock.decode_ns([DecodeGroup(requests=64, context_sum=64 * 8192.0)])
    assert found == pytest.approx((verified + drafts) / 1000, rel=0.01)
    block = deploy(open_scenario("fixed-8k1k", [*changes, "speculation.passes=1"])).clock
    drafts = draft.total_ps(StepShape.uniform(64, 4, 8188))
    found = block.decode_ns([DecodeGroup(requests=64, context_sum=64 * 8192.0)])
    assert found == pytest.approx((verified + drafts) / 1000, rel=0.01)


def test_every_mtp_layer_passes_once_over_all_tokens():
    step = StepShape(((512, 0), (5, 8000), (5, 9000)))
    passes = Passes()
    clock = DraftedStep(lambda step: 1000, passes, 4, WINDOW, layers=3)
    # Three passes over 522 tokens, and the last layer once more over one token of each of 2.
    assert clock.total_ps(step) == 1000 + 3 * 5220 + 20
    assert passes.asked[-1] == StepShape.uniform(2, 1, WINDOW)
    # Layers beyond the drafts of a step do not run.
    assert DraftedStep(lambda step: 1000, passes, 1, WINDOW, layers=3).total_ps(step) == 6220


def test_three_mtp_layers_draft_as_the_one_does_and_others_cannot():
    one = find_model("v4-flash")
    three = one.model_copy(update={"num_nextn_predict_layers": 3})
    assert draft_layer(three) == draft_layer(one)
    mixed = three.model_copy(update={"compress_ratios": (*one.layer_ratios, 0, 4, 0)})
    with pytest.raises(InputError, match=r"MTP layers of several kinds .*\[0, 4, 0\]"):
        draft_layer(mixed)


def test_acceptance_by_position_is_acceptance_by_drafts() -> None:
    by_position = Speculation(draft_tokens=3, accepted_by_position=(0.79, 0.48, 0.22))
    assert by_position.tokens_by_drafts == pytest.approx((1.79, 2.27, 2.49))
    by_drafts = Speculation(draft_tokens=3, accepted=(1.79, 2.27, 2.49))
    assert by_position.tokens_per_step == pytest.approx(by_drafts.tokens_per_step)
