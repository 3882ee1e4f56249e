"""What people and programs can rely on, as sorted lines for a diff: `python -m tests.public_surface > FILE`.

Addresses, API, commands, actions, keys, socket, environment, files to download, make targets, webhooks, events, tables.
Most of it is asked of Django and of the running site, with a test database; what the project itself has to be asked
for is imported in `registries` alone.
"""

from __future__ import annotations

import argparse
import ast
import csv
import gzip
import inspect
import io
import json
import logging
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.house_figures import APPS, sources

ROOT = Path(__file__).resolve().parent.parent
READERS = {"text", "flag", "integer", "number"}  # of adaexplore_site/core/env.py
FORMS = ("json", "html")  # a page that takes `as=csv` may answer with these files, too
VARIABLE = re.compile(r"[A-Z][A-Z0-9]*_?[A-Z0-9_]*")
WHOLE = re.compile(r"\d+")
API = "/api/v1/openapi.json"


def registries() -> SimpleNamespace:
    """Everything that is imported from the project. Change these lines when a registry moves."""
    from adaexplore_site.actions.registry import actions
    from adaexplore_site.core.outbox import EVENTS
    from adaexplore_site.palette.commands import PLACES, VIEW_KEYS
    from search.records.events import KINDS
    from tests.pages import addresses, client_of, full_run

    return SimpleNamespace(
        actions=list(actions()), places=PLACES, view_keys=VIEW_KEYS, webhook_events=EVENTS, run_events=KINDS,
        addresses=addresses, client_of=client_of, full_run=full_run,
    )  # fmt: skip


def surface() -> list[str]:
    """All lines, sorted. Needs an empty test database; leaves rows behind."""
    known = registries()
    client = known.client_of("admin")
    parts = (
        addresses(client), operations(client.get(API).json()), commands(), acting(known), sockets(), variables(),
        downloads(client, known.addresses(known.full_run())), targets(), tables(),
        (f"webhook {name}" for name in known.webhook_events), (f"run-event {name}" for name in known.run_events),
    )  # fmt: skip
    return sorted({line.rstrip() for part in parts for line in part})


def addresses(client: Any) -> Iterator[str]:
    """Every URL pattern with its name and the methods that its view answers TRACE with."""
    from django.urls import get_resolver

    for route, name in _routes(get_resolver().url_patterns, "/", ""):
        path = re.sub(r"<(?:\w+:)?\w+>|\{\w+\}", "1", route)
        answer = client.generic("TRACE", path)
        methods = answer.headers.get("Allow", "any") if answer.status_code == 405 else "any"
        yield f"url {route} {name} {','.join(sorted(methods.replace(' ', '').split(',')))}"


def _routes(patterns: Iterable[Any], prefix: str, space: str) -> Iterator[tuple[str, str]]:
    for entry in patterns:
        route = prefix + str(entry.pattern)
        if hasattr(entry, "url_patterns"):
            yield from _routes(entry.url_patterns, route, f"{entry.namespace}:" if entry.namespace else space)
        else:
            yield route, space + (entry.name or "-")


def operations(document: dict[str, Any]) -> Iterator[str]:
    """Operations of an OpenAPI document; references are followed, so that names of schemas do not show."""
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            begin = f"api {method.upper()} {path}"
            yield f"{begin} id={one['operationId']}"
            for field in one.get("parameters", ()):
                need = " required" if field.get("required") else ""
                yield f"{begin} {field['in']} {field['name']}: {_kind(field['schema'], document)}{need}"
            for media, body in one.get("requestBody", {}).get("content", {}).items():
                for name, kind in _fields(body["schema"], document):
                    yield f"{begin} {media.rpartition('/')[2]} {name}: {kind}"
            yield from (f"{begin} {line}" for line in _answers(one["responses"], document))


def _answers(responses: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    """Fields of each answer, one a line where it is 200; other statuses with equal answers share one line."""
    shared: dict[str, list[str]] = {}
    for status, answer in responses.items():
        found = [media["schema"] for media in answer.get("content", {}).values() if "schema" in media]
        kinds = [pair for schema in found for pair in _fields(schema, document)]
        fields = [f"{name}: {kind.removesuffix(' required')}" for name, kind in kinds]
        if str(status) == "200" and fields:
            yield from (f"200 {field}" for field in fields)
        else:
            shared.setdefault(", ".join(sorted(fields)), []).append(str(status))
    yield from (f"{','.join(sorted(statuses))} {fields}" for fields, statuses in shared.items())


def _fields(schema: dict[str, Any], document: dict[str, Any], at: str = "", seen: tuple[str, ...] = ()) -> Any:
    """(dotted path, type) of every leaf. A schema that holds itself ends with its name."""
    if name := schema.get("$ref", ""):
        if name in seen:
            yield at or ".", "the same again"
            return
        schema, seen = _followed(schema, document), (*seen, name)
    several = [one for word in ("anyOf", "oneOf", "allOf") for one in schema.get(word, ())]
    nested = [one for one in several if _followed(one, document).keys() & {"properties", "items"}]
    if nested:
        for one in nested:
            yield from _fields(one, document, at, seen)
    elif schema.get("properties"):
        needed = schema.get("required", ())
        for key, one in schema["properties"].items():
            for path, kind in _fields(one, document, f"{at}.{key}" if at else key, seen):
                yield path, f"{kind} required" if key in needed and path.endswith(key) else kind
    elif schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        yield from _fields(schema["items"], document, f"{at}[]", seen)
    else:
        yield at or ".", _kind(schema, document)


def _followed(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _kind(schema: dict[str, Any], document: dict[str, Any]) -> str:
    """The type of a leaf: `integer`, `string|null`, `enum(csv,json)`, `string[]`."""
    schema = _followed(schema, document)
    several = [one for word in ("anyOf", "oneOf", "allOf") for one in schema.get(word, ())]
    if several:
        return "|".join(dict.fromkeys(_kind(one, document) for one in several))
    if "enum" in schema or "const" in schema:
        return f"enum({','.join(map(str, schema.get('enum', [schema.get('const')])))})"
    if schema.get("type") == "array":
        return f"{_kind(schema.get('items', {}), document)}[]"
    return ":".join(str(schema[word]) for word in ("type", "format") if word in schema) or "any"


def commands() -> Iterator[str]:
    """Management commands of the project with their options, those that every command has aside."""
    from django.core.management import BaseCommand, get_commands, load_command_class

    usual = {name for one in BaseCommand().create_parser("manage.py", "x")._actions for name in one.option_strings}
    for name, app in get_commands().items():
        if isinstance(app, str) and _ours(app):
            parser = load_command_class(app, name).create_parser("manage.py", name)
            yield f"command {name}"
            yield from (f"command {line}" for line in _options(parser, name, usual))


def _options(parser: argparse.ArgumentParser, name: str, usual: set[str]) -> Iterator[str]:
    for one in parser._actions:
        if isinstance(one, argparse._SubParsersAction):
            for verb, inner in one.choices.items():
                yield f"{name} {verb}"
                yield from _options(inner, f"{name} {verb}", usual)
        elif not set(one.option_strings) & usual:
            kind = getattr(one.type, "__name__", "") if one.type else ""
            values = f"[{','.join(sorted(map(str, one.choices)))}]" if one.choices else ""
            need = "required" if one.required and one.option_strings else ""
            shape = [",".join(one.option_strings) or one.dest, f"nargs={one.nargs}" if one.nargs is not None else ""]
            yield f"{name} " + " ".join(part for part in (*shape, kind, values, _plain(one.default), need) if part)


def _plain(default: Any) -> str:
    """A default that is the same on every machine."""
    plain = isinstance(default, bool | int | float | str) and os.sep not in str(default)
    return f"={default}" if plain and default not in (False, argparse.SUPPRESS) else ""


def acting(known: SimpleNamespace) -> Iterator[str]:
    """Actions, places and keys of the registry."""
    for one in known.actions:
        yield f"action {one.name} role={one.role.value}" + (f" key={one.key}" if one.key else "")
    for one in known.places:
        yield f"place {one.id} {one.route} role={one.role.value}" + (f" key={one.key}" if one.key else "")
    for one in known.view_keys:
        yield f"key {one.key} on {','.join(sorted(one.pages)) or 'every page'}"


def sockets() -> Iterator[str]:
    """Websocket addresses, and the types of messages that the package of each consumer names."""
    from channels.routing import get_default_application

    inner = get_default_application().application_mapping["websocket"]
    while not hasattr(inner, "routes"):
        inner = getattr(inner, "application", None) or inner.inner
    for route in inner.routes:
        if inspect.isfunction(route.callback):  # refuses every other address
            continue
        yield f"socket /{route.pattern}"
        consumer = getattr(route.callback, "consumer_class", None) or type(route.callback)
        for path in sorted(Path(inspect.getfile(consumer)).parent.glob("*.py")):
            yield from (f"socket /{route.pattern} {line}" for line in _messages(ast.parse(path.read_text())))


def _messages(tree: ast.Module) -> Iterator[str]:
    """Messages sent hold a constant `type`; messages heard are cases of a match on `.get("type")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            pairs = {_constant(key): value for key, value in zip(node.keys, node.values, strict=True)}
            yield from _sent(pairs)
        elif isinstance(node, ast.Call):
            yield from _sent({one.arg: one.value for one in node.keywords})
        elif isinstance(node, ast.Match) and "get('type')" in ast.unparse(node.subject):
            for case in node.cases:
                if isinstance(case.pattern, ast.MatchValue):
                    yield f"hears {_constant(case.pattern.value)}"


def _sent(pairs: dict[Any, ast.expr]) -> Iterator[str]:
    kind = _constant(pairs.get("type"))
    if isinstance(kind, str) and not kind.startswith("websocket."):
        yield f"sends {kind}: {' '.join(sorted(str(name) for name in pairs if name not in (None, 'type')))}"


def _constant(node: Any) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def variables() -> Iterator[str]:
    """Variables of the environment that the product reads by name, with their defaults."""
    product = (one for one in sources(ROOT, APPS) if one.python and not one.corpus and "env" in one.text)
    for node in (node for one in product for node in ast.walk(one.tree)):
        if isinstance(node, ast.Call) and node.args and (name := _variable(node.args[0])):
            yield from _read(node, name)
        elif isinstance(node, ast.Subscript) and _environ(node) and (name := _variable(node.slice)):
            yield f"env {name}"


def _environ(node: ast.Subscript) -> bool:
    return isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == "os.environ"


def _read(node: ast.Call, name: str) -> Iterator[str]:
    called = ast.unparse(node.func)
    if called in {"os.environ.get", "os.getenv"}:
        yield f"env {name}"
    elif called.rpartition(".")[2] in READERS and called.rpartition(".")[0] in {"", "env"}:
        more = [ast.unparse(one) for one in (*node.args[1:], *node.keywords)]
        yield f"env {name} {called.rpartition('.')[2]} {' '.join(more)}"


def _variable(node: ast.expr) -> str:
    name = _constant(node)
    return name if isinstance(name, str) and VARIABLE.fullmatch(name) else ""


def downloads(client: Any, found: Iterable[Any]) -> Iterator[str]:
    """What every address answers that is no page: name of the file, type, and the keys at its top."""
    for one in found:
        begin = f"file {one.name}"
        if lines := list(_file(client, one.path, begin)):
            yield from lines
            if one.path.endswith(".csv"):
                yield from _file(client, one.path.removesuffix(".csv") + ".json", f"{begin} json")
        elif lines := list(_file(client, f"{one.path}?as=csv", f"{begin} as=csv")):
            yield from lines
            for form in FORMS:
                yield from _file(client, f"{one.path}?as={form}", f"{begin} as={form}")


def _file(client: Any, path: str, begin: str) -> Iterator[str]:
    """Nothing for a page, a refusal and a redirect."""
    answer = client.get(path)
    kind = answer.headers.get("Content-Type", "")
    named = re.search(r'filename="([^"]*)"', answer.headers.get("Content-Disposition", ""))
    if answer.status_code == 200 and (named or not kind.startswith("text/html")):
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        yield f"{begin} {WHOLE.sub('N', named[1]) if named else '-'} {kind}"
        yield from (f"{begin} {line}" for line in _keys(body, kind, named[1] if named else ""))


def _keys(body: bytes, kind: str, name: str) -> Iterator[str]:
    """Keys of JSON, the head of CSV, the members of an archive with theirs."""
    if body.startswith(b"\x1f\x8b"):
        body = gzip.decompress(body)
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            for member in archive.namelist():
                yield f"holds {WHOLE.sub('N', member)}"
                yield from (f"holds {WHOLE.sub('N', member)} {one}" for one in _keys(archive.read(member), "", member))
    elif "json" in kind or name.endswith((".json", ".json.gz")):
        yield from _json_keys(json.loads(body), "")
    elif "csv" in kind:
        yield f"columns {' '.join(next(csv.reader(io.StringIO(body.decode())), []))}"


def _json_keys(value: Any, at: str) -> Iterator[str]:
    """The keys at the top, of objects in lists at the top, and what `format` says."""
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            yield f"keys {at}[] {' '.join(sorted(value[0]))}"
    elif isinstance(value, dict):
        yield f"keys {at or '.'} {' '.join(sorted(value))}"
        if isinstance(value.get("format"), str):
            yield f"format {value['format']}"
        if not at:
            for name, one in value.items():
                yield from _json_keys(one, name)


def targets() -> Iterator[str]:
    """Targets of the Makefile that people type, and the variables that they may set."""
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY:(.*)$", text, re.M)
    yield from (f"make {name}" for name in (phony[1].split() if phony else ()))
    yield from (f"make {name}=" for name in re.findall(r"^(?:export )?([A-Z_]+) \?=", text, re.M))
    yield from (f"make {name}=" for name in re.findall(r"\$\$\{([A-Z_]+):-", text))


def tables() -> Iterator[str]:
    """Tables of the project's models: columns, indexes and constraints."""
    from django.apps import apps

    for model in apps.get_models(include_auto_created=True):
        if _ours(model._meta.app_config.name):
            table = model._meta.db_table
            yield f"table {table}"
            yield from (f"table {table}.{_column(field)}" for field in model._meta.local_concrete_fields)
            for index in model._meta.indexes:
                yield f"table {table} index {index.name} ({','.join(index.fields)})"
            for constraint in model._meta.constraints:
                yield f"table {table} {type(constraint).__name__} {constraint.name}"


def _column(field: Any) -> str:
    size = f"({field.max_length})" if field.max_length else ""
    marks = [word for word, on in (("null", field.null), ("unique", field.unique), ("index", field.db_index)) if on]
    to = [f"-> {field.related_model._meta.db_table}"] if field.is_relation else []
    values = [f"[{','.join(str(value) for value, _ in field.flatchoices)}]"] if field.choices else []
    return " ".join([f"{field.column} {field.get_internal_type()}{size}", *marks, *to, *values])


def _ours(app: str) -> bool:
    """Whether a package lies in this tree, and not where packages are installed."""
    return (ROOT / app.partition(".")[0] / "__init__.py").is_file()


def main() -> None:
    """Print the lines, with a database of their own."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    with tempfile.TemporaryDirectory(prefix="adaexplore-surface-") as folder:
        os.environ["ADAEXPLORE_DATA"] = folder
        import django

        django.setup()
        from django.db import transaction
        from django.test.utils import setup_databases, setup_test_environment, teardown_databases

        logging.disable(logging.CRITICAL)  # many addresses refuse what is tried, and say so
        setup_test_environment()
        made = setup_databases(verbosity=0, interactive=False)
        try:
            with transaction.atomic():
                sys.stdout.write("\n".join(surface()) + "\n")
        finally:
            teardown_databases(made, verbosity=0)


if __name__ == "__main__":
    main()
