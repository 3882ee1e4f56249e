"""Actions on saved views: save, rename, delete, put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import (
    CHANGED,
    UNDO,
    Action,
    ActionForm,
    Call,
    Kind,
    Result,
    Standing,
    Subject,
    missing,
)
from adaexplore_site.actions.registry import register
from adaexplore_site.core.access import Role
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.saved_views import services
from adaexplore_site.saved_views.models import SavedView
from adaexplore_site.saved_views.services import PLACES, address_of

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class ViewKind(Kind):
    name, noun = "view", _("view")

    def objects(self) -> QuerySet[SavedView]:
        return SavedView.objects.select_related("owner")

    def load(self, entries: Sequence[AuditEntry]) -> dict[str, SavedView]:
        rows = SavedView.objects.in_bulk({int(entry.object_id) for entry in entries})
        return {str(pk): row for pk, row in rows.items()}

    def subject(self, entry: AuditEntry, loaded: dict[str, SavedView]) -> Subject | None:
        """A private view is named to nobody else."""
        row = loaded.get(entry.object_id)
        if row is None:
            return None
        values = {"name": row.name, "page": PLACES[row.place][0]}
        if not row.shared:
            return Subject(self.noun, gettext("a private view of %(page)s") % values)
        label = gettext("%(name)s, a view of %(page)s") % values
        return Subject(self.noun, label, address_of(row.place, row.query))


KIND = ViewKind()


class NameForm(ActionForm):
    name = forms.CharField(
        max_length=200, error_messages={"required": _("Give the view a name of 1 to 60 characters.")}
    )
    shared = forms.BooleanField(required=False, help_text=_("Shared with all members; needs the role operator."))


class SaveForm(NameForm):
    place = forms.CharField(max_length=40, help_text=_("The route of the list, such as run-list."))
    query = forms.CharField(max_length=4000, required=False, help_text=_("Its filter and order, as a query string."))


class ViewAction(Action):
    """What its owner does to a view. A private view of somebody else is not there."""

    kind = KIND
    role = Role.VIEWER
    takes = ("view_id",)

    def visible(self, target: SavedView, user: User) -> bool:
        return target.shared or target.owner_id == user.pk

    def home(self, target: SavedView) -> str:
        return address_of(target.place, target.query)


@register
class SaveView(Action):
    """Save what a list shows under a name."""

    kind = KIND
    name, label, done = "view.save", _("Save the view"), _("Saved")
    role = Role.VIEWER
    Form = SaveForm
    pages = ("run-list", "kernel-list", "failure-list", "rule-list", "activity")
    route, path = "view-save", "views/save"
    irreversible = _("delete it on its page")

    def form(self, target: Any, data: QueryDict, files: MultiValueDict[str, Any]) -> forms.Form:
        if data.get("place") not in PLACES:
            raise missing(gettext("page with views of this name"))
        return SaveForm(data, files)

    def again(self, entry: AuditEntry) -> Result:
        view = SavedView.objects.filter(pk=entry.object_id).first()
        return Result(location=address_of(view.place, view.query) if view is not None else "")

    def run(self, target: Any, data: dict[str, Any], call: Call) -> Result:
        assert isinstance(call.user, User)
        view = services.view_save(**data, user=call.user, key=call.key)
        message = gettext("The view “%(name)s” is saved.") % {"name": view.name}
        return Result(message, location=address_of(view.place, view.query))


@register
class RenameView(ViewAction):
    """Give a view another name, for its owner or for everybody."""

    name, label, done = "view.rename", _("Rename the view"), _("Renamed")
    Form = NameForm
    route, path = "view-rename", "views/<int:view_id>/rename"
    irreversible = _("rename it again on its page")

    def run(self, target: SavedView, data: dict[str, Any], call: Call) -> Result:
        assert isinstance(call.user, User)
        services.view_rename(view=target, **data, user=call.user, key=call.key)
        return Result(gettext("The view is renamed."))


class Flip(ViewAction):
    """Delete and put back: each takes the other back."""

    route, path = "view-delete", "views/<int:view_id>/delete"
    deletes: bool
    message: StrOrPromise

    def run(self, target: SavedView, data: dict[str, Any], call: Call) -> Result:
        assert isinstance(call.user, User)
        services.view_delete(view=target, deleted=self.deletes, user=call.user, key=call.key)
        return Result(self.message)

    def standing(self, entry: AuditEntry, loaded: dict[str, SavedView]) -> Standing:
        row = loaded.get(entry.object_id)
        return UNDO if row is not None and (row.deleted_at is not None) == self.deletes else CHANGED


@register
class DeleteView(Flip):
    """Delete a view. It can be put back for 30 days."""

    name, label, done = "view.delete", _("Delete the view"), _("Deleted")
    sends = {"deleted": "1"}
    inverse = "view.restore"
    deletes, message = True, _("The view is deleted. You can restore it in “Views”.")


@register
class RestoreView(Flip):
    """Put a deleted view back."""

    name, label, done = "view.restore", _("Restore the view"), _("Restored")
    sends = {"deleted": ""}
    inverse = "view.delete"
    deletes, message = False, _("The view is restored.")
