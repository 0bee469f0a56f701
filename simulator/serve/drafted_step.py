"""Duration of a step with speculation: the backbone verifies, then MTP layers draft again."""

from __future__ import annotations

from collections.abc import Callable

from workloads.step_shape import StepShape

Duration = Callable[[StepShape], int]


class DraftedStep:
    """Adds to the time of a backbone's step that of the drafts for the next one, in ps.

    `pass_ps` times a pass of an MTP layer, which sees only a window of `window_tokens`; `passes`
    of them make the `draft_tokens` of a step, each by the next of `layers` MTP layers and all
    further ones by the last.

    Assumes: drafts are made by passes of MTP layers and the head after the backbone's step: a
        layer's first pass is over all tokens of the step (those of prompts too), further ones of
        the last over one token of each decoding request. A drafter of whole blocks (DSpark) costs
        one pass of that layer.
    """

    def __init__(
        self,
        verify_ps: Duration,
        pass_ps: Duration,
        draft_tokens: int,
        window_tokens: int,
        passes: int | None = None,
        layers: int = 1,
    ) -> None:
        self._verify_ps = verify_ps
        self._pass_ps = pass_ps
        self._drafts = draft_tokens
        self._window = window_tokens
        self._passes = passes or draft_tokens
        self._whole_passes = min(layers, self._passes)

    def total_ps(self, step: StepShape) -> int:
        """A step of decoding requests (1 + drafts tokens each), of prompts, or of both."""
        window, new_of_decode = self._window, self._drafts + 1
        near = tuple((new, min(past, window)) for new, past in step.requests)
        total = self._verify_ps(step) + self._whole_passes * self._pass_ps(StepShape(near))
        # As where kernels are chosen: few tokens after at least as many are drafts to be verified.
        decoding = sum(1 for new, past in step.requests if new == new_of_decode and past >= new)
        further = self._passes - self._whole_passes
        if decoding and further:
            total += further * self._pass_ps(StepShape.uniform(decoding, 1, window))
        return total
