"""One block of cached state as bytes: versioned, checksummed, with its own key and array types.

Layout, little-endian: magic (8 B), version (u32), header bytes (u32), payload bytes (u64), BLAKE2b
digest (32 B) of everything else, header (JSON: key, and name, dtype, shape and length of every
part), payload (the parts one after the other). The digest covers every byte before and after it, so
no flipped bit, lost tail or stray byte passes.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.basis.errors import InputError

MAGIC = b"V4BLOCK\n"
VERSION = 1
SUFFIX = ".block"
_FIXED = struct.Struct("<8sIIQ")
_DIGEST_BYTES = 32
PREAMBLE_BYTES = _FIXED.size + _DIGEST_BYTES

Key = str | bytes
Part = NDArray[Any] | bytes
Payload = Mapping[str, Part]


class DamagedBlockError(Exception):
    """These bytes are no block of this key; the message says why. A store makes it a miss."""


def file_name(key: Key) -> str:
    """File name of a key: its digest, so that any key fits any file system."""
    kind, text = _key_fields(key)
    digest = hashlib.blake2b(f"{kind}:{text}".encode("utf-8", "surrogatepass"), digest_size=20)
    return digest.hexdigest() + SUFFIX


def encode_block(key: Key, payload: Payload) -> list[bytes]:
    """Pieces of a block file, in order. Arrays may have any plain dtype, shape and memory order."""
    kind, text = _key_fields(key)
    parts = [_part(name, value) for name, value in payload.items()]
    fields = {"kind": kind, "key": text, "parts": [described for described, _ in parts]}
    header = json.dumps(fields, separators=(",", ":")).encode("ascii")
    data = [raw for _, raw in parts]
    fixed = _FIXED.pack(MAGIC, VERSION, len(header), sum(len(raw) for raw in data))
    return [fixed, _digest([fixed, header, *data]), header, *data]


def decode_block(data: bytes, name: str | None = None) -> tuple[Key, dict[str, Part]]:
    """Key and payload of a whole block file; arrays are copies that may be written to.

    `name` is the file's name, which must be that of its key. Raises DamagedBlockError for
    anything that `encode_block` did not write.
    """
    header_bytes, payload_bytes = _check_preamble(data)
    wanted = PREAMBLE_BYTES + header_bytes + payload_bytes
    if len(data) != wanted:
        word = "truncated" if len(data) < wanted else "too long"
        raise DamagedBlockError(f"{word}: {len(data)} bytes of {wanted}")
    body = data[PREAMBLE_BYTES:]
    if _digest([data[: _FIXED.size], body]) != data[_FIXED.size : PREAMBLE_BYTES]:
        raise DamagedBlockError("checksum differs: bits have changed since it was written")
    try:
        key, parts = _decode_body(body[:header_bytes], body[header_bytes:])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedBlockError(f"header cannot be read: {error}") from None
    if name is not None and name != file_name(key):
        raise DamagedBlockError(f"wrong name: the block of key {key!r} belongs to another file")
    return key, parts


def version_of(start: bytes) -> int | None:
    """Version of a block file by its first bytes, None where they are of no block."""
    if len(start) < _FIXED.size or not start.startswith(MAGIC):
        return None
    return int(_FIXED.unpack(start[: _FIXED.size])[1])


def _check_preamble(data: bytes) -> tuple[int, int]:
    if len(data) < PREAMBLE_BYTES:
        raise DamagedBlockError(f"truncated: {len(data)} bytes of at least {PREAMBLE_BYTES}")
    magic, version, header_bytes, payload_bytes = _FIXED.unpack(data[: _FIXED.size])
    if magic != MAGIC:
        raise DamagedBlockError(f"no block file: it starts with {magic!r}")
    if version != VERSION:
        raise DamagedBlockError(f"wrong version: {version}, expected {VERSION}")
    return header_bytes, payload_bytes


def _decode_body(header: bytes, payload: bytes) -> tuple[Key, dict[str, Part]]:
    fields = json.loads(header)
    parts: dict[str, Part] = {}
    start = 0
    for described in fields["parts"]:
        raw = payload[start : start + described["nbytes"]]
        start += described["nbytes"]
        parts[described["name"]] = _restored(described, raw)
    if start != len(payload):
        raise ValueError(f"parts of {start} bytes in a payload of {len(payload)}")
    return _key_of(fields["kind"], fields["key"]), parts


def _key_fields(key: Key) -> tuple[str, str]:
    if isinstance(key, str):
        return "str", key
    return "bytes", key.hex()


def _key_of(kind: str, text: str) -> Key:
    return bytes.fromhex(text) if kind == "bytes" else text


def _part(name: str, value: Part) -> tuple[dict[str, Any], bytes]:
    """What the header says of a part, and its bytes."""
    if not isinstance(value, np.ndarray):
        return {"name": name, "nbytes": len(value)}, bytes(value)
    if not _storable(value.dtype):
        raise InputError(
            f"part {name!r} has dtype {value.dtype}, which a block cannot hold; give an array of "
            "plain numbers"
        )
    described = {"name": name, "dtype": _dtype_word(value.dtype), "shape": list(value.shape)}
    return described | {"nbytes": value.nbytes}, value.tobytes()


def _storable(dtype: np.dtype[Any]) -> bool:
    """Plain numbers, dates and text: what its word in the header brings back."""
    if dtype.hasobject or dtype.fields:
        return False
    try:
        return _dtype(_dtype_word(dtype)) == dtype
    except (AttributeError, TypeError):
        return False


def _dtype_word(dtype: np.dtype[Any]) -> str:
    # bfloat16 and the 8-bit floats are void to numpy's own notation, so they go by name.
    return dtype.name if dtype.kind == "V" else dtype.str


def _dtype(word: str) -> np.dtype[Any]:
    try:
        return np.dtype(word)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, word))


def _restored(described: dict[str, Any], raw: bytes) -> Part:
    if "dtype" not in described:
        return raw
    dtype, shape = _dtype(described["dtype"]), tuple(described["shape"])
    if len(raw) != dtype.itemsize * math.prod(shape):
        raise ValueError(f"{len(raw)} bytes for {dtype} {shape}")
    return np.frombuffer(raw, dtype=dtype).reshape(shape).copy()


def _digest(pieces: Iterable[bytes]) -> bytes:
    total = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for piece in pieces:
        total.update(piece)
    return total.digest()
