"""Can a device be believed? Its last self-test: green, amber when old or of another toolchain, red after a miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from django.db.models import Max, Q
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.selftest.entries import Corpus
from judge.selftest.models import SelfTest
from judge.selftest.results import CorpusCount, EntryResult, Report, State
from judge.values import PROTOCOL

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

OLD_AFTER = timedelta(days=7)
CORPORA = {
    Corpus.EXPLOIT: (_("Attacks"), _("rejected or labelled")),
    Corpus.HONEST: (_("Honest kernels"), _("accepted")),
    Corpus.MUTATION: (_("Planted bugs"), _("found")),
    Corpus.AA: (_("A kernel against itself"), _("not called faster")),
}


class Standing(StrEnum):
    NEVER = "never"
    GREEN = "green"
    AMBER = "amber"
    RED = "red"


@dataclass(frozen=True)
class Tested:
    """One device with its last finished self-test and the one under way. `why` explains amber and red."""

    device: Device
    last: SelfTest | None
    current: SelfTest | None
    standing: Standing
    why: str = ""

    @property
    def under_way(self) -> bool:
        """Whether one waits or runs."""
        return self.current is not None and self.current.state != SelfTest.State.FAILED

    @property
    def seconds(self) -> float | None:
        """How long the last one took."""
        if self.last is None or self.last.finished_at is None or self.last.started_at is None:
            return None
        return (self.last.finished_at - self.last.started_at).total_seconds()

    @cached_property
    def report(self) -> Report | None:
        """The stored result; None when there is none or it is not readable any more."""
        if self.last is None:
            return None
        try:
            return Report.from_json(self.last.result)
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def counts(self) -> list[tuple[StrOrPromise, StrOrPromise, CorpusCount]]:
        """(title, what is counted, counts) of each corpus that was run."""
        report = self.report
        return [(*CORPORA[count.corpus], count) for count in report.counts()] if report else []

    @property
    def rows(self) -> list[EntryResult]:
        """Every entry, what was not right first."""
        report = self.report
        return sorted(report.results, key=lambda row: row.state is State.RIGHT) if report else []


@dataclass(frozen=True)
class Doubt:
    """What stands beside every speedup of a device that cannot simply be believed, and what to do about it."""

    device: Device
    standing: Standing
    text: str

    @property
    def level(self) -> str:
        """error: no best comes from it; warning: its self-test does not speak for it any more; note: there is none."""
        return {Standing.RED: "error", Standing.AMBER: "warning"}.get(self.standing, "note")

    @property
    def command(self) -> str:
        """What settles it; empty for another machine's device, which no worker here can test."""
        return "" if self.device.remote else f"manage.py judge_selftest --device {self.device.name}"


def doubt_about(device: Device, *, now: datetime, tested: Tested | None = None) -> Doubt | None:
    """None for a device that is believed or judges nothing. Where times are MODELLED, only a miss is worth a word.

    `tested` is what is known of its self-test, for who has read it already."""
    if not device.judges:
        return None
    tested = tested or trust_of(device, now=now)
    if tested.standing is Standing.RED:
        text = gettext(
            "The last self-test of %(device)s had failures: no kernel judged there can become a best until a self-test "
            "passes."
        )
    elif tested.standing is Standing.AMBER and device.is_gpu:
        text = gettext("The last self-test of %(device)s is out of date. %(why)s")
    elif tested.standing is Standing.NEVER and device.is_gpu:
        text = gettext("No self-test has been run on %(device)s yet.")
    else:
        return None
    return Doubt(device, tested.standing, text % {"device": device.name, "why": tested.why})


def trust_of(device: Device, *, now: datetime) -> Tested:
    """What is known about one device."""
    return trusts([device], now=now)[device.pk]


def _age(last: SelfTest, toolchain: str, now: datetime) -> tuple[Standing, str]:
    assert last.finished_at is not None
    days = (now - last.finished_at).days
    if now - last.finished_at > OLD_AFTER:
        return Standing.AMBER, gettext("It is %(days)d days old; run it again.") % {"days": days}
    if last.protocol != PROTOCOL:
        text = gettext("It tested protocol %(old)s; the judge now uses %(new)s.")
        return Standing.AMBER, text % {"old": last.protocol, "new": PROTOCOL}
    if toolchain and toolchain != last.toolchain:
        text = gettext("It tested %(old)s; the device now judges with %(new)s.")
        return Standing.AMBER, text % {"old": last.toolchain, "new": toolchain}
    return Standing.GREEN, ""


def trusts(devices: Sequence[Device], *, now: datetime) -> dict[int, Tested]:
    """What is known about each of these devices, by id. Three queries for any number of them."""
    rows = SelfTest.objects.filter(device__in=devices).order_by()
    finished = rows.filter(state=SelfTest.State.FINISHED).values("device").annotate(last=Max("pk")).values("last")
    newest = rows.values("device").annotate(last=Max("pk")).values("last")
    slim = SelfTest.objects.select_related("started_by").filter(Q(pk__in=finished) | Q(pk__in=newest))
    last: dict[int, SelfTest] = {}
    current: dict[int, SelfTest] = {}
    for row in slim.order_by("pk"):
        kept = last if row.state == SelfTest.State.FINISHED else current
        kept[row.device_id] = row
    used = Evaluation.objects.filter(device__in=devices).order_by().values("device").annotate(last=Max("pk"))
    chains = Evaluation.objects.filter(pk__in=used.values("last")).values_list("device", "toolchain")
    toolchains = dict(chains)
    return {
        device.pk: _tested(device, last.get(device.pk), current.get(device.pk), toolchains.get(device.pk, ""), now)
        for device in devices
    }


def _tested(device: Device, last: SelfTest | None, current: SelfTest | None, toolchain: str, now: datetime) -> Tested:
    if last is None or last.finished_at is None:
        return Tested(device, None, current, Standing.NEVER)
    if current is not None and current.pk < last.pk:
        current = None
    if last.red:
        why = gettext(
            "The last self-test had failures: no kernel judged there can become a best until a self-test passes."
        )
        return Tested(device, last, current, Standing.RED, why)
    return Tested(device, last, current, *_age(last, toolchain, now))
