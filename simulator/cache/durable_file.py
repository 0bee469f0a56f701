"""Files that survive: on the disk and whole once a write returns, absent if it does not.

Stricter than `simulator.basis.atomic`, which is for reports: the folder is flushed to the device as
well, and a full disk is told with what there is to write and what is free.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from simulator.basis.atomic import temporary_beside
from simulator.basis.errors import DoesNotFitError, InputError

_PIECE_BYTES = 1 << 20
_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up"}
_FULL[errno.EFBIG] = "files may not grow that large here"


def write_durable(target: Path, pieces: Iterable[bytes]) -> None:
    """Write a file beside its target, flush it, rename it over the target, flush the folder.

    Raises DoesNotFitError when the disk is full and InputError for anything else that the system
    refuses; the target is then what it was, and nothing partial is left.
    """
    data = list(pieces)
    temporary = temporary_beside(target)
    try:
        try:
            with temporary.open("xb", buffering=0) as file:
                for piece in data:
                    _write_all(file.fileno(), piece)
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        flush_folder(target.parent)
    except OSError as error:
        raise write_error(target, error, sum(len(piece) for piece in data)) from None


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        # The system may take less than it was given, most of all when the disk is nearly full.
        view = view[os.write(descriptor, view[:_PIECE_BYTES]) :]


def flush_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_error(target: Path, error: OSError, nbytes: int) -> InputError:
    """The sentence for a failed write of `nbytes`; a full disk is a DoesNotFitError."""
    if error.errno not in _FULL:
        return InputError(f"cannot write {target}: {error.strerror or error}")
    free = _free_bytes(target.parent)
    return DoesNotFitError(
        f"cannot write {target}: {_FULL[error.errno]} ({nbytes:,} bytes to write, {free:,} free); "
        "nothing partial was left, make room or name another folder",
        demand_bytes=nbytes,
        capacity_bytes=free,
    )


def _free_bytes(folder: Path) -> int:
    try:
        facts = os.statvfs(folder)
    except OSError:
        return 0
    return facts.f_bavail * facts.f_frsize
