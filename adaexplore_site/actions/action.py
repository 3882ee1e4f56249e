"""What an action is: one class for one thing that a person can do, wherever they do it from.

Forms, REST operations, the command palette, keys, menus, the activity log and Undo read these classes; none of them
knows an action by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.http import Http404, QueryDict
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.access import Role
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.db.models import QuerySet
    from django_stubs_ext import StrOrPromise


class ActionForm(forms.Form):
    """What an action asks for. The REST schema is made from the same fields; `help_text` describes each."""

    def full_clean(self) -> None:
        """A field for numbers shows no text that is none: where one is wrong, what was typed stands in a text field."""
        super().full_clean()
        for name in self.errors:
            if name in self.fields and isinstance(self.fields[name].widget, forms.NumberInput):
                self.fields[name].widget.input_type = "text"


@dataclass(frozen=True)
class Call:
    """Who does an action. `user` is None for a command; `key` makes a repeated call one action."""

    user: User | None
    key: str | None = None

    @property
    def who(self) -> dict[str, Any]:
        """As services take it."""
        return {"user": self.user, "key": self.key}


@dataclass(frozen=True)
class Result:
    """What an action did.

    `message` is one sentence for the person. `then` runs after the transaction, such as sending tasks. `location` is
    the page to show next; empty for the page of the object. `shown_once` holds what nobody can read again, such as the
    text of a token. With `pending` nothing was done yet: it says what is waited for. `warning` goes beside the message.
    `entry` is the entry of the audit log; None where the runner finds it by the key of the call.
    `target` is the object that was created.
    """

    message: StrOrPromise = ""
    then: Callable[[], None] | None = None
    location: str = ""
    shown_once: Mapping[str, str] = field(default_factory=dict)
    pending: StrOrPromise = ""
    warning: StrOrPromise = ""
    entry: AuditEntry | None = None
    target: Any = None


@dataclass(frozen=True)
class Subject:
    """What an action was done to, as a link; without `url` it is gone or has no page."""

    kind: StrOrPromise
    label: StrOrPromise
    url: str = ""


@dataclass(frozen=True)
class Standing:
    """`label` of the button that takes an action back, for who holds `role`; or `why_not`, in words."""

    label: StrOrPromise = ""
    why_not: StrOrPromise = ""
    role: Role | None = None


@dataclass(frozen=True)
class Question:
    """What is asked before an action that nothing takes back: title, consequence, label of the button, way back.

    `keeps` says what stays. `why_not` holds a sentence for each thing that stands against it: then there is no button.
    """

    ask: StrOrPromise
    what: StrOrPromise
    yes: StrOrPromise
    back: str
    keeps: StrOrPromise = ""
    why_not: tuple[StrOrPromise, ...] = ()


UNDO = Standing(_("Undo"))
UNDONE = Standing(why_not=_("undone"))
REPLACED = Standing(why_not=_("replaced"))
CHANGED = Standing(why_not=_("changed since"))


class Kind:
    """A kind of object that actions are done to, as the activity log shows it. Each part reads rows of many at once."""

    name: ClassVar[str]  # `object_type` of its audit entries
    noun: ClassVar[StrOrPromise] = ""  # as people say it; `name` where a class names none
    aliases: ClassVar[tuple[str, ...]] = ()  # other nouns in the filter of the activity log

    def __init_subclass__(cls) -> None:
        cls.noun = cls.noun or getattr(cls, "name", "")

    def objects(self) -> QuerySet[Any] | None:
        """The objects, with what their pages read; None where no action takes one."""
        return None

    def look_up(self, pk: object) -> Any:
        """The object; None when there is none."""
        found = self.objects()
        return None if found is None else found.filter(pk=pk).first()

    def load(self, entries: Sequence[AuditEntry]) -> Any:
        """What describes these entries and decides whether they can be undone: any value, in a few queries."""
        return None

    def subject(self, entry: AuditEntry, loaded: Any) -> Subject | None:
        """The object by its name of today; None when it is gone."""
        return None

    def find(self, entry: AuditEntry) -> Any:
        """The object of an entry, to undo what was done to it. Raises ActionRefused when it is gone."""
        found = self.look_up(entry.object_id)
        if found is None:
            raise ActionRefused(gettext("The %(noun)s no longer exists.") % {"noun": self.noun})
        return found

    def lock(self, target: Any) -> Any:
        """The object's row, locked for this transaction."""
        return type(target)._default_manager.select_for_update(of=("self",)).get(pk=target.pk)

    def version(self, target: Any) -> int:
        """Changes with every action on the object: what `If-Match` names."""
        entries = AuditEntry.objects.filter(object_type=self.name, object_id=str(target.pk)).order_by("-pk")
        return entries.values_list("pk", flat=True).first() or 0

    def now(self, target: Any) -> dict[str, Any]:
        """The object as it is, for whoever acted on an older version."""
        return {"version": self.version(target)}


class Recorded:
    """A verb of the audit log: how an entry reads, and whether it can be undone. An action is one that can be done."""

    name: ClassVar[str]
    kind: ClassVar[Kind]
    done: ClassVar[StrOrPromise] = ""  # the sentence of `describe` when it is always the same
    irreversible: ClassVar[StrOrPromise] = ""  # why there is no undo, in a few words
    undo_role: ClassVar[Role | None] = None  # who may undo it; `role` when None

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        """The one sentence for the activity log, the toast, the log and webhooks, without the object."""
        return str(self.done) or self.name.replace(".", " ")

    def detail(self, entry: AuditEntry, loaded: Any) -> str | None:
        """What changed, such as "state running → paused"; None lists the fields that differ."""
        return None

    def standing(self, entry: AuditEntry, loaded: Any) -> Standing:
        """Whether it can be undone now. `undo` decides once more."""
        return Standing(why_not=self.irreversible or gettext("cannot be undone"))

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        """Take it back. Raises ActionRefused."""
        raise ActionRefused(irreversible(self.irreversible))


class Action(Recorded):
    """One thing that a person can do."""

    verb: ClassVar[str] = ""  # of its audit entries, where it is that of another action; `name` when empty
    label: ClassVar[StrOrPromise]  # a verb and its object, for buttons, palette, shortcut help
    role: ClassVar[Role] = Role.OPERATOR
    also: ClassVar[tuple[Role, ...]] = ()  # other roles that may do it
    takes: ClassVar[tuple[str, ...]] = ()  # the parts of an address that name the object
    Form: ClassVar[type[forms.Form]] = ActionForm
    key: ClassVar[str] = ""  # keyboard, on `pages`
    page_key: ClassVar[bool] = False  # the page's own script listens to the key
    on_node: ClassVar[bool] = False  # offered by the menu of the tree
    rank: ClassVar[int] = 0  # lower ones come first in menus, palette and help
    pages: ClassVar[tuple[str, ...]] = ()  # routes of the pages that offer it
    route: ClassVar[str]  # route that takes its form
    path: ClassVar[str] = ""  # address of that route; empty where a page takes the form
    sends: ClassVar[Mapping[str, str]] = {}  # fields of the form that choose this action on a shared route
    inverse: ClassVar[str] = ""  # name of the action that takes it back
    removes: ClassVar[bool] = False  # its object is gone afterwards
    must_confirm: ClassVar[bool] = True  # its question is asked of everybody; else only of who opens its address
    own_words: ClassVar[bool] = False  # its message says itself when nothing had to change
    own_entry: ClassVar[bool] = True  # its audit entry is under its own name
    open_schema: ClassVar[bool] = False  # takes fields that the form does not name

    def locate(self, where: Mapping[str, Any]) -> Any:
        """The object that the parts of an address name; None for an action that takes none. Raises Http404."""
        if not self.takes:
            return None
        found = self.kind.look_up(where[self.takes[0]])
        if found is None:
            raise missing(self.kind)
        return found

    def visible(self, target: Any, user: User) -> bool:
        """Whether the object is there for this person: 404 otherwise."""
        return True

    def lock(self, target: Any) -> Any:
        """The object's row, locked. What `run` locks before that row is locked here, in the same order."""
        return self.kind.lock(target)

    def may(self, user: User) -> Role | None:
        """The role that is missing; None where the user may."""
        from adaexplore_site.core.access import can

        return None if any(can(user, role) for role in (self.role, *self.also)) else self.role

    def form(self, target: Any, data: QueryDict, files: MultiValueDict[str, Any]) -> forms.Form:
        """The form, bound to what was sent."""
        return self.Form(data, files)

    def question(self, target: Any, data: Mapping[str, Any]) -> Question | None:
        """What to ask before it is done; None for what can be undone."""
        return None

    def run(self, target: Any, data: dict[str, Any], call: Call) -> Result:
        """Do it, in the runner's transaction. Raises ActionRefused."""
        raise NotImplementedError

    def again(self, entry: AuditEntry) -> Result:
        """What a repeated call answers: it leads to where the first one led."""
        subject = self.kind.subject(entry, self.kind.load([entry]))
        return Result(location=subject.url if subject is not None else "")

    def home(self, target: Any) -> str:
        """The page to show afterwards."""
        return "/"

    def tells(self, page: str, user: User) -> bool:
        """Whether the page at this address shows the user what was just done, so that it needs no message."""
        return False

    def panel(self, request: Any, target: Any, **context: Any) -> Any:
        """What scripts get after the action, and anybody after its refusal; None for a whole page.

        `context` holds `done` and `outcome` after the action; `status`, `refused`, `typed` and `error` after a refusal.
        """
        return None


class Removed(Http404):
    """The object was removed by an action, whose entry is `entry`."""

    def __init__(self, kind: Kind, entry: AuditEntry) -> None:
        super().__init__(gettext("The %(noun)s was removed.") % {"noun": kind.noun})
        self.kind, self.entry = kind, entry


def missing(what: Kind | str) -> Http404:
    """There is no object of this kind, or no `what`, such as "rule 3"."""
    if isinstance(what, Kind):
        return Http404(gettext("There is no such %(noun)s.") % {"noun": what.noun})
    return Http404(gettext("There is no %(what)s.") % {"what": what})


def irreversible(why: StrOrPromise) -> str:
    """The refusal to undo an action."""
    return gettext("This can't be undone: %(why)s.") % {"why": why}


def plain(entry: AuditEntry, hidden: Iterable[str] = ()) -> list[tuple[str, Any, Any]]:
    """(field, before, after) of what an entry changed."""
    skip = set(hidden)
    pairs = [(name, entry.before.get(name), entry.after[name]) for name in entry.after if name not in skip]
    return [pair for pair in pairs if pair[1] != pair[2]]
