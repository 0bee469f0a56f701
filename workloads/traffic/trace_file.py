"""A trace file, plain or gzip, as lines or JSON rows; faults name their line."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from simulator.basis.errors import FileFormatError, InputError

_GZIP_MAGIC = b"\x1f\x8b"
_HEAD_BYTES = 1 << 16
_HEAD_ROWS = 50
_HEAD_ROWS_BYTES = 1 << 20


class TraceFile:
    """A file to be read; opened anew by every method, gzip told by its first two bytes.

    `seen`: names of the keys or columns that rows have had so far, in order of appearance.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.seen: dict[str, None] = {}

    def see(self, names: Iterable[str]) -> None:
        """Keep the names of a row's keys."""
        self.seen.update(dict.fromkeys(names))

    @property
    def name(self) -> str:
        """File name without its folders."""
        return self.path.name

    def at(self, line: int) -> str:
        """`file:line`, as messages begin."""
        return f"{self.path}:{line}"

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Numbered lines that are not blank, from 1."""
        number = 0
        try:
            with self.open() as stream:
                for number, line in enumerate(stream, 1):
                    if line.strip():
                        yield number, line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise self.bad_gzip(number + 1) from error

    def json_rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Numbered JSON objects, one a line."""
        loads = json.loads
        for number, line in self.lines():
            try:
                row = loads(line)
            except (ValueError, RecursionError) as error:
                raise self._damaged(number, line, error) from error
            if type(row) is not dict:
                raise FileFormatError(
                    f"{self.at(number)}: a JSON {type(row).__name__}, expected an object a line"
                )
            self.see(row)
            yield number, row

    def _damaged(self, number: int, line: bytes, error: Exception) -> FileFormatError:
        reason = getattr(error, "msg", None) or type(error).__name__
        length = len(line.rstrip())
        place = min(getattr(error, "pos", 0) + 1, length)
        end = "" if line.endswith(b"\n") else ", and the file ends there"
        return FileFormatError(
            f"{self.at(number)}: truncated or damaged JSON ({reason} at character "
            f"{place} of {length}{end}); fetch the file again or cut it after line {number - 1}"
        )

    def bad_gzip(self, line: int) -> FileFormatError:
        """The refusal of compressed data."""
        return FileFormatError(
            f"{self.at(line)}: the gzip data end early or are damaged; fetch it again"
        )

    @cached_property
    def head(self) -> bytes:
        """The first bytes, for telling the format."""
        try:
            with self.open() as stream:
                return stream.read(_HEAD_BYTES)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise self.bad_gzip(1) from error

    @cached_property
    def header(self) -> tuple[str, ...]:
        """Column names of the first line, if it reads as CSV of at least two columns."""
        first = self.head.decode("utf-8-sig", errors="replace").split("\n", 1)[0]
        return (
            () if first.lstrip()[:1] in ("{", "[") else tuple(p.strip() for p in first.split(","))
        )

    @cached_property
    def first_rows(self) -> tuple[dict[str, Any], ...]:
        """JSON objects at the beginning; empty where the first line is none."""
        if self.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
            return ()
        rows: list[dict[str, Any]] = []
        taken = 0
        for _, line in self.lines():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                break  # said with its line when the file is read
            if type(row) is not dict:
                break
            rows.append(row)
            taken += len(line)
            if len(rows) == _HEAD_ROWS or taken > _HEAD_ROWS_BYTES:
                break
        return tuple(rows)

    def open(self) -> BinaryIO:
        """The bytes, unpacked."""
        try:
            stream = self.path.open("rb")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"cannot read trace {self.path}: {reason}") from error
        magic = stream.read(2)
        stream.seek(0)
        if magic == _GZIP_MAGIC:
            return io.BufferedReader(_OwningGzip(stream))
        return stream


class TraceFolder(TraceFile):
    """A folder of JSON files in order of their names, each one object: a file stands for a line."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        names = [*path.glob("*.json"), *path.glob("*.json.gz")]
        self.files = [TraceFile(name) for name in sorted(names)]
        if not self.files:
            raise InputError(f"cannot read trace {path}: the folder holds no .json file")

    def at(self, line: int) -> str:
        """The file's name."""
        return str(self.files[line - 1].path)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Whole files, numbered from 1."""
        for number, file in enumerate(self.files, 1):
            yield number, b"".join(line for _, line in file.lines())

    @cached_property
    def head(self) -> bytes:
        """The first bytes of the first file."""
        return self.files[0].head


class _OwningGzip(gzip.GzipFile):
    """Closes the file below it too, which GzipFile leaves open when it did not open it."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(fileobj=stream, mode="rb")
        self._below = stream

    def close(self) -> None:
        """Close both."""
        super().close()
        self._below.close()
