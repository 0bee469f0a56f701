"""Layout sections of profiles: faults are sentences with file and line; copies work."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.basis.errors import FileFormatError
from simulator.engine import profile as profile_module
from simulator.engine.entry_bytes import find_row_format, row_formats
from simulator.engine.profile import find_profile, layout_of
from workloads.deepseek_v4.config import find_model
from workloads.deepseek_v4.precision import Precision

PROFILES = Path(profile_module.__file__).parent / "profiles"


def edited(tmp_path: Path, name: str, old: str, new: str) -> Path:
    text = (PROFILES / f"{name}.yaml").read_text()
    assert old in text
    path = tmp_path / "own.yaml"
    path.write_text(text.replace(old, new, 1))
    return path


def placed(name: str, old: str, sentence: str) -> str:
    """Pattern with the line on which the edited text stands."""
    before = (PROFILES / f"{name}.yaml").read_text().partition(old)[0]
    return sentence.replace("LINE", str(before.count("\n") + 1))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "{name: c128_states, pools: [hca_state]}",
            "{name: c128_states, pools: [csa_state]}",
            r"own.yaml:\d+: 'layout': groups do not add up to the 7 pools: hca_state in none; "
            "csa_state in more than one$",
        ),
        ("    csa_state:", "    c5_state:", "c5_state"),
        (
            "window: {lives: sliding, page_tokens",
            "window: {lives: sliding, reaches",
            "'page_tokens'",
        ),
        ("window: {lives: sliding", "window: {lives: context", "pool window forgets its rows"),
        (
            "kind: blocks",
            "kind: block",
            r"own.yaml:LINE: 'layout.sizing.kind' is 'block', expected one of 'exact', 'ratio', "
            r"'cap', 'blocks'; did you mean 'blocks'\?$",
        ),
        ("    kind: blocks\n", "", r"own.yaml:\d+: missing key 'layout.sizing.kind'$"),
        ("split: 2", "split: 1000000000", "is 1000000000, expected at most 1024"),
        ("hit_tokens: 256", "hit_tokens: 100", "100 tokens do not end at pages of 256; try 256"),
        (
            "fp8: kv_fp8,",
            "fp8: kv_fp88,",
            r"own.yaml:LINE: 'layout.formats': unknown row format 'kv_fp88': did you mean 'kv_fp8'",
        ),
        ("index: {fp8", "state: state_fp16\n    index: {fp8", "unknown row format 'state_fp16'"),
        (
            "csa: {lives: context,",
            "csa: {duplicate: nothing, lives: context,",
            r"own.yaml:LINE: 'layout.pools.csa': unknown row format 'nothing'",
        ),
        (
            "csa_state: {lives: sliding,",
            "csa_state: {draft_reaches: 9, lives: sliding,",
            "draft_reaches belongs to pools sized by reaches",
        ),
    ],
)
def test_faults(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    with pytest.raises(FileFormatError, match=placed("vllm-0.33", old, sentence)):
        find_profile(edited(tmp_path, "vllm-0.33", old, new))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "window: {lives: sliding, page_tokens: 256",
            "window: {lives: request, reaches: 1",
            "pool window lives by 'request', which sizing by ratio has no memory for; "
            "expected 'sliding'$",
        ),
        (
            "csa_state: {lives: window_page, reaches: 1, draft_reaches: 2",
            "csa_state: {lives: sliding, page_tokens: 4",
            "pool csa_state lives by 'sliding', which sizing by ratio has no memory for; "
            "expected 'window_page' or 'request'$",
        ),
        (
            "reaches: 1, draft_r",
            "reaches: 3, draft_r",
            "2 reaches with speculative decoding, but 3 w",
        ),
        (
            "fp4, nearest",
            "fp4, not_onn: [], nearest",
            r"own.yaml:LINE: unknown key 'layout.formats.needs.index_fp4.not_onn': did you mean",
        ),
        (
            "index_fp4: {multiplies",
            "index_fp5: {multiplies",
            "'index_fp5' stores no index key here",
        ),
        ("priced_as: index_fp8", "priced_as: fp8", r"own.yaml:LINE: .*unknown row format 'fp8'"),
    ],
)
def test_faults_of_fixed_pools(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    with pytest.raises(FileFormatError, match=placed("sglang-0.5", old, sentence)):
        find_profile(edited(tmp_path, "sglang-0.5", old, new))


def test_rule_without_origin(tmp_path: Path) -> None:
    own = edited(tmp_path, "ideal", '  source: "DeepSeek-V4 report 3.5.1, nothing padded"\n', "")
    with pytest.raises(FileFormatError, match="needs either a 'source' or a 'guess'"):
        find_profile(own)


def test_sizing_without_origin(tmp_path: Path) -> None:
    own = edited(
        tmp_path, "ideal", "    kind: exact\n    source:", "    kind: exact\n    guess: ' ' #"
    )
    with pytest.raises(
        FileFormatError, match=r"own.yaml:\d+: 'layout.sizing': a rule needs either"
    ):
        find_profile(own)


def test_layout_of_another_profile_by_name(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text('name: own\nversion: "1"\nkernels: vllm\nlayout: vllm-0.22\n')
    assert layout_of(find_profile(own)) == layout_of(find_profile("vllm-0.22"))
    own.write_text('name: own\nversion: "1"\nkernels: vllm\n')
    assert layout_of(find_profile(own)) == layout_of(find_profile("ideal"))


def test_row_formats_agree_with_the_packed_arrays() -> None:
    config = find_model("v4-pro")
    for kv in ("fp8", "bf16"):
        packed = Precision(kv=kv).kv_format(config).nbytes
        assert find_row_format(f"kv_{kv}").nbytes(512, 64) == packed
    for index in ("fp8", "fp4", "bf16"):
        packed = Precision(index=index).index_format(config).nbytes
        assert find_row_format(f"index_{index}").nbytes(128) == packed


def test_published_row_bytes() -> None:
    found = {n: f.nbytes(512, 64) for n, f in row_formats().items() if n.startswith("kv_")}
    assert found == {
        "kv_fp8": 584,
        "kv_fp8_uniform": 512,
        "kv_bf16": 1024,
        "kv_fp8_a5": 640,
        "kv_fp8_planes": 512 + 128,
        "kv_mxfp4": 368,
        "kv_nvfp4": 384,
    }
    index = {n: f.nbytes(128) for n, f in row_formats().items() if n.startswith("index_")}
    assert index == {"index_fp8": 132, "index_fp4": 68, "index_bf16": 256, "index_int8": 130}
