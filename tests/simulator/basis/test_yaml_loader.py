"""Every refusal of the loader: file, line, one sentence; and the YAML 1.2 scalars it takes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from simulator.basis.errors import FileFormatError, InputError, UnsupportedError
from simulator.basis.sourced import BytesPerSecond
from simulator.basis.yaml_loader import (
    KeyFaultError,
    StrictModel,
    compose_yaml,
    load_json_mapping,
    load_yaml,
)

Write = Callable[..., Path]


class Link(StrictModel):
    bandwidth: BytesPerSecond
    lanes: int = 1


class Box(StrictModel):
    name: str
    link: Link
    sizes: Annotated[tuple[int, ...], Field(max_length=3)] = ()
    either: int | str | None = None
    nested: Link | int | None = None
    links: dict[str, Link] = Field(default_factory=dict)
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    mode: Literal["fast", "slow"] = "fast"
    on: bool = False


GOOD = """\
name: a
link:
  bandwidth: {value: 4.8, unit: TB/s, kind: published, source: datasheet}
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def _write(text: str, name: str = "box.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return _write


def refusal(path: Path, schema: type[StrictModel] = Box) -> str:
    with pytest.raises(FileFormatError) as caught:
        load_yaml(path, schema)
    message = caught.value.message
    assert "\n" not in message
    assert message.startswith(f"{path}:")
    return message[len(f"{path}:") :]


def scalar(write: Write, word: str) -> Any:
    return compose_yaml(write(f"x: {word}\n"))[0]["x"]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("4.8e12", 4.8e12),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("+12", 12),
        ("0o17", 15),
        ("0x1F", 31),
        ("010", 10),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("8:30", "8:30"),
        ("1_000", "1_000"),
        ("2026-08-01", "2026-08-01"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("'4.8'", "4.8"),
        ('"true"', "true"),
        ("=", "="),
    ],
)
def test_scalars_follow_yaml_1_2(write: Write, word: str, value: object) -> None:
    got = scalar(write, word)
    assert got == value
    assert type(got) is type(value)


def test_good_file_loads_frozen(write: Write) -> None:
    box = load_yaml(write(GOOD + "sizes: [1, 2]\nshare: 1\neither: no\n"), Box)
    assert box.link.bandwidth.si == 4_800_000_000_000
    assert box.sizes == (1, 2)
    assert box.share == 1.0
    assert box.either == "no"
    with pytest.raises(ValidationError):
        box.name = "b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # unknown, missing and duplicate keys
        (GOOD + "nmae: 1\n", "4: unknown key 'nmae': did you mean 'name'? known are either, link,"),
        (
            GOOD.replace("{value", "{vallue: 1, value"),
            "3: unknown key 'link.bandwidth.vallue': did you mean 'value'? known are kind, note,",
        ),
        (
            GOOD + "links: {a: {lanez: 2}}\n",
            "4: unknown key 'links.a.lanez': did you mean 'lanes'?",
        ),
        ("name: a\n", "1: missing key 'link'"),
        (GOOD.replace("link:", "lnik:"), "2: unknown key 'lnik': did you mean 'link'? known are"),
        (GOOD.replace("unit: TB/s, ", ""), "3: missing key 'link.bandwidth.unit'"),
        (GOOD + "name: b\n", "4: duplicate key 'name', first given on line 1"),
        (GOOD + "  lanes: 1\n  lanes: 2\n", "5: duplicate key 'link.lanes', first given on line 4"),
        # wrong types and impossible values
        (GOOD + "sizes: [1, 2.5]\n", "4: 'sizes[1]' is 2.5, expected a whole number"),
        (GOOD + "sizes:\n- 1\n- x\n", "6: 'sizes[1]' is 'x', expected a whole number"),
        (GOOD + "sizes: 3\n", "4: 'sizes' is 3, expected a list"),
        (GOOD + "sizes: [1, 2, 3, 4]\n", "4: 'sizes' is a list of 4, expected at most 3 entries"),
        (GOOD + "share: 0\n", "4: 'share' is 0, expected more than 0"),
        (GOOD + "share: 1.5\n", "4: 'share' is 1.5, expected at most 1"),
        (GOOD + "share: half\n", "4: 'share' is 'half', expected a number"),
        (GOOD + "on: 1\n", "4: 'on' is 1, expected true or false"),
        (GOOD + "on: yes\n", "4: 'on' is 'yes', expected true or false"),
        (GOOD.replace("name: a", "name: 3"), "1: 'name' is 3, expected text"),
        (GOOD.replace("name: a", "name:"), "1: 'name' is null, expected text"),
        (GOOD + "links: [1]\n", "4: 'links' is a list of 1, expected a mapping"),
        (
            GOOD + "mode: fats\n",
            "4: 'mode' is 'fats', expected 'fast' or 'slow'; did you mean 'fast'?",
        ),
        (
            "name: a\nlink: 4.8e12\n",
            "2: 'link' is 4800000000000.0, expected a mapping with the keys bandwidth, "
            "lanes (optional)",
        ),
        # unions read as one sentence
        (GOOD + "either: [1]\n", "4: 'either' is a list of 1, expected a whole number or text"),
        (
            GOOD + "nested: abc\n",
            "4: 'nested' is 'abc', expected a mapping with the keys bandwidth, lanes (optional) "
            "or a whole number",
        ),
        (GOOD + "nested:\n  bandwidth: 3\n", "5: 'nested.bandwidth' is 3, expected a mapping"),
        (
            GOOD.replace("4.8", "fast"),
            "3: 'link.bandwidth.value' is 'fast', expected a number",
        ),
        # the first of several, and their count
        (
            GOOD.replace("name: a", "name: 3") + "zzz: 1\nshare: 9\n",
            "1: 'name' is 3, expected text (and 2 more errors in this file)",
        ),
        # what YAML would allow and nobody means
        (GOOD + "either: .nan\n", "4: 'either' is .nan, expected a finite number"),
        (GOOD + "either: -.INF\n", "4: 'either' is -.INF, expected a finite number"),
        (GOOD + "share: 1e999\n", "4: 'share' is 1e999, expected a finite number"),
        (GOOD + f"either: {'9' * 500}\n", "4: 'either' has 500 digits, expected at most 400"),
        (GOOD + "either: &x 3\n", "4: anchors and aliases are not supported"),
        (GOOD + "either: *x\n", "4: not valid YAML: found undefined alias"),
        (GOOD + "<<: {name: b}\n", "4: merge key '<<' is not supported"),
        (GOOD + "either: !!int 3\n", "4: tags such as '!!int' are not supported"),
        (GOOD + "either: !thing {}\n", "4: tags such as '!!int' are not supported"),
        (GOOD + "? [1, 2]\n: 3\n", "4: a key is a sequence, expected a name"),
        (GOOD + "---\nname: b\n", "4: a second document starts here, expected one document"),
        # text that is no mapping or no YAML
        ("", "1: the file is empty, expected a mapping of keys"),
        ("# only a comment\n\n", "1: the file is empty, expected a mapping of keys"),
        ("- 1\n", "1: the file is a list, expected a mapping of keys"),
        ("\nhello\n", "2: the file is 'hello', expected a mapping of keys"),
        ("name: a\nlink:\n\tbandwidth: 1\n", "3: the line is indented with a tab, expected spaces"),
        ("name: [1\nlink: 2\n", "2: not valid YAML: while parsing a flow sequence"),
        ("name: a: b\n", "1: not valid YAML: mapping values are not allowed"),
        ("name: a\nx: \x01\n", "2: not valid YAML: control characters are not allowed"),
        ("name: " + "[" * 5000, "1: "),
    ],
)
def test_refusals_name_file_line_and_expectation(write: Write, text: str, expected: str) -> None:
    message = refusal(write(text))
    assert message.startswith(expected), message


def test_more_errors_are_counted_once_a_place(write: Write) -> None:
    message = refusal(write(GOOD + "either: [1]\nnested: abc\n"))
    assert message.endswith("(and 1 more error in this file)")


class Checked(StrictModel):
    low: int
    inner: tuple[int, ...]

    def model_post_init(self, _context: object) -> None:
        if self.low == 1:
            raise KeyFaultError(("inner", 1), "inner[1] is wrong")
        if self.low == 2:
            raise KeyFaultError(("low",), "low is not supported", UnsupportedError)
        if self.low == 3:
            raise UnsupportedError("three is not supported")
        if self.low == 4:
            raise ValueError("low is four")


@pytest.mark.parametrize(
    ("low", "line", "sentence", "kind"),
    [
        (1, 4, "inner[1] is wrong", FileFormatError),
        (2, 1, "low is not supported", UnsupportedError),
        (3, 1, "three is not supported", UnsupportedError),
        (4, 1, "low is four", FileFormatError),
    ],
)
def test_faults_of_validators_find_their_line(
    write: Write, low: int, line: int, sentence: str, kind: type[InputError]
) -> None:
    path = write(f"low: {low}\ninner:\n- 1\n- 2\n")
    with pytest.raises(kind) as caught:
        load_yaml(path, Checked)
    assert caught.value.message == f"{path}:{line}: {sentence}"


def test_unreadable_files(tmp_path: Path, write: Write) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: no such file"):
        load_yaml(tmp_path / "none.yaml", Box)
    with pytest.raises(InputError, match="expected a file, this is a folder"):
        load_yaml(tmp_path, Box)
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"name: a\nlink: caf\xe9\n")
    with pytest.raises(FileFormatError, match=r"latin\.yaml:2: byte 17 is not UTF-8"):
        load_yaml(path, Box)


def test_byte_order_mark_and_windows_lines(write: Write) -> None:
    path = write("\ufeff" + GOOD.replace("\n", "\r\n"))
    assert load_yaml(path, Box).name == "a"


def test_lines_of_keys(write: Write) -> None:
    _, lines = compose_yaml(write(GOOD + "sizes:\n- 1\n- 2\n"))
    assert lines(()) == 1
    assert lines(("link", "bandwidth", "unit")) == 3
    assert lines(("sizes", 1)) == 6
    assert lines(("link", "absent", "deeper")) == 2  # the nearest ancestor that exists


class Counted(StrictModel):
    n_layers: int


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1,\n "b": 2,\n "a": 3}', "3: duplicate key 'a', first given on line 1"),
        ('{"a": {"b": 1},\n "b": {"c": 2,\n "c": 3}}', "3: duplicate key 'b.c', first given"),
        ('{"a": 1,\n\t"\\u0061": 3}', "2: duplicate key 'a', first given on line 1"),
        ('{"a":\n NaN}', "2: NaN given, expected a finite number"),
        ('{"a":\n -Infinity}', "2: -Infinity given, expected a finite number"),
        ('{"a":\n 1e999}', "2: 1e999 given, expected a finite number"),
        ('{"a": 1,\n}', "2: not valid JSON:"),
        ("[1]", "1: the file is not a mapping, expected a JSON object"),
        ("", "1: not valid JSON: Expecting value"),
        ('{"a": ' + "9" * 5000 + "}", "1: not valid JSON: Exceeds the limit"),
        ('{"a": ' + "[" * 200_000, "1: nested too deeply"),
    ],
)
def test_json_refusals(write: Write, text: str, expected: str) -> None:
    path = write(text, "config.json")
    with pytest.raises(FileFormatError) as caught:
        load_json_mapping(path)
    assert caught.value.message.startswith(f"{path}:{expected}"), caught.value.message


def test_json_gives_data_and_lines(write: Write) -> None:
    data, lines = load_json_mapping(write('{\n\t"a": 1e-6,\n\t"b": ["x\\/y", true, null]\n}'))
    assert data == {"a": 1e-6, "b": ["x/y", True, None]}
    assert lines(("b",)) == 3


def test_the_leaf_loads_without_heavy_libraries() -> None:
    code = (
        "import sys, simulator.basis.yaml_loader, simulator.basis.sourced;"
        "print([m for m in ('pandas', 'simpy', 'numpy', 'yaml') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
