"""Prompts as text: ShareGPT, OpenAI batch and the `custom` JSONL of engines' benchmarks.

Text has no length in tokens. Such a file is refused with what it lacks, unless characters a token
are given: then lengths are estimates, and equal beginnings of texts are shared prefixes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from simulator.basis.errors import FileFormatError, InputError
from simulator.basis.whole import ceil_div
from workloads.traffic.draft import Draft, counted
from workloads.traffic.fields import items, tokens
from workloads.traffic.reader_options import Reader, ReaderOptions
from workloads.traffic.trace import NO_REQUEST
from workloads.traffic.trace_file import TraceFile

BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A prompt; `reply`: its text, `reply_tokens`: its length where the file says it, or None.

    `chat`: requests of one chat follow each other. `limit`: a limit of the reply, no length.
    """

    line: int
    prompt: str
    reply: str | None = None
    reply_tokens: int | None = None
    chat: int | None = None
    limit: int | None = None


Requests = Callable[[TraceFile], Iterator[TextRequest]]


def _reader_of(name: str, requests: Requests) -> Callable[[TraceFile, ReaderOptions], Draft]:
    def read(file: TraceFile, options: ReaderOptions) -> Draft:
        """Estimated lengths, all asked at 0.

        Assumes: lengths of texts are estimated where asked for: characters by those of a token.
        """
        found = list(requests(file))
        if options.chars_per_token is None:
            raise InputError(f"{file.path}: {_lacking(name, found)}")
        return _estimated(Draft(file, name), found, options.chars_per_token, options.block_tokens)

    return read


def _lacking(name: str, found: list[TextRequest]) -> str:
    """What a file says and what it does not, in a sentence."""
    distinct = len({request.prompt for request in found})
    outputs = sorted({r.reply_tokens for r in found if r.reply_tokens is not None})
    limits = sorted({r.limit for r in found if r.limit is not None})
    said = f"{counted(len(found), 'request')} with {counted(distinct, 'distinct prompt')} ({name})"
    if outputs:
        said += f", outputs of {_range_of(outputs)} tokens"
    if limits:
        said += f", max_tokens {_range_of(limits)}, which is a limit and not a length"
    return (
        f"{said}; lengths of prompts in tokens are unknown, as the file has text alone: give "
        "--estimate-tokens CHARACTERS (of a token, about 4 for English) to have them estimated"
    )


def _range_of(values: list[int]) -> str:
    low, high = values[0], values[-1]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _estimated(
    draft: Draft, found: list[TextRequest], chars: float, block_tokens: int | None
) -> Draft:
    draft.use_blocks(block_tokens, BLOCK_TOKENS)
    draft.fixed_block = True  # the blocks are cut here
    blocks: dict[tuple[int, str], int] = {}
    last: dict[int, int] = {}
    unanswered = limited = 0
    for request in found:
        length = max(1, _tokens_of(request.prompt, chars))
        answer = request.reply_tokens
        if answer is None and request.reply is not None:
            answer = _tokens_of(request.reply, chars)
        unanswered += answer is None
        limited += answer is None and request.limit is not None
        name = ("line", request.line) if request.chat is None else ("chat", request.chat)
        parent = NO_REQUEST if request.chat is None else last.get(request.chat, NO_REQUEST)
        number = draft.add(
            request.line, length, answer or 0,
            arrival_ns=0, session=draft.session_number(name), parent=parent, id_tokens=length,
        )  # fmt: skip
        if request.chat is not None:
            last[request.chat] = number
        draft.ids.add_list(_ids(request.prompt, length, chars * draft.block_tokens, blocks, draft))
    draft.notes.append(
        f"lengths are estimated at {chars:g} characters a token, and blocks cut from the text: "
        "equal beginnings are shared; no request has an arrival, all are asked at 0 s"
    )
    if limited:
        draft.notes.append(
            f"max_tokens of {counted(limited, 'request')} is a limit and not a length: their "
            "outputs are unknown and taken as 0"
        )
    if unanswered - limited:
        draft.notes.append(f"{counted(unanswered - limited, 'request')} without a reply: output 0")
    return draft


def _tokens_of(text: str, chars: float) -> int:
    return -int(-len(text) // chars)


def _ids(
    text: str, length: int, step: float, blocks: dict[tuple[int, str], int], draft: Draft
) -> list[int]:
    """Ids of the blocks of a text, the last one perhaps partial; each stands for all before it."""
    ids, before = [], -1
    for k in range(ceil_div(length, draft.block_tokens)):
        piece = text[round(k * step) : round((k + 1) * step)]
        before = blocks.setdefault((before, piece), len(blocks))
        ids.append(before)
    return ids


def _chats(file: TraceFile) -> Iterator[TextRequest]:
    """ShareGPT: every reply of the model is a request with all before it as prompt."""
    for number, chat in enumerate(_array(file), 1):
        file.see(chat if type(chat) is dict else ())
        turns = chat.get("conversations") if type(chat) is dict else None
        if type(turns) is not list:
            raise FileFormatError(f"{file.path}: chat {number} has no list 'conversations'")
        before = ""
        waiting = False
        for turn in turns:
            if type(turn) is not dict or type(turn.get("value")) is not str:
                raise FileFormatError(f"{file.path}: chat {number}: a turn without text 'value'")
            if turn.get("from") in ("gpt", "assistant", "model"):
                if waiting:
                    yield TextRequest(number, before, reply=turn["value"], chat=number)
                waiting = False
            else:
                waiting = True
            before += turn["value"]
        if waiting:
            yield TextRequest(number, before, chat=number)


def _array(file: TraceFile) -> Iterable[Any]:
    """Entries of a file that is one JSON list."""
    data = b"".join(line for _, line in file.lines())
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise FileFormatError(
            f"{file.at(line)}: truncated or damaged JSON ({getattr(error, 'msg', error)}); fetch "
            "the file again"
        ) from error
    if type(found) is not list:
        raise FileFormatError(f"{file.at(1)}: a JSON {type(found).__name__}, expected a list")
    return found


def _batch(file: TraceFile) -> Iterator[TextRequest]:
    """OpenAI batch: the messages of a body, or its prompt."""
    for line, row in file.json_rows():
        body = row.get("body")
        if type(body) is not dict:
            raise FileFormatError(f"{file.at(line)}: 'body' is {body!r:.60}, expected an object")
        parts = []
        for message in items(file, line, body, "messages") or []:
            content = message.get("content") if type(message) is dict else None
            if type(content) is not str:
                raise FileFormatError(
                    f"{file.at(line)}: a message without text 'content', expected text alone"
                )
            parts.append(f"{message.get('role', '')}\n{content}\n")
        prompt = body.get("prompt", "")
        if not parts and (type(prompt) is not str or not prompt):
            raise FileFormatError(f"{file.at(line)}: no 'messages' and no 'prompt' in the body")
        key = next((k for k in ("max_completion_tokens", "max_tokens") if k in body), None)
        limit = None if key is None else tokens(file, line, body, key)
        yield TextRequest(line, "".join(parts) or prompt, limit=limit)


def _custom(file: TraceFile) -> Iterator[TextRequest]:
    """A prompt a line, with the tokens to be answered where the file says them."""
    for line, row in file.json_rows():
        if type(row.get("prompt")) is not str:
            raise FileFormatError(
                f"{file.at(line)}: 'prompt' is {row.get('prompt')!r:.60}, expected text"
            )
        stated = row.get("output_tokens")
        answer = None if stated is None else tokens(file, line, row, "output_tokens")
        yield TextRequest(line, row["prompt"], reply_tokens=answer)


def _first_keys(file: TraceFile) -> set[str]:
    return set(file.first_rows[0]) if file.first_rows else set()


SHAREGPT = Reader(
    "ShareGPT chats, text alone",
    lambda file: file.head.lstrip()[:1] == b"[" and b'"conversations"' in file.head,
    _reader_of("sharegpt", _chats),
    frozenset({"id", "conversations"}),
    "none: all are asked at 0",
)
OPENAI_BATCH = Reader(
    "OpenAI batch JSONL, text alone",
    lambda file: {"custom_id", "body"} <= _first_keys(file),
    _reader_of("openai-batch", _batch),
    frozenset({"body", "custom_id", "method", "url"}),
    "none: all are asked at 0",
)
CUSTOM_PROMPTS = Reader(
    "custom JSONL of benchmarks: prompt, output_tokens",
    lambda file: "prompt" in _first_keys(file),
    _reader_of("custom", _custom),
    frozenset({"prompt", "output_tokens"}),
    "none: all are asked at 0",
)
