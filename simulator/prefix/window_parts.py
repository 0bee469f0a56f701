"""Ways to keep the sliding-window state of a shared prefix; a policy is a sum of some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simulator.basis.errors import InputError
from simulator.prefix.granularity import whole_granules
from simulator.prefix.window_geometry import ReplayWork, WindowGeometry


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSpan:
    """What a request adds to the cache, in tokens from the start of the prompt.

    `known`: leading tokens that were known before. `prompt`: end of the prompt. `resend`: tokens of
    it that an equal prompt can find, which computes its last one at least. `end`: end of the reply.
    A window can be kept at boundaries in (`resumed`, `end`], the tokens that were computed.
    """

    resumed: int
    known: int
    resend: int
    prompt: int
    end: int


class WindowPart:
    """One way; the defaults keep nothing and replay nothing.

    A new way says where it keeps windows (`kept`) or how it makes up for them (`replay`); what else
    is asked of it follows. `marks`: places at the ends of prompts or where prompts part, which must
    be remembered; without any, windows are kept by their position alone. `everywhere`: a window is
    live at any boundary. `exact`: the resumed run equals an uncached one. `trimmed`: its replay
    runs only the layers and tokens that windows depend on.
    """

    marks: tuple[str, ...] = ()
    everywhere = False
    exact = True
    trimmed = False

    @property
    def stores_windows(self) -> bool:
        """Whether it keeps windows apart from the pages."""
        return type(self).kept is not WindowPart.kept

    def boundary(self, run: int) -> int:
        """Largest boundary up to `run` known tokens that holds a window by its position alone."""
        if self.marks:
            return 0
        span = StoredSpan(resumed=0, known=0, resend=run, prompt=run, end=run)
        return max(self.kept(span, 1), default=0)

    def fault(self, granule: int) -> str | None:
        """Why it does not go with engines that hit whole `granule` tokens alone; None if fine."""
        return None

    def kept(self, span: StoredSpan, granule: int) -> Iterable[int]:
        """Boundaries at which a request leaves a window, ascending."""
        return ()

    def replay(self, distance: int, geometry: WindowGeometry) -> ReplayWork | None:
        """Work that makes up for a missing window `distance` tokens after one, if allowed."""
        return None

    def clip(self, distance: int, geometry: WindowGeometry) -> ReplayWork | None:
        """Exact replay that is taken instead of a longer way from the last window, if allowed."""
        return None


@dataclass(frozen=True, slots=True)
class Full(WindowPart):
    """Window rows of every token."""

    everywhere = True

    def boundary(self, run: int) -> int:
        """Anywhere."""
        return run


@dataclass(frozen=True, slots=True)
class Periodic(WindowPart):
    """A window every `period` tokens; the tokens behind the last one are computed again.

    `clips`: at most n_win x L of them, which are enough; engines go the whole way.
    """

    period: int
    clips: bool = True

    def boundary(self, run: int) -> int:
        """Last multiple of the period."""
        return whole_granules(run, self.period)

    def fault(self, granule: int) -> str | None:
        """Windows between the granules would never be hit."""
        if self.period % granule == 0:
            return None
        near = max(1, round(self.period / granule)) * granule
        return (
            f"a period of {self.period:,} tokens is no multiple of the {granule:,} of a hit; "
            f"nearest is {near:,}"
        )

    def kept(self, span: StoredSpan, granule: int) -> Iterable[int]:
        """Multiples of the period, those within a last block that only equal prompts have too."""
        first = whole_granules(span.resumed, self.period) + self.period
        return range(first, max(span.end, span.resend) + 1, self.period)

    def clip(self, distance: int, geometry: WindowGeometry) -> ReplayWork | None:
        """All layers over n_win x L tokens."""
        return geometry.whole(distance) if self.clips else None


@dataclass(frozen=True, slots=True)
class Boundary(WindowPart):
    """A window at the end of every prompt and of every reply, cut to a whole granule.

    A prompt that ends with a granule leaves two: at its end for prompts that go on from it, and one
    granule before for equal ones, whose last token has to be computed.

    Assumes: engines keep both. vLLM 0.33 keeps the earlier one alone unless it drafts with the
    model's own layer, so that the first prompt that goes on computes one granule more there.
    """

    marks = ("prompt_end", "reply_end")

    def kept(self, span: StoredSpan, granule: int) -> Iterable[int]:
        """Ends of prompt and reply."""
        ends = {whole_granules(end, granule) for end in (span.resend, span.prompt, span.end)}
        return sorted(end for end in ends if end > span.resumed)


@dataclass(frozen=True, slots=True)
class PromptReplay(WindowPart):
    """A window where an equal prompt resumes, which computes its last token at least."""

    marks = ("prompt_end",)

    def kept(self, span: StoredSpan, granule: int) -> Iterable[int]:
        """The last whole granule before the last token."""
        end = whole_granules(span.resend, granule)
        return (end,) if end > span.resumed else ()


@dataclass(frozen=True, slots=True)
class Junction(WindowPart):
    """A window where a prompt left the known prefix, so that the next one that parts there hits."""

    marks = ("junction",)

    def kept(self, span: StoredSpan, granule: int) -> Iterable[int]:
        """End of the known prefix, if it was computed again."""
        junction = whole_granules(span.known, granule)
        return (junction,) if junction > span.resumed else ()


@dataclass(frozen=True, slots=True)
class Zero(WindowPart):
    """No window; the last n_win x L tokens run again through all layers.

    Trimmed: only the triangle of layers and tokens that the windows depend on.
    """

    trimmed: bool = False

    def replay(self, distance: int, geometry: WindowGeometry) -> ReplayWork:
        """Exact for any distance."""
        return geometry.trimmed(distance) if self.trimmed else geometry.whole(distance)


@dataclass(frozen=True, slots=True)
class Bounded(WindowPart):
    """No window; a fixed number of tokens runs again.

    Assumes: bounded replay is approximate: windows of upper layers differ from an uncached run.
    """

    tokens: int

    exact = False

    def replay(self, distance: int, geometry: WindowGeometry) -> ReplayWork:
        """At most `tokens` tokens through all layers."""
        tokens = min(distance, self.tokens)
        return ReplayWork(tokens, tokens * geometry.layers, tokens * geometry.layers)


def no_value(part: type[WindowPart], name: str, value: str | None) -> WindowPart:
    """A part that takes no value."""
    if value is not None:
        raise InputError(f"window policy '{name}:{value}': {name} takes no value, write '{name}'")
    return part()


def tokens_value(name: str, value: str | None, least: int) -> int:
    """The token count that follows a name, such as 4096 or 4_096."""
    digits = (value or "").replace("_", "")
    tokens = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else 0
    if not least <= tokens <= 1 << 40:
        given = f"'{name}:{value}'" if value is not None else f"'{name}'"
        raise InputError(
            f"window policy {given}: {name} needs a whole number of tokens of at least {least:,} "
            f"and at most 2^40, such as '{name}:4096'"
        )
    return tokens
