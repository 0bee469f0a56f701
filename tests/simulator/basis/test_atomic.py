"""A file is whole or absent, whatever happens while it is written."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.basis.atomic import atomic_file, remove_abandoned, write_bytes, write_text
from simulator.basis.errors import InputError


def test_text_is_written_as_utf8_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    write_text(path, "new ×")
    assert path.read_bytes() == "new ×".encode()
    assert os.listdir(tmp_path) == ["a.txt"]


def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail() -> None:
        with atomic_file(path) as file:
            file.write(b"half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with atomic_file(tmp_path / "a.txt") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert os.listdir(tmp_path) == []


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    write_bytes(tmp_path / "ours", b"")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_text(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "x"


def test_devices_are_written_through() -> None:
    write_text("/dev/null", "x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_pipe_is_written_through(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    write_text(fifo, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write .*missing/a\.txt: No such file"):
        write_text(tmp_path / "missing" / "a.txt", "x")
    with pytest.raises(InputError, match="it is a directory"):
        write_text(tmp_path, "x")


def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], **_PIPED)
    gone, alive = int(ended.stdout), os.getpid()
    for name in (f".a.txt.{gone}-00000000.tmp", f".a.txt.{alive}-00000000.tmp"):
        (tmp_path / name).write_text("half")
    (tmp_path / f".other.txt.{gone}-00000000.tmp").write_text("of another file")
    write_text(tmp_path / "a.txt", "new")
    left = {f".a.txt.{alive}-00000000.tmp", f".other.txt.{gone}-00000000.tmp", "a.txt"}
    assert set(os.listdir(tmp_path)) == left
    assert remove_abandoned(tmp_path) == 1


_PIPED = {"capture_output": True, "check": True}
