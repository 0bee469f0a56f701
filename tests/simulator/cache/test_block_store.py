"""Block store: damage is a miss, the manifest follows the files, a full disk is a sentence."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from simulator.basis.errors import DoesNotFitError, InputError
from simulator.cache.block_file import file_name
from simulator.cache.block_store import FILE_NAME, BlockStore, _line

ROWS = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def store(tmp_path):
    return BlockStore(tmp_path / "blocks")


def _path(store, key):
    return store.folder / file_name(key)


def _partial(folder):
    return [p.name for p in Path(folder).iterdir() if p.name.endswith(".tmp")]


def test_put_get_delete(store):
    nbytes = store.put("a", {"rows": ROWS, "raw": b"xyz"})
    assert nbytes == _path(store, "a").stat().st_size == store.nbytes
    found = store.get("a")
    np.testing.assert_array_equal(found["rows"], ROWS)
    assert found["raw"] == b"xyz"
    assert store.get("b") is None
    store.put(b"a", {"raw": b"other"})
    assert set(store.keys()) == {"a", b"a"}
    assert store.delete("a")
    assert not store.delete("a")
    assert store.keys() == [b"a"]
    assert "a" not in store
    assert store.get("a") is None
    assert not store.damaged, "a miss is no damage"


def test_a_later_block_replaces_an_earlier_one(store):
    store.put("a", {"raw": b"old"})
    store.put("a", {"raw": b"newer"})
    assert store.get("a") == {"raw": b"newer"}
    assert len(store) == 1


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[: len(data) // 2], "truncated"),
        (lambda data: b"", "truncated"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 4]), "checksum differs"),
        (lambda data: data[:8] + b"\0" + data[9:], "wrong version"),
        (lambda data: b"junk" * 100, "no block file"),
    ],
)
def test_damage_is_a_miss_with_a_reason(store, damage, reason):
    store.put("a", {"rows": ROWS})
    store.put("b", {"raw": b"kept"})
    path = _path(store, "a")
    path.write_bytes(damage(path.read_bytes()))
    assert store.get("a") is None
    assert list(store.damaged) == [path.name]
    assert store.damage_reasons == {reason: 1}
    assert store.keys() == ["b"]
    again = BlockStore(store.folder)
    assert again.get("a") is None
    assert again.keys() == ["b"]
    again.put("a", {"rows": ROWS})
    assert again.get("a") is not None
    assert not again.damaged


def test_a_block_under_another_name_is_a_miss(store):
    store.put("a", {"raw": b"of a"})
    _path(store, "a").rename(_path(store, "b"))
    assert store.get("b") is None
    assert store.damage_reasons == {"wrong name": 1}


def test_a_folder_named_like_a_block_is_a_miss(store):
    _path(store, "a").mkdir()
    again = BlockStore(store.folder)
    assert again.get("a") is None
    assert again.damage_reasons == {"unreadable": 1}


def test_opening_takes_the_manifest_at_its_word_for_length_only(store):
    """Bits that flip between runs are met by the first `get`, and by `rebuild`."""
    store.put("a", {"raw": b"abc"})
    path = _path(store, "a")
    path.write_bytes(path.read_bytes()[:-1] + b"d")
    assert BlockStore(store.folder).keys() == ["a"]
    assert BlockStore(store.folder).get("a") is None
    again = BlockStore(store.folder)
    assert again.rebuild() == {}
    assert len(again.damaged) == 1


@pytest.mark.parametrize(
    "harm",
    [
        lambda log: log.unlink(),
        lambda log: log.write_bytes(log.read_bytes()[:-7]),
        lambda log: log.write_bytes(b"\0" * 100),
        lambda log: log.write_bytes(log.read_bytes().replace(b'"put"', b'"pet"')),
        lambda log: log.write_bytes(log.read_bytes().splitlines(keepends=True)[0]),
    ],
    ids=["lost", "torn", "zeros", "altered", "stale"],
)
def test_the_manifest_follows_the_files(store, harm):
    for name in "abc":
        store.put(name, {"raw": name.encode()})
    harm(store.folder / FILE_NAME)
    again = BlockStore(store.folder)
    assert sorted(again.keys()) == ["a", "b", "c"]
    assert again.get("c") == {"raw": b"c"}
    log = (store.folder / FILE_NAME).read_bytes()
    again.rebuild()
    assert (store.folder / FILE_NAME).read_bytes() == log, "opening had put it right already"


def test_files_that_came_or_went_beside_the_store(store, tmp_path):
    store.put("a", {"raw": b"1"})
    other = BlockStore(tmp_path / "other")
    other.put("b", {"raw": b"2"})
    _path(other, "b").rename(_path(store, "b"))
    _path(store, "a").unlink()
    again = BlockStore(store.folder)
    assert again.keys() == ["b"]
    assert store.get("a") is None
    assert store.get("b") == {"raw": b"2"}


def test_the_log_does_not_grow_without_end(store):
    for turn in range(200):
        store.put("a", {"raw": bytes([turn])})
    BlockStore(store.folder)
    assert len((store.folder / FILE_NAME).read_bytes().splitlines()) == 2


def test_order_of_flushes(store, monkeypatch):
    """File flushed, then renamed, then the folder flushed: what a power cut needs."""
    calls = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(descriptor):
        calls.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        fsync(descriptor)

    def watched_replace(source, target):
        calls.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    store.put("a", {"rows": ROWS})
    assert calls == ["file", "rename", "folder"]


@pytest.mark.parametrize(
    ("code", "words"),
    [(errno.ENOSPC, "the disk is full"), (errno.EDQUOT, "the quota is used up")],
)
@pytest.mark.parametrize("room", [0, 100, 1 << 20])
def test_full_disk(store, monkeypatch, code, words, room):
    store.put("a", {"raw": b"old"})
    write, left = os.write, room

    def limited(descriptor, data):
        nonlocal left
        if not left:
            raise OSError(code, os.strerror(code))
        done = write(descriptor, data[:left])
        left -= done
        return done

    monkeypatch.setattr(os, "write", limited)
    with pytest.raises(DoesNotFitError, match=f"{words} .* nothing partial was left") as caught:
        store.put("a", {"rows": np.zeros(300_000)})
    assert caught.value.demand_bytes > 2_400_000
    monkeypatch.undo()
    assert _partial(store.folder) == []
    assert store.get("a") == {"raw": b"old"}
    assert BlockStore(store.folder).get("a") == {"raw": b"old"}


def test_a_log_that_finds_no_room_is_put_right_later(store, monkeypatch):
    store.put("a", {"raw": b"1"})
    write = os.write

    def half(descriptor, data):
        if b"put" in bytes(data[:60]):  # a line of the log
            return write(descriptor, data[: len(data) // 2])
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", half)
    store.put("b", {"raw": b"2"})
    monkeypatch.undo()
    store.put("c", {"raw": b"3"})
    log = (store.folder / FILE_NAME).read_text().splitlines()
    assert len(log) == 3, "head, a, c: half a line was taken back"
    assert sorted(BlockStore(store.folder).keys()) == ["a", "b", "c"]


LIMITED = """
import resource, signal, sys
from simulator.cache.block_store import BlockStore
from simulator.basis.errors import InputError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
store = BlockStore(sys.argv[1])
store.put("small", {"raw": b"fits"})
try:
    store.put("large", {"raw": bytes(200_000)})
except InputError as error:
    print(error.message)
print(store.keys())
"""


def test_a_limit_that_the_system_sets(tmp_path):
    """The real refusal of the kernel, in a process whose files may hold 100,000 bytes."""
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=True)
    sentence, keys = done.stdout.splitlines()
    assert "files may not grow that large here (200," in sentence
    assert keys == "['small']"
    assert _partial(tmp_path) == []
    assert BlockStore(tmp_path).get("small") == {"raw": b"fits"}


def test_partial_files_of_the_living_are_left_alone(store):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    theirs = store.folder / f".x.block.{os.getppid()}-0123abcd.tmp"
    dead = store.folder / f".x.block.{gone.pid}-0123abcd.tmp"
    for path in (theirs, dead):
        path.write_bytes(b"half")
    again = BlockStore(store.folder)
    assert again.abandoned == 1
    assert theirs.exists()
    assert not dead.exists()


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot keep blocks in .*file"):
        BlockStore(tmp_path / "file")


def test_a_block_of_a_newer_version_is_never_overwritten(tmp_path):
    store = BlockStore(tmp_path)
    store.put("a", {"x": b"old"})
    path = tmp_path / file_name("a")
    newer = path.read_bytes()
    newer = newer[:8] + (2).to_bytes(4, "little") + newer[12:]
    path.write_bytes(newer)
    assert store.get("a") is None
    with pytest.raises(InputError, match=r"block of version 2, newer than .*not overwritten"):
        store.put("a", {"x": b"new"})
    with pytest.raises(InputError, match="not overwritten"):
        BlockStore(tmp_path).put("a", {"x": b"new"})
    assert path.read_bytes() == newer
    older = newer[:8] + bytes(4) + newer[12:]
    path.write_bytes(older)  # what an older version wrote gives way
    store.put("a", {"x": b"new"})
    assert store.get("a") == {"x": b"new"}


def test_a_manifest_of_a_newer_version_is_never_overwritten(tmp_path):
    BlockStore(tmp_path).put("a", {"x": b"1"})
    path = tmp_path / "manifest.jsonl"
    newer = _line({"manifest": 2}) + b"of another form\n"
    path.write_bytes(newer)
    store = BlockStore(tmp_path)
    assert store.get("a") == {"x": b"1"}
    store.put("b", {"x": b"2"})
    store.delete("a")
    store.rebuild()
    assert store.keys() == ["b"]
    assert path.read_bytes() == newer
    open_before = BlockStore(tmp_path / "other")
    open_before.put("a", {"x": b"1"})
    (tmp_path / "other" / "manifest.jsonl").write_bytes(newer)
    open_before.put("b", {"x": b"2"})
    assert (tmp_path / "other" / "manifest.jsonl").read_bytes() == newer
