"""Cached state on a disk, one file a block: whole or absent, and never wrong data.

    store = BlockStore("cache")
    store.put("prefix/128", {"window": rows})
    store.get("prefix/128")["window"]

A block that is truncated, altered, of another version or under another name is a miss, counted with
its reason in `damaged`. The manifest is rebuilt from the files wherever the two differ. What a
newer version of this program wrote is never overwritten, be it a block or the manifest.
"""

from __future__ import annotations

import json
import os
import stat
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.basis.atomic import remove_abandoned
from simulator.basis.errors import InputError
from simulator.cache.block_file import (
    PREAMBLE_BYTES,
    SUFFIX,
    DamagedBlockError,
    Key,
    Part,
    Payload,
    decode_block,
    encode_block,
    file_name,
    version_of,
)
from simulator.cache.block_file import (
    VERSION as BLOCK_VERSION,
)
from simulator.cache.durable_file import (
    flush_folder,
    write_durable,
    write_error,
)

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
    """The log in one folder: only appended to, each line with its checksum.

    `lines` counts what it holds, superseded lines included. `newer`: a newer version wrote it, so
    that it is left alone. The block files are the truth. The log
    only spares reading all of them when a store is opened; a line that was torn, or a log that was
    lost, costs a look at the files and nothing else.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self.lines = 0
        self.newer = False

    def load(self) -> dict[str, BlockRecord]:
        """Records by file name, as far as the log is whole; an unknown version holds none."""
        records: dict[str, BlockRecord] = {}
        self.lines, self.newer = 0, False
        try:
            data = self.path.read_bytes()
        except OSError:
            return records
        for number, line in enumerate(data.splitlines(keepends=True)):
            fields = _read_line(line)
            if fields is None or (number == 0 and fields != _HEAD):
                self.newer = number == 0 and _is_newer(fields)
                break
            self.lines += 1
            if number and not _apply(records, fields):
                break
        return records

    def write(self, records: Iterable[BlockRecord]) -> None:
        """Replace the log by one line a record, but for one of a newer version."""
        if self._holds_newer():
            return
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
        if self._holds_newer():
            return
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

    def _holds_newer(self) -> bool:
        """Whether a newer version has written the log, perhaps since it was loaded."""
        if not self.newer:
            try:
                with self.path.open("rb") as stream:
                    self.newer = _is_newer(_read_line(stream.readline(1 << 16)))
            except OSError:
                return False
        return self.newer


def _is_newer(head: dict[str, Any] | None) -> bool:
    version = (head or {}).get("manifest")
    return isinstance(version, int) and version > VERSION


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


_SUPERSEDED_LINES = 64
"""Log lines beyond the blocks' own at which opening a store writes the manifest anew."""


class BlockStore:
    """Blocks in one folder, which is made if need be.

    `damaged` maps the name of every damaged file that was met to the reason; `abandoned` counts
    the partial files of killed writers that opening removed. Several processes may write to one
    folder; each sees the others' blocks by `get` at once, and by `keys` when it opens the store.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.damaged: dict[str, str] = {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.abandoned = remove_abandoned(self.folder)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"cannot keep blocks in {self.folder}: {reason}") from None
        self._manifest = Manifest(self.folder)
        self._records: dict[str, BlockRecord] = {}
        self._reconcile()

    def put(self, key: Key, payload: Payload) -> int:
        """Store a block, over an earlier one of its key; returns the bytes of its file.

        The block is on the disk when this returns. Raises DoesNotFitError when the disk is full,
        InputError when it refuses, or where a newer version has written the block of this key; the
        earlier block, if any, is then still there.
        """
        name, pieces = file_name(key), encode_block(key, payload)
        self._refuse_newer(name)
        write_durable(self.folder / name, pieces)
        record = BlockRecord(file=name, key=key, nbytes=sum(len(piece) for piece in pieces))
        self._records[name] = record
        self.damaged.pop(name, None)
        self._manifest.add(record)
        return record.nbytes

    def _refuse_newer(self, name: str) -> None:
        try:
            with (self.folder / name).open("rb") as stream:
                found = version_of(stream.read(PREAMBLE_BYTES))
        except OSError:
            return  # none, or nothing that could be read: writing says what is wrong
        if found is not None and found > BLOCK_VERSION:
            raise InputError(
                f"{self.folder / name} is a block of version {found}, newer than the "
                f"{BLOCK_VERSION} that is written here, and is not overwritten: delete it, or keep "
                "blocks in another folder"
            )

    def get(self, key: Key) -> dict[str, Part] | None:
        """Payload of a block, or None: never stored, deleted, or damaged."""
        found = self._read(file_name(key))
        return None if found is None else found[1]

    def delete(self, key: Key) -> bool:
        """Remove a block; False where there is none."""
        name = file_name(key)
        path = self.folder / name
        try:
            path.unlink()
            flush_folder(self.folder)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise write_error(path, error, 0) from None
        self._records.pop(name, None)
        self.damaged.pop(name, None)
        self._manifest.drop(name)
        return True

    def keys(self) -> list[Key]:
        """Keys of all blocks that are not known to be damaged."""
        return [record.key for record in self._records.values()]

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: Key) -> bool:
        return file_name(key) in self._records

    @property
    def nbytes(self) -> int:
        """Bytes of all block files."""
        return sum(record.nbytes for record in self._records.values())

    @property
    def damage_reasons(self) -> Counter[str]:
        """Damaged files by kind of damage (`truncated`, `checksum differs`, ...)."""
        return Counter(reason.partition(":")[0] for reason in self.damaged.values())

    def rebuild(self) -> dict[Key, BlockRecord]:
        """Read and check every file, and write the manifest anew; returns its records by key."""
        self.damaged.clear()
        self._records = {}
        for name, _ in self._files():
            self._read(name)
        self._manifest.write(self._records.values())
        return {record.key: record for record in self._records.values()}

    def _reconcile(self) -> None:
        """Take the manifest's word for files of the same name and length; read the others."""
        listed = self._manifest.load()
        present = dict(self._files())
        for name, nbytes in present.items():
            record = listed.get(name)
            if record is not None and record.nbytes == nbytes:
                self._records[name] = record
            else:
                self._read(name)
        superseded = self._manifest.lines - 1 - len(self._records)
        if self._records != listed or not 0 <= superseded <= _SUPERSEDED_LINES:
            # A folder that is full or may only be read serves what it holds all the same.
            with suppress(InputError):
                self._manifest.write(self._records.values())

    def _read(self, name: str) -> tuple[Key, dict[str, Part]] | None:
        """Key and payload of a file that is whole; otherwise it is struck off, with its reason."""
        try:
            data = self._content(name)
            key, payload = decode_block(data, name)
        except FileNotFoundError:
            self._strike_off(name)
            return None
        except DamagedBlockError as error:
            self._strike_off(name)
            self.damaged[name] = str(error)
            return None
        self.damaged.pop(name, None)
        self._records[name] = BlockRecord(file=name, key=key, nbytes=len(data))
        return key, payload

    def _content(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DamagedBlockError(f"unreadable: {error.strerror or error}") from None

    def _strike_off(self, name: str) -> None:
        if self._records.pop(name, None) is not None:
            self._manifest.drop(name)

    def _files(self) -> Iterator[tuple[str, int]]:
        """(name, bytes) of everything named like a block; -1 bytes for what is no regular file."""
        with os.scandir(self.folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                if entry.name.endswith(SUFFIX):
                    facts = entry.stat(follow_symlinks=False)
                    yield entry.name, facts.st_size if stat.S_ISREG(facts.st_mode) else -1
