"""The list of a store's blocks: an append-only log of lines that each carry their checksum.

The block files are the truth. The log only spares reading all of them when a store is opened; a
line that was torn, or a log that was lost, costs a look at the files and nothing else.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.cache.block_file import Key
from simulator.cache.durable_file import write_durable

FILE_NAME = "manifest.jsonl"
VERSION = 1
_HEAD = {"manifest": VERSION}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRecord:
    """One block of a store: its file, its key, the length of its file."""

    file: str
    key: Key
    nbytes: int


class Manifest:
    """The log in one folder. `lines` counts what it holds, superseded lines included."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self.lines = 0

    def load(self) -> dict[str, BlockRecord]:
        """Records by file name, as far as the log is whole; an unknown version holds none."""
        records: dict[str, BlockRecord] = {}
        self.lines = 0
        try:
            data = self.path.read_bytes()
        except OSError:
            return records
        for number, line in enumerate(data.splitlines(keepends=True)):
            fields = _read_line(line)
            if fields is None or (number == 0 and fields != _HEAD):
                break
            self.lines += 1
            if number and not _apply(records, fields):
                break
        return records

    def write(self, records: Iterable[BlockRecord]) -> None:
        """Replace the log by one line a record."""
        lines = [_line(_HEAD), *(_line(_put_fields(record)) for record in records)]
        write_durable(self.path, [b"".join(lines)])
        self.lines = len(lines)

    def add(self, record: BlockRecord) -> None:
        """Log a block that has been stored."""
        self._append(_put_fields(record))

    def drop(self, file: str) -> None:
        """Log a block that has gone."""
        self._append({"drop": file})

    def _append(self, fields: dict[str, Any]) -> None:
        """Best effort: a line that the disk refuses is taken back, and found again on opening."""
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        except OSError:
            return
        try:
            whole = os.fstat(descriptor).st_size
            line = _line(fields)
            try:
                complete = os.write(descriptor, line) == len(line)
            except OSError:
                complete = False
            if not complete:
                os.ftruncate(descriptor, whole)
        finally:
            os.close(descriptor)
        self.lines += complete


def _line(fields: dict[str, Any]) -> bytes:
    text = json.dumps(fields, separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _read_line(line: bytes) -> dict[str, Any] | None:
    checksum, _, text = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text):
        return None
    fields = json.loads(text)
    return fields if isinstance(fields, dict) else None


def _put_fields(record: BlockRecord) -> dict[str, Any]:
    kind = "key" if isinstance(record.key, str) else "hex"
    key = record.key if isinstance(record.key, str) else record.key.hex()
    return {"put": record.file, kind: key, "nbytes": record.nbytes}


def _apply(records: dict[str, BlockRecord], fields: dict[str, Any]) -> bool:
    """Take a line over; False where it says nothing that this version knows."""
    if "drop" in fields:
        records.pop(fields["drop"], None)
        return True
    try:
        key = fields["key"] if "key" in fields else bytes.fromhex(fields["hex"])
        record = BlockRecord(file=fields["put"], key=key, nbytes=fields["nbytes"])
    except (KeyError, TypeError, ValueError):
        return False
    records[record.file] = record
    return True
