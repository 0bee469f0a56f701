"""v4sim from Python: the nouns of the commands as functions, answers as tables and figures.

>>> import v4sim
>>> answer = v4sim.capacity(model="v4-flash", chip="b200", count=8, context="1M")
>>> answer.requests > 10
True

Questions are those of the commands of the same names, with the same defaults and the same checks:
what cannot be answered raises `v4sim.InputError` with one sentence.
"""

from simulator.basis.errors import DoesNotFitError, InputError, UnsupportedError, V4SimError
from v4sim.answers import (
    Answer,
    CapacityAnswer,
    PlanAnswer,
    PrefixAnswer,
    RunAnswer,
    ServeAnswer,
    StepAnswer,
)
from v4sim.questions import Deployment, capacity, plan, prefix, run, serve, step

__all__ = [
    "Answer",
    "CapacityAnswer",
    "Deployment",
    "DoesNotFitError",
    "InputError",
    "PlanAnswer",
    "PrefixAnswer",
    "RunAnswer",
    "ServeAnswer",
    "StepAnswer",
    "UnsupportedError",
    "V4SimError",
    "capacity",
    "plan",
    "prefix",
    "run",
    "serve",
    "step",
]
