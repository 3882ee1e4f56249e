"""Every text of a page goes through gettext: the pseudo-locale shows which does not (`tests/pseudo_locale.py`)."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, ngettext, pgettext

from adaexplore_site.api.actions import body_of
from adaexplore_site.palette.shell_figures import figures_of
from tests.pseudo_locale import counts, known, pages, pseudo, pseudo_locale, pseudo_reader, texts_of

LATER = gettext_lazy("Stop")


@pytest.mark.django_db
@pytest.mark.usefixtures("kept_figures")
def test_no_page_shows_more_untranslated_texts_than_are_known():
    allowed = known()
    shown = dict(pages())
    found = counts(shown.items())
    more = {name: (count, allowed.get(name, 0)) for name, count in found.items() if count > allowed.get(name, 0)}
    assert not more, f"(found, known); `python -m tests.pseudo_locale {next(iter(more))}` prints the texts: {more}"
    assert not set(allowed) - set(shown), "pages that are gone: `python -m tests.pseudo_locale --keep` leaves them out"


def test_the_pseudo_locale_wraps_each_kind_of_message_and_ends():
    with pseudo_locale():
        assert gettext("Stop <b>%(name)s</b> &amp; go {x}") == "⟦Stöp <b>%(name)s</b> &amp; gö {x}⟧"
        assert [ngettext("%(n)d node", "%(n)d nodes", n) % {"n": n} for n in (1, 2)] == ["⟦1 ñödé⟧", "⟦2 ñödés⟧"]
        assert pgettext("verb", "Open") == "⟦Öpéñ⟧"
        assert str(LATER) == "⟦Stöp⟧"
    assert (gettext("Node"), str(LATER)) == ("Node", "Stop")


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ("<p>Words</p>", [("text", "Words")]),
        (f"<p>{pseudo('Words')}</p>", []),
        (f"<p>{pseudo('Open <a>the page</a> now')}</p>", []),
        (f"<p>{pseudo('Open')} more</p>", [("text", "more")]),
        ("<p>⟦cut</p><p>next</p>", [("text", "next")]),
        ("<p>3.5 ms, 12 GB/s, n=3, 40 %</p>", []),
        ("<p><bdi>name</bdi><code>x</code><span class='a mono'>y</span><time>May</time><b translate=no>z</b></p>", []),
        ("<div translate=no><p>a<b translate=yes>b</b>c</p></div>", [("text", "b")]),
        ("<a title='Tip' aria-label='Name' href='x'>3</a>", [("aria-label", "Name"), ("title", "Tip")]),
        ("<input type=submit value=Go><input value=typed><img alt=Picture>", [("value", "Go"), ("alt", "Picture")]),
        ("<textarea title=Hint>typed</textarea>", [("title", "Hint")]),
        ("<script>let words</script><style>p {}</style>", []),
        ("<title>My node · AdaExplore</title><h1><bdi>My node</bdi></h1><kbd>A</kbd>", []),
        ("<title>My page</title><h1><bdi>My node</bdi></h1>", [("title of the page", "My page")]),
        ("<p>1 row</p><p>2 row</p>", [("text", "2 row")]),
        ("<br><p>a</p><ul><li>b<li>c</ul>e", [("text", "a"), ("text", "b"), ("text", "c"), ("text", "e")]),
    ],
)
def test_the_parser_finds_what_is_shown_and_was_not_translated(html, found):
    assert texts_of(html) == found


@pytest.mark.django_db
def test_a_stranger_gets_the_catalog_of_the_scripts_and_may_keep_it():
    answer = Client().get("/catalog.js")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/javascript")
    assert b"django.gettext = function" in answer.content and b"django.interpolate = function" in answer.content
    assert answer["Cache-Control"] == "max-age=3600"
    assert "Accept-Language" in answer["Vary"]


@pytest.mark.django_db
def test_a_page_says_its_language_and_loads_the_catalog_before_any_other_script():
    html = Client().get("/sign-in/").content.decode()
    assert '<html lang="en">' in html
    assert html.index('src="/catalog.js" defer') == html.index('src="')


@pytest.mark.django_db
def test_a_language_that_is_not_there_is_answered_in_english():
    answer = Client().get("/sign-in/", headers={"Accept-Language": "fr"})
    assert answer["Content-Language"] == "en"


@pytest.mark.django_db
def test_what_is_kept_for_all_is_in_no_language_of_one_reader():
    cache.clear()
    body_of.cache_clear()
    with pseudo_reader():
        assert str(figures_of(timezone.now()).spent.day.words) == pseudo("today")
        texts = [field.description for field in body_of("steer.pin").model_fields.values()]
    assert str(figures_of(timezone.now()).spent.day.words) == "today"
    assert "number of the node" in texts
