"""A serving run as reports take it: the run, its summary, its bill, and all that it assumes."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.basis.assumptions import assumptions_of
from simulator.cost import step_clock
from simulator.cost.engine_notes import priced_as
from simulator.serve import (
    answer_time,
    decode_batch,
    deployment,
    money,
    over_time,
    replica,
    resources,
    router,
    saturation,
    token_gaps,
)
from simulator.serve import metrics as measured
from simulator.serve.fleet import StateTransfer
from simulator.serve.metrics import Summary, summarize
from simulator.serve.money import Bill, bill_of
from simulator.serve.resource_use import ResourceUse, resource_use
from simulator.serve.run import ServingRun

STEPS_NOTE = (
    "Steps are costed as v4sim step costs them, on a grid of batches; its report names what that "
    "assumes."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """All that is shown of a run."""

    run: ServingRun
    summary: Summary
    bill: Bill
    use: ResourceUse | None = None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Every approximation of the serving layer."""
        return assumptions_of(
            [
                measured.Latencies,
                measured.Goodput,
                answer_time.answer_time_ns,
                token_gaps.token_gaps,
                over_time.over_time,
                saturation.saturation_of,
                step_clock.StepClock,
                deployment.deploy,
                decode_batch.DecodeBatch,
                replica.Replica,
                replica.Replica._preempt,
                router.ROUTES[self.run.scenario.routing],
                resources.resources_of,
                *((StateTransfer,) if self.run.scenario.disaggregation is not None else ()),
                *((resource_use,) if self.use is not None else ()),
                money.ChipTime,
                money.Bill,
                money._energy,
            ]
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What the trace's reader, the run and the price have to say."""
        return (
            *(f"{sentence}." for sentence in self.priced_as),
            *(f"{note[:1].upper()}{note[1:]}." for note in self.run.deployment.asked.config.notes),
            *self.run.trace.notes,
            STEPS_NOTE,
            f"Price: {self.bill.price}.",
        )

    @property
    def priced_as(self) -> tuple[str, ...]:
        """Sentences on formats whose kernels are priced as another's."""
        asked = self.run.deployment.asked
        return priced_as(asked)


def served(run: ServingRun, *, with_use: bool = False) -> Served:
    """Measure and price a run; the use of resources takes some costed steps more."""
    summary = summarize(run)
    use = resource_use(run, summary.over_time) if with_use else None
    return Served(run=run, summary=summary, bill=bill_of(run), use=use)
