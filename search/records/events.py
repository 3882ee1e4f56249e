"""What each kind of event of a run's log says: one frozen value per kind, written and read by it.

As JSON a field with a default is left out where it has its default; every other field is always written, and is None
where a log of an older version lacks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self, dataclass_transform

from django.utils.translation import gettext as _

from judge.evaluations.measures import verdict_look
from search.algorithm.steering import PIN, Steering, SteeringAction, spans_read

EVENTS: dict[str, type[Event]] = {}  # by the name that they are stored under


@dataclass(frozen=True)
class Line:
    """What the feed says of an event. `style` picks the mark; `text` stands after "Node 7" where it is about a node.

    With `verb` the text is that of this action in the activity log, which reads `before` and `after` (None: what is
    stored). `detail` is that of the action where it is None, and `note` stands before it. `measured`: the speedup
    of the event is shown.
    """

    style: str
    text: str = ""
    detail: str | None = None
    measured: bool = False
    verb: str = ""
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    note: str = ""


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Event:
    """One change of a run: a frozen dataclass for each kind. The base class itself stands for a kind that this version
    does not know."""

    name: ClassVar[str] = ""
    hidden: ClassVar[bool] = False  # the feed has no line for it

    def __init_subclass__(cls, *, name: str = "") -> None:
        dataclass(frozen=True, kw_only=True)(cls)
        cls.name = name
        if name:
            EVENTS[name] = cls

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) != field.default}

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        """From a stored payload; what this version does not know is left out."""
        defaults = {field.name: None if field.default is MISSING else field.default for field in fields(cls)}
        return cls(**{name: payload.get(name, default) for name, default in defaults.items()})

    @property
    def node(self) -> int | None:
        """Number of the node that it is about, if it is about one."""
        return getattr(self, "number", None)

    def line(self) -> Line:
        """Its line in the feed; without a text the feed shows the name of the kind."""
        return Line("proposing")


class RunStarted(Event, name="run.started"):
    steps: int
    proposer: str
    device: str
    seed: int | None = None  # None, like the next two, in imported searches
    limits: Mapping[str, Any] | None = None
    concurrency: int | None = None
    imported: bool = False

    def line(self) -> Line:
        return Line("running", _("Search started"))


class RunPaused(Event, name="run.paused"):
    by: str
    reason: str = ""

    def line(self) -> Line:
        return Line("paused", _("Paused; steps in flight finish first"), detail=self.reason)


class RunResumed(Event, name="run.resumed"):
    by: str

    def line(self) -> Line:
        return Line("running", _("Resumed"))


class RunStopping(Event, name="run.stopping"):
    by: str

    def line(self) -> Line:
        return Line("paused", _("Stopping; kernels on a device are judged first"))


class RunEnded(Event, name="run.ended"):
    state: str
    reason: str
    told: int  # completed nodes
    limit: str = ""  # the name of the limit that was reached
    best: int | None
    won: int | None = 0  # the best that beat PyTorch; 0: an imported search does not say

    @property
    def by_steps(self) -> bool:
        """Whether no other limit than that of steps ended it."""
        return self.limit in ("", "steps")

    def line(self) -> Line:
        known = {"finished": _("Search finished"), "stopped": _("Search stopped"), "failed": _("Search failed")}
        return Line(self.state or "ended", known.get(self.state or "", _("Search ended")), self.reason)


class RunBranched(Event, name="run.branched"):
    number: int
    run: int

    def line(self) -> Line:
        return Line("person", verb="run.branch")


class ConcurrencyChanged(Event, name="run.concurrency"):
    before: int
    after: int

    def line(self) -> Line:
        return Line("person", verb=self.name)


class NodeReserved(Event, name="node.reserved"):
    hidden = True
    number: int
    parent: int
    kind: str
    context: list[int]
    steered: Mapping[str, Any] | None = None
    by_hand: bool = False

    @property
    def uses(self) -> tuple[int, ...]:
        """The pin and the forced step that it was reserved for."""
        return uses_in(self.steered or {})


def uses_in(steered: Mapping[str, object]) -> tuple[int, ...]:
    """The pin and the forced step in `Node.steered`."""
    return tuple(seq for name in ("pin", "force") if isinstance(seq := steered.get(name), int))


class NodeProposed(Event, name="node.proposed"):
    hidden = True
    number: int
    source_hash: str
    summary: str


class NodeJudging(Event, name="node.judging"):
    hidden = True
    number: int
    device: str


class Figure(Event):
    """An event with the headline figure of a verdict, and what stands beside it where that is known."""

    speedup: float | None
    low: float | None
    high: float | None
    n: int | None
    basis: str
    over_shipped: float | None = None
    over_fastest: float | None = None
    fastest: str = ""
    shipped_interval: list[Any] | None = None
    fastest_interval: list[Any] | None = None


class NodeCompleted(Figure, name="node.told"):
    number: int
    order: int | None
    verdict: str
    stage: str
    reason: str
    reward: float
    reused: bool
    source_hash: str
    doubt: str = ""  # of an equal kernel, before this one

    def line(self) -> Line:
        style, known = verdict_look(self.verdict or "", self.speedup), self.speedup is not None
        if not self.verdict:
            text = _("ended without a candidate")
        elif known:
            text = _("is correct") if style == "correct" else _("is correct but slower")
        elif self.verdict == "pass":
            text = _("is correct")
        else:
            text = _("ended: %(verdict)s") % {"verdict": self.verdict.replace("_", " ")}
        if self.reused:
            text = _("%(ended)s (equal to an earlier candidate)") % {"ended": text}
        return Line(style, text, None if known else self.reason, measured=known and bool(self.verdict))


class NodeBest(Figure, name="node.best"):
    number: int
    order: int
    evaluation: int
    won: bool | None  # whether it beat PyTorch; None: an older log does not say, and only winners were best then
    because: str = ""

    @property
    def is_win(self) -> bool:
        return self.won is not False

    def line(self) -> Line:
        if self.is_win:
            return Line("best", _("is the new best"), measured=True)
        return Line("correct", _("is the closest to PyTorch so far"), measured=True)


class NodeWaiting(Event, name="node.waiting"):
    number: int

    def line(self) -> Line:
        return Line("waiting", _("is waiting for a manual reply"))


class NodeCancelled(Event, name="node.cancelled"):
    number: int
    why: str

    def line(self) -> Line:
        return Line("cancelled", _("was withdrawn"), detail=self.why)


class ProposerRetry(Event, name="proposer.retry"):
    number: int
    attempt: int
    wait_s: float
    message: str

    def line(self) -> Line:
        return Line("waiting", _("is asking the proposer again"), detail=self.message)


class LeaseExpired(Event, name="lease.expired"):
    number: int
    attempts: int | None = None
    message: str = ""

    def line(self) -> Line:
        return Line("waiting", _("is restarted"), self.message or _("Its worker was lost."))


class DeviceQuarantined(Event, name="device.quarantined"):
    device: str
    reason: str

    def line(self) -> Line:
        text = _("%(device)s is quarantined; evaluations wait") % {"device": self.device or _("The device")}
        return Line("quarantined", text, self.reason)


class DeviceActivated(Event, name="device.activated"):
    device: str
    reason: str

    def line(self) -> Line:
        return Line("running", _("%(device)s is active again") % {"device": self.device or _("The device")})


class ProblemQuarantined(Event, name="problem.quarantined"):
    reason: str

    def line(self) -> Line:
        return Line("quarantined", _("The problem is quarantined; evaluations wait"), self.reason)


class ProblemReleased(Event, name="problem.released"):
    reason: str

    def line(self) -> Line:
        return Line("running", _("The problem is released; evaluations go on"), self.reason)


class KernelAsked(Event, name="kernel.asked"):
    number: int
    recheck: int
    rival: str = ""  # run.node
    kind: str

    def line(self) -> Line:
        known = {"verify": "kernel.verify", "dispute": "kernel.dispute"}
        return Line("proposing", verb=known.get(self.kind, "kernel.race"))


class KernelJudged(Figure, name="kernel.judged"):
    number: int
    kind: str
    verdict: str
    was: str
    call: str

    def line(self) -> Line:
        """What came of a kernel that was judged once more."""
        verdict, was = self.verdict or "", self.was or ""
        style = verdict_look(verdict, self.speedup)
        if self.call:
            return Line(style, _("was raced: %(call)s") % {"call": self.call})
        again = _("was judged again: %(verdict)s")
        text = again if verdict == was else _("was judged again: %(verdict)s, previously %(was)s")
        names = {"verdict": verdict.replace("_", " "), "was": was.replace("_", " ")}
        return Line(style, text % names, measured=True)


class KernelMarked(Event, name="kernel.marked"):
    number: int
    doubt: str
    reason: str
    best: int | None

    def line(self) -> Line:
        mark = (self.doubt or "").replace("quarantined", "quarantine") or "release"
        return Line("ok" if mark == "release" else "suspect", verb=f"kernel.{mark}", detail=self.reason or "")


class BudgetAdded(Event, name="budget.added"):
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def line(self) -> Line:
        return Line("running", verb="run.budget", before=self.before, after=self.after or {})


class BudgetTaken(Event, name="budget.taken"):
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def line(self) -> Line:
        return Line("running", verb="run.budget.undo", before=self.before, after=self.after or {})


class RecordedAct(Event, name="history.act"):
    """An action on an imported search where it was recorded: shown, never folded or replayed.

    `told` nodes had their verdict when it was done; `at` is ISO 8601 with its zone; `who` may be empty. `before` and
    `after` are what the audit said; `after` holds the action's place in the log it stood in as `seq`.
    """

    verb: str
    who: str
    at: str
    told: int
    before: dict[str, Any]
    after: dict[str, Any]

    def line(self) -> Line:
        """Its person is named in Activity only."""
        note = _("Imported: done where the search was recorded.")
        return Line("person", verb=self.verb, before=self.before, after=self.after, note=note)


STYLES = {"steer.pin": "pinned", "steer.prune": "pruned", "steer.budget": "running"}  # of the feed


class Steered(Event):
    """An action of steering: what it does to all later decisions."""

    @property
    def is_part(self) -> bool:
        """Whether it goes on with an earlier event, whose number it has as `of`."""
        return bool(getattr(self, "of", 0))

    def line(self) -> Line:
        return Line(self.style, verb=self.name)

    @property
    def style(self) -> str:
        """The mark of its line in the feed."""
        return STYLES.get(self.name, "person")

    def fold(self, steering: Steering, seq: int) -> Steering:
        """The steering once this event is number `seq` of the log."""
        return steering.plus(*self.actions(seq))

    def actions(self, seq: int) -> tuple[SteeringAction, ...]:
        """What it says, by the fields that an action has; older logs lack some of them."""
        known = {name: getattr(self, name, None) for name in ("quota", "boost", "kind", "text", "params", "steps")}
        known["batch"] = getattr(self, "of", None)
        more = {name: value for name, value in known.items() if value is not None}
        releases = tuple(getattr(self, "releases", None) or ())
        return (SteeringAction(seq, self.name.removeprefix("steer."), self.node, releases=releases, **more),)


class NodePinned(Steered, name="steer.pin"):
    number: int
    quota: int
    of: int = 0


class NodePruned(Steered, name="steer.prune"):
    number: int
    releases: list[int]


class NodeRestored(Steered, name="steer.restore"):
    number: int


class NodeBoosted(Steered, name="steer.boost"):
    number: int
    boost: float


class StepForced(Steered, name="steer.force"):
    number: int | None = None
    kind: str


class NoteAdded(Steered, name="steer.note"):
    number: int
    text: str


class ParamsChanged(Steered, name="steer.params"):
    params: Mapping[str, Any]


class StepsAdded(Steered, name="steer.budget"):
    """Of logs from before the budget had limits of its own."""

    steps: int
    total: int | None = None


class KernelInjected(Steered, name="steer.inject"):
    number: int
    parent: int
    kind: str
    steps: int
    total: int


class ManySteered(Steered, name="steer.bulk"):
    """The first event of an action on many nodes says what it is; the next ones hold what it has no room for. Pins are
    events of their own."""

    verb: str
    count: int | None = None
    words: str | None = None
    quota: int = 0
    boost: float | None = None
    numbers: str | None = None
    releases: list[int] | None = None
    of: int = 0

    @property
    def style(self) -> str:
        return STYLES.get(f"steer.{self.verb}", "person")

    def actions(self, seq: int) -> tuple[SteeringAction, ...]:
        if self.verb == PIN:
            return ()
        nodes, batch = spans_read(self.numbers or ""), self.of or seq
        releases = tuple(self.releases or ())
        return (SteeringAction(batch, self.verb, nodes=nodes, boost=self.boost or 0.0, releases=releases, batch=batch),)


class SteeringUndone(Steered, name="steer.undo"):
    act: int
    verb: str
    total: int
    number: int | None = None

    def fold(self, steering: Steering, seq: int) -> Steering:
        return steering.without(self.act)


STEERING = frozenset(name for name, kind in EVENTS.items() if issubclass(kind, Steered))


def event_read(kind: str, payload: Mapping[str, Any]) -> Event:
    """What a stored event says."""
    return EVENTS.get(kind, Event).read(payload)
