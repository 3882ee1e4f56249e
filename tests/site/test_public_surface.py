"""The generated list of the public surface: it names what is known to exist, and two runs give the same lines."""

from __future__ import annotations

import argparse
import ast
import re

import pytest
from django.core.cache import cache
from django.db import transaction

from tests.public_surface import _keys, _messages, _options, operations, surface, variables

KNOWN = (
    "action steer.pin role=operator key=p",
    "action webhook.add role=admin",
    "api POST /api/v1/acts/steer.pin/{run_id} id=steer.pin",
    "api POST /api/v1/acts/steer.pin/{run_id} json quota: integer required",
    "api POST /api/v1/acts/steer.pin/{run_id} path run_id: integer required",
    "api GET /api/v1/searches/{run_id} id=search",
    "command campaign start --seeds [same,spread] =spread",
    "command up",
    "env DATABASE_URL text",
    "env PORT integer 8000 minimum=1 maximum=65535",
    "file proof-download holds verdict.json format adaexplore-proof/1",
    "file evaluation-samples-csv columns subject basis method sample us",
    "key Ctrl K on every page",
    "make setup",
    "place rules rule-list role=viewer key=g r",
    "run-event node.told",
    "socket /ws/run/<int:run_id> hears pause",
    "socket /ws/run/<int:run_id> sends resync: head",
    "table search_run.state CharField(10) [running,paused,stopping,stopped,finished,failed]",
    "url /s/<int:run_id>/ run-detail GET,HEAD",
    "url /s/<int:run_id>/pause run-pause POST",
    "webhook search.finished",
)


def lines() -> list[str]:
    """One run that leaves no rows."""
    cache.clear()
    with transaction.atomic():
        found = surface()
        transaction.set_rollback(True)
    return found


@pytest.mark.django_db
@pytest.mark.usefixtures("kept_figures")
def test_the_list_names_what_is_known_to_exist_and_is_the_same_twice(settings):
    found = lines()
    assert found == lines() == sorted(set(found))
    assert [line for line in KNOWN if line not in found] == []
    text = "\n".join(found)
    assert str(settings.BASE_DIR) not in text and str(settings.DATA_DIR) not in text
    assert not re.search(r"^url \S+ \S+ any$", text.replace("url /api/v1/ api:api-root any\n", ""), re.M)


def test_references_of_a_schema_are_followed_and_one_that_holds_itself_ends():
    node = {
        "properties": {"id": {"type": "integer"}, "next": {"$ref": "#/components/schemas/Node"}},
        "required": ["id"],
    }
    many = {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}
    answer = {"description": "", "content": {"application/json": {"schema": many}}}
    query = {"name": "as", "in": "query", "schema": {"anyOf": [{"enum": ["csv", "json"]}, {"type": "null"}]}}
    one = {"operationId": "nodes", "parameters": [query], "responses": {200: answer, 404: {}, 401: {}}}
    assert list(operations({"paths": {"/n": {"get": one}}, "components": {"schemas": {"Node": node}}})) == [
        "api GET /n id=nodes",
        "api GET /n query as: enum(csv,json)|null",
        "api GET /n 200 [].id: integer",
        "api GET /n 200 [].next: the same again",
        "api GET /n 401,404 ",
    ]


def test_options_of_a_command_are_named_with_their_verbs_and_no_path_of_the_machine():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="/somewhere/else")
    verb = parser.add_subparsers().add_parser("start")
    verb.add_argument("id", type=int)
    verb.add_argument("--mode", choices=["b", "a"], required=True)
    assert list(_options(parser, "x", {"-h"})) == [
        "x --folder", "x start", "x start id int", "x start --mode [a,b] required",
    ]  # fmt: skip


def test_messages_of_a_socket_are_read_from_what_is_sent_and_what_is_matched():
    source = """
async def talk(self, wish):
    await self.send(type="beat", head=1)
    await self.raw({"type": "websocket.close", "code": 1})
    await self.raw({"type": "frame", "to": 2, "from": 1})
    match wish.get("type"):
        case "pause":
            pass
"""
    assert set(_messages(ast.parse(source))) == {"sends beat: head", "sends frame: from to", "hears pause"}


def test_keys_are_read_from_json_csv_and_archives():
    assert list(_keys(b'{"format": "x/1", "rows": [{"b": 1, "a": 2}]}', "application/json", "")) == [
        "keys . format rows",
        "format x/1",
        "keys rows[] a b",
    ]
    assert list(_keys(b"a,b\n1,2\n", "text/csv", "x.csv")) == ["columns a b"]


def test_variables_come_from_the_readers_of_the_environment_and_from_no_corpus():
    names = {line.split()[1] for line in variables()}
    assert {"SECRET_KEY", "LLM_STREAM", "CUDA_VISIBLE_DEVICES"} <= names
    assert "TRITON_INTERPRET" not in names  # only the corpora of the self-test read it
