"""Files that are either whole or absent: written beside the target, flushed, then renamed over it.

What a killed process left of a file is removed when the same file is written again.
"""

from __future__ import annotations

import glob
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from simulator.basis.errors import InputError

_TEMPORARY = re.compile(r"^\..+\.(\d+)-[0-9a-f]{8}\.tmp$")


@contextmanager
def atomic_file(path: Path | str) -> Iterator[BinaryIO]:
    """A binary file that takes the name `path` when the block ends, and vanishes if it raises.

    A pipe or device (`/dev/stdout`) is written straight through: renaming would replace it.
    """
    target = Path(path)
    try:
        if _is_special(target):
            with target.open("wb") as file:
                yield file
            return
        target = _followed(target)
        with _beside(target) as file:
            yield file
    except (OSError, UnicodeEncodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {path!s}: {reason}") from error


def write_bytes(path: Path | str, data: bytes) -> None:
    """Write a whole file at once."""
    with atomic_file(path) as file:
        file.write(data)


def write_text(path: Path | str, text: str) -> None:
    """Write a whole UTF-8 file at once."""
    write_bytes(path, text.encode("utf-8"))


def _is_special(target: Path) -> bool:
    if target.is_dir():
        raise IsADirectoryError(21, "it is a directory, expected a file name")
    # Standard output may be redirected into a regular file, which the shell holds open.
    if str(target.absolute().parent) in ("/dev", "/dev/fd", "/proc/self/fd"):
        return True
    return target.exists() and not stat.S_ISREG(target.stat().st_mode)


def _followed(target: Path) -> Path:
    """The file that a link points at, which is what is replaced."""
    try:
        return target.resolve()
    except RuntimeError as error:  # what Python 3.11 says of a link that leads to itself
        raise OSError(40, str(error)) from error


def temporary_beside(target: Path) -> Path:
    """A name for what is to become the target, which tells the process that writes it."""
    return target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def remove_abandoned(folder: Path, name: str | None = None) -> int:
    """Remove temporary files whose process is gone (killed while writing); returns how many.

    Of one target where a name is given, else of all in the folder.
    """
    removed = 0
    for path in list(folder.glob(f".{glob.escape(name) if name else '*'}.*.tmp")):
        match = _TEMPORARY.match(path.name)
        if match and not _alive(int(match.group(1))):
            path.unlink(missing_ok=True)
            removed += 1
    return removed


@contextmanager
def folder_beside(folder: Path, name: str) -> Iterator[Path]:
    """A folder for files that are to be renamed into `folder`; those of killed runs go first."""
    for path in list(folder.glob(f".{glob.escape(name)}-*-*")):
        process = path.name.split("-")[-2]
        if path.is_dir() and process.isdecimal() and not _alive(int(process)):
            shutil.rmtree(path, ignore_errors=True)
    with TemporaryDirectory(prefix=f".{name}-{os.getpid()}-", dir=folder) as apart:
        yield Path(apart)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


@contextmanager
def _beside(target: Path) -> Iterator[BinaryIO]:
    # Opened like any new file, so that the umask decides who may read it (tempfile says 0600).
    temporary = temporary_beside(target)
    remove_abandoned(target.parent, target.name)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
