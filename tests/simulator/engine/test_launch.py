"""Launch commands: every known flag is read, unknown ones are refused together, defaults hold."""

import pytest

from hwmodels.chip import find_chip
from simulator.basis.errors import InputError
from simulator.capacity.capacity import capacity_of
from simulator.capacity.capacity_question import ask_capacity
from simulator.deployment import ask_deployment
from simulator.engine.launch import engine_flags, read_launch, usual_step_tokens
from simulator.engine.profile import list_profiles

VLLM = (
    "vllm serve deepseek-ai/DeepSeek-V4-Flash --tensor-parallel-size 8 "
    "--gpu-memory-utilization 0.9 --max-num-batched-tokens 8192 --block-size 256"
)
SGLANG = (
    "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V4-Flash --tp 8 --dp 8 "
    "--enable-dp-attention --moe-a2a-backend deepep --mem-fraction-static 0.88 "
    "--chunked-prefill-size 32768 --max-running-requests 512 --cuda-graph-bs 1 2 4 --port 30000"
)
# Flags that mean something only beside others.
ALONE = ("--dp-size", "--speculative-eagle-topk", "--speculative-num-draft-tokens")
VALUES = {
    "drafts": '{"num_speculative_tokens": 1}',
    **{"whole": "2", "number": "0.5", "size": "128K", "text": "name"},
}


def test_a_command_of_vllm_is_our_options() -> None:
    found = read_launch(VLLM, find_chip("b200"))
    assert found.deployment == {
        "model": "deepseek-ai/DeepSeek-V4-Flash",
        "engine": "vllm-0.33",
        **{"count": 8, "tp": 8, "dp": 1, "pp": 1, "ep": 1},
        **{"memory_share": 0.9, "page_tokens": 256},
    }
    assert found.step_tokens == 8192
    assert "--block-size 256 is --page-tokens 256" in found.read


def test_a_command_of_sglang_divides_its_ranks_and_limits() -> None:
    found = read_launch(SGLANG)
    degrees = {name: found.deployment[name] for name in ("count", "tp", "dp", "ep", "exchange")}
    assert degrees == {"count": 8, "tp": 1, "dp": 8, "ep": 8, "exchange": "deepep"}
    assert (found.step_tokens, found.running_requests) == (4096, 64)
    assert any("--port" in sentence for sentence in found.idle)


def test_a_command_of_tensorrt_llm_with_underscores() -> None:
    found = read_launch(
        "trtllm-serve org/model --tp_size 4 --max_num_tokens 4096 --backend pytorch"
    )
    assert found.deployment["engine"] == "trtllm-1.3"
    assert (found.deployment["count"], found.step_tokens) == (4, 4096)


def test_what_is_answered_is_what_the_options_answer() -> None:
    launch = read_launch(VLLM, find_chip("b200"))
    asked = ask_capacity(chip="b200", in_flight_tokens=launch.step_tokens, **launch.deployment)
    typed = ask_capacity(
        model="v4-flash", chip="b200", count=8, engine="vllm-0.33", memory_share=0.9,
        in_flight_tokens=8192, page_tokens=256, ep=1,
    )  # fmt: skip
    assert capacity_of(asked).requests == capacity_of(typed).requests


def test_all_faults_are_told_at_once() -> None:
    command = "vllm serve m --tensor-paralel-size 8 --enforce-eager --gpu-memory-utilization much"
    with pytest.raises(InputError) as caught:
        read_launch(command)
    assert "--tensor-paralel-size is not known (did you mean --tensor-parallel-size?)" in str(
        caught.value
    )
    assert "--enforce-eager cannot be answered" in str(caught.value)
    assert "--gpu-memory-utilization is 'much', expected a number" in str(caught.value)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ollama run v4", "which starts no known engine; known are vllm serve"),
        ("vllm serve 'm", "is a quote open?"),
        ("sglang serve --model m --tp 8 --dp 8", "without --enable-dp-attention starts 8 servers"),
        ("sglang serve --model m --tp 8 --dp 3 --enable-dp-attention", "does not divide the 8"),
        ("vllm serve m -tp 2 --tensor-parallel-size 4", "comes after -tp 2: give one"),
        ("vllm serve m --kv-cache-dtype int8", "known here are auto, fp8"),
        ("vllm serve m --speculative-config 3", "expected JSON with num_speculative_tokens"),
        ("vllm serve m --speculative-config '{\"method\": \"ngram\", "
         "\"num_speculative_tokens\": 2}'", "drafts by 'ngram' are not modelled"),
        ("vllm serve m --block-size", "--block-size needs a value"),
        ("sglang serve --model m --speculative-num-draft-tokens 5", "is not the 1 that a chain"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_answered_says_why(command: str, words: str) -> None:
    with pytest.raises(InputError, match=r".*") as caught:
        read_launch(command)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", engine_flags())
def test_every_flag_of_the_table_is_read_or_refused(name: str) -> None:
    engine = engine_flags()[name]
    spelt = [n for own, flag in engine.flags.items() for n in (own, *flag.also)]
    assert len(spelt) == len(set(spelt))
    for own, flag in engine.flags.items():
        assert sum(x is not None for x in (flag.sets, flag.idle, flag.refused)) == 1, own
        value = next(iter(flag.words)) if flag.words else VALUES[flag.kind]
        command = f"{engine.starts[0]} {own}" + ("" if flag.switch else f" '{value}'")
        if flag.refused is not None or own in ALONE:
            with pytest.raises(InputError, match="launch command: "):
                read_launch(command)
            continue
        read = read_launch(command)
        assert flag.idle is None or any(own in sentence for sentence in read.idle)


def test_every_profile_of_the_table_is_there() -> None:
    named = {name for engine in engine_flags().values() for name in engine.profiles}
    assert named <= set(list_profiles())


@pytest.mark.parametrize(
    ("engine", "chip", "ranks", "tokens"),
    [
        ("vllm-0.33", "h200", 1, 8192),
        ("vllm-0.33", "a100", 1, 2048),
        ("vllm-0.33", "h200", 8, 8192),
        ("sglang-0.5", "h200", 1, 8192),
        ("sglang-0.5", "b200", 1, 16384),
        ("sglang-0.5", "b200", 8, 2048),
        ("ideal", "b200", 8, 8192),
    ],
)
def test_tokens_a_step_are_the_engines_own(engine: str, chip: str, ranks: int, tokens: int) -> None:
    assert usual_step_tokens(engine, find_chip(chip), ranks) == tokens
    asked = ask_deployment(model="v4-flash", chip=chip, count=8, dp=ranks, engine=engine)
    assert asked.step_tokens == tokens


def test_the_share_of_memory_is_vllms_own() -> None:
    asked = ask_deployment(model="v4-flash", chip="b200", count=8, engine="vllm-0.33")
    assert asked.memory_share == 0.9
