"""The house is in order: every module is found by its name, is small, and says in plain English what it gives.

An exception stands in a list here, with its reason.
"""

import ast
import re
from collections import Counter, defaultdict
from graphlib import TopologicalSorter
from pathlib import PurePath
from types import MappingProxyType

from tests.docs.source import Function, Module, functions, importers, modules, texts

LINES_MAX = 450
BODY_LINES_MAX = 50
MODULES_MAX = 16
SMALL_LINES = 75

_FREE_RELATIVE = re.compile(r"\W*(?:What|Who|Whose|Whom|Whoever|Whatever|Of)\b")

OLD_NAMES = frozenset(
    re.findall(
        r"\w+",
        """ahead ask asked asking asks books caveats due facts falls flock hear heed held kept known news office orders
        outcome places presence rung sent shown tell telling told told_waits wakeups""",
    )
)
"""Names of modules that the field has a better word for: see the table of words in docs/contributing.md."""
OLD_VERBS = frozenset(
    re.findall(
        r"\w+",
        """asked asking asks fall falls flock hear heard hears heed news office presence rung rungs tell telling
        tells told told_waits wakeups""",
    )
)
"""Names of functions and attributes likewise. The table's other words have a plain meaning too: held credits."""
STILL_OLD: MappingProxyType[str, str] = MappingProxyType(
    {
        "bench.scenarios.due": "the scenario's name in the command",
    }
)

SMALL: MappingProxyType[str, str] = MappingProxyType(
    {
        "bench.load.wrk": "another program's output, read; its importer would pass 200 lines",
        "bench.sweep": "one module a command of the suite",
        "billing.open_charges": "a table, and the way to it from what it was",
        "billing.ledger.forecast": "pure but for one query, on a lower floor than its importer",
        "billing.packs.schema": "one set of tables a room",
        "billing.keys.text": "pure, and the one place that knows how a key is written",
        "billing.prices": "the tiers' prices, on a lower floor than their importer",
        "events.migrations": "one set of migrations a package",
        "gateway.admin.account_operations": "one module a family of operations",
        "gateway.config.strength": "the one module that loads the word lists, which is slow",
        "gateway.dashboard.calling": "the one place where pages call the API, beside the values of such a call",
        "gateway.dashboard.folding": "pure: JSON as HTML",
        "gateway.dashboard.pages.billing": "one module an area of pages",
        "gateway.dashboard.pages.discover.rows": "pure: a record as a page and a table have it",
        "gateway.docs.account.credits": "one module a family of routes",
        "gateway.docs.account.packs": "one module a family of routes",
        "gateway.docs.pages.event_types": "tables of the registry, with which a document of the repository is compared",
        "gateway.node.background.sessions": "one module a kind of work in the background",
        "gateway.node.background.deliveries": "the services of accounts and of monitors both stand on it",
        "limits.retries": "a limit that stands on its own, on a lower floor than its importer",
        "limits.shared_hints": "a limit that stands on its own, on a lower floor than its importer",
        "scheduler.backlog": "gives the operator's view without the services",
        "scheduler.monitors.runs.payload": "pure: the bytes that a webhook receives",
        "storage.bell": "tested alone, and its importer would pass 450 lines",
        "upstreams.fetching.concurrent": "the one nursery of a read",
        "upstreams.fetching.redirects": "a walk of its own, beside the source that begins it",
        "upstreams.web.reading.pdf": "one module a form of body",
        "upstreams.transport.revalidating": "an exchange of its own, around another",
        "upstreams.sandbox.drift": "pure: what an answer lacks, beside the command that makes the call",
        "upstreams.transport.answer_start": "a parser of its own, for another kind of peer",
    }
)
"""Modules under `SMALL_LINES` with one importer that stand alone, and why."""


def _in(path: str, folders: tuple[str, ...]) -> bool:
    return any(PurePath(path).is_relative_to(folder) for folder in folders)


def test_a_public_class_name_exists_once_in_the_program() -> None:
    found = defaultdict(list)
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{module.path}:{node.lineno}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_a_folder_holds_few_modules() -> None:
    held = Counter(str(PurePath(module.path).parent) for module in modules().values() if not module.is_package)
    del held["upstreams/platforms"]
    assert {folder: count for folder, count in held.items() if count > MODULES_MAX} == {}


def test_module_length_is_at_most_450_lines() -> None:
    assert {module.path: module.lines for module in modules().values() if module.lines > LINES_MAX} == {}


def test_a_function_body_has_at_most_fifty_lines() -> None:
    bodies = ((module, node, _body_lines(node)) for module in modules().values() for node in functions(module.tree))
    assert [(module.path, node.name, lines) for module, node, lines in bodies if lines > BODY_LINES_MAX] == []


def _body_lines(function: Function) -> int:
    """The lines behind the signature and the docstring."""
    first = function.body[1:2] if ast.get_docstring(function, clean=False) is not None else function.body[:1]
    return (function.end_lineno or 0) - first[0].lineno + 1 if first else 0


def test_a_docstring_begins_with_the_thing_or_the_deed() -> None:
    """Goal: plain English; a free relative ("What comes", "Who waits") hides the subject until the sentence's end."""
    wrong = [
        f"{module.path}:{line}: {text.strip()[:60]}"
        for module in modules().values()
        for line, text in texts(module.tree)
        if _FREE_RELATIVE.match(text)
    ]
    assert wrong == []


def test_no_module_has_a_name_of_the_private_language() -> None:
    old = {name for name in modules() if name.rpartition(".")[2] in OLD_NAMES}
    assert old - STILL_OLD.keys() == set()


def test_no_function_or_attribute_has_a_name_of_the_private_language() -> None:
    """Goal: one word for one thing. Platforms keep the words of what they read, records those of the answers."""
    wrong = [
        f"{module.path}:{getattr(node, 'lineno', 0)}: {name}"
        for module in modules().values()
        if not _in(module.path, ("upstreams/platforms", "upstreams/model/archetypes"))
        for node in ast.walk(module.tree)
        if (name := _defined(node)).strip("_") in OLD_VERBS
    ]
    assert wrong == []


def _defined(node: ast.AST) -> str:
    """The function, argument or attribute that a node defines; empty when it defines none."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name
        case ast.arg():
            return node.arg
        case ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case ast.Attribute(attr=attr, ctx=ast.Store()):
            return attr
    return ""


def test_no_module_imports_itself_through_others() -> None:
    """Goal: no circles, not even those that only a type checker sees."""
    # A module's package is imported with it, whatever it imports.
    users = {
        name: {one for one in found if not f"{one}.".startswith(f"{name}.")} for name, found in importers().items()
    }
    TopologicalSorter(users).prepare()  # raises where there is one, which it names


def test_a_small_module_with_one_importer_stands_alone_for_a_reason() -> None:
    """Platforms have the same file names everywhere, however small each file is."""
    alone = {module.name: importers()[module.name] for module in modules().values() if _is_small(module)}
    alone = {name: users for name, users in alone.items() if len(users) == 1}
    assert {name: users for name, users in alone.items() if name not in SMALL} == {}
    assert SMALL.keys() - alone.keys() == set(), "no reason is left for what is no exception any more"


def _is_small(module: Module) -> bool:
    return module.lines < SMALL_LINES and not module.is_package and not _in(module.path, ("upstreams/platforms",))


ENDING_TASKS = frozenset(
    re.findall(
        r"\S+",
        """
        bench.
        gateway.admin.client:ask_first gateway.calls.batches:work gateway.cli.
        gateway.node.serve:announce gateway.node.serve:stop_at_the_end_of_input
        gateway.node.workers.admin:ask_slot gateway.node.workers.slots:self._forward_stop
        gateway.node.workers.slots:self._watch_start gateway.node.workers.supervisor:_announce
        gateway.node.workers.supervisor:kill_hung
        gateway.server.hypercorn.engine:_serve gateway.server.lifespan:lifespan.run
        gateway.server.serve:connection.run
        scheduler.jobs.job_runs:work scheduler.leased_workers:self._supervise
        scheduler.webhooks.deliveries.service:self._deliver
        storage.redis.link:self._keep_alive storage.redis.link:self._send storage.redis.routes:self._run_within
        upstreams.fetching.concurrent:work upstreams.transport.pooled:transport.keep_deadlines
        upstreams.web.browser.browser:_watch upstreams.web.browser.devtools:read
        upstreams.web.browser.resources:do upstreams.web.browser.watch:do upstreams.workers.pool:_reap
        """,
    )
)
"""Tasks without supervision: they end with one request, run, page or connection, or run under `keep` themselves.

A name that ends with a dot stands for a package whose tasks belong to a program that is no node.
"""


def test_every_background_loop_is_supervised() -> None:
    """Goal: one fault never ends the node. A task is started by `keep`, or stands in the list above."""
    found = {
        f"{module.name}:{ast.unparse(node.args[0])}"
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("start_soon", "spawn_system_task")
        and not ast.unparse(node.args[0]).endswith("keep")
    }
    programs = tuple(name for name in ENDING_TASKS if name.endswith("."))
    without = {name for name in found if not name.startswith(programs)}
    assert without - ENDING_TASKS == set()
    assert ENDING_TASKS - without - set(programs) == set(), "these are not started any more"
