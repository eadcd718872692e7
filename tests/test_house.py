"""Rules for the code: every module has a name that says what it does, is small, and is described in plain English.

Exceptions are in lists here, with their reasons.
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
"""Words in module names for which the field has a better word: see the table of words in docs/contributing.md."""
OLD_VERBS = frozenset(
    re.findall(
        r"\w+",
        """asked asking asks fall falls flock hear heard hears heed news office presence rung rungs tell telling
        tells told told_waits wakeups""",
    )
)
"""Such words in functions and attributes. The table's other words are allowed, because they also have a plain meaning,
as in "held credits"."""
STILL_OLD: MappingProxyType[str, str] = MappingProxyType(
    {
        "bench.scenarios.due": "the name of the scenario in the command",
    }
)

SMALL: MappingProxyType[str, str] = MappingProxyType(
    {
        "bench.load.wrk": "reads another program's output; its importer would exceed 200 lines",
        "bench.sweep": "one module per command of the suite",
        "billing.open_charges": "a table, and its migration from the previous one",
        "billing.ledger.forecast": "pure except for one query, in a lower layer than its importer",
        "billing.packs.schema": "one set of tables per package",
        "billing.keys.text": "pure, and the only place that has the format of a key",
        "billing.prices": "the tiers' prices, in a lower layer than their importer",
        "events.migrations": "one set of migrations per package",
        "gateway.admin.account_operations": "one module per family of operations",
        "gateway.config.strength": "the only module that loads the word lists, which is slow",
        "gateway.dashboard.calling": "the only place where pages call the API, next to the values of such a call",
        "gateway.dashboard.folding": "pure: JSON as HTML",
        "gateway.dashboard.pages.billing": "one module per area of pages",
        "gateway.dashboard.pages.discover.rows": "pure: a record in the form for a page and a table",
        "gateway.docs.account.credits": "one module per family of routes",
        "gateway.docs.account.packs": "one module per family of routes",
        "gateway.docs.pages.event_types": "tables of the registry, which a document of the repository must match",
        "gateway.node.background.sessions": "one module per kind of background work",
        "limits.retries": "an independent limit, in a lower layer than its importer",
        "limits.shared_hints": "an independent limit, in a lower layer than its importer",
        "scheduler.backlog": "provides the operator's view without the services",
        "scheduler.monitors.runs.payload": "pure: the bytes that a webhook receives",
        "storage.bell": "tested alone, and its importer would exceed 450 lines",
        "upstreams.fetching.concurrent": "the only nursery of a read",
        "upstreams.fetching.redirects": "a separate walk, next to the source that begins it",
        "upstreams.web.reading.pdf": "one module per form of body",
        "upstreams.transport.revalidating": "a separate exchange that wraps another",
        "upstreams.sandbox.drift": "pure: what a response lacks, next to the command that makes the call",
        "upstreams.transport.answer_start": "a separate parser for another kind of peer",
    }
)
"""Modules with fewer than `SMALL_LINES` lines and one importer that are still separate, with the reason."""


def _in(path: str, folders: tuple[str, ...]) -> bool:
    return any(PurePath(path).is_relative_to(folder) for folder in folders)


def test_public_class_names_are_unique() -> None:
    found = defaultdict(list)
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{module.path}:{node.lineno}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_folders_contain_at_most_16_modules() -> None:
    held = Counter(str(PurePath(module.path).parent) for module in modules().values() if not module.is_package)
    del held["upstreams/platforms"]
    assert {folder: count for folder, count in held.items() if count > MODULES_MAX} == {}


def test_module_length_is_at_most_450_lines() -> None:
    assert {module.path: module.lines for module in modules().values() if module.lines > LINES_MAX} == {}


def test_function_bodies_have_at_most_50_lines() -> None:
    bodies = ((module, node, _body_lines(node)) for module in modules().values() for node in functions(module.tree))
    assert [(module.path, node.name, lines) for module, node, lines in bodies if lines > BODY_LINES_MAX] == []


def _body_lines(function: Function) -> int:
    """Return the number of lines after the signature and the docstring."""
    first = function.body[1:2] if ast.get_docstring(function, clean=False) is not None else function.body[:1]
    return (function.end_lineno or 0) - first[0].lineno + 1 if first else 0


def test_docstrings_begin_with_their_subject_or_verb() -> None:
    """Goal: plain English. A free relative clause ("What comes", "Who waits") hides the subject of its sentence."""
    wrong = [
        f"{module.path}:{line}: {text.strip()[:60]}"
        for module in modules().values()
        for line, text in texts(module.tree)
        if _FREE_RELATIVE.match(text)
    ]
    assert wrong == []


def test_no_module_name_uses_a_discouraged_word() -> None:
    old = {name for name in modules() if name.rpartition(".")[2] in OLD_NAMES}
    assert old - STILL_OLD.keys() == set()


def test_no_function_or_attribute_name_uses_a_discouraged_word() -> None:
    """Goal: one word for one thing. Platforms use the words of their upstreams, records the words of responses."""
    wrong = [
        f"{module.path}:{getattr(node, 'lineno', 0)}: {name}"
        for module in modules().values()
        if not _in(module.path, ("upstreams/platforms", "upstreams/model/archetypes"))
        for node in ast.walk(module.tree)
        if (name := _defined(node)).strip("_") in OLD_VERBS
    ]
    assert wrong == []


def _defined(node: ast.AST) -> str:
    """Return the function, argument or attribute that a node defines, or an empty string."""
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
    """Goal: no import cycles, not even those that only a type checker sees."""
    # A module's package is always imported with it, so such an import is not counted as a cycle.
    users = {
        name: {one for one in found if not f"{one}.".startswith(f"{name}.")} for name, found in importers().items()
    }
    TopologicalSorter(users).prepare()  # raises an error that names the cycle


def test_small_module_with_one_importer_has_a_reason() -> None:
    """Platforms are exempt, because they have the same file names everywhere, however small a file is."""
    alone = {module.name: importers()[module.name] for module in modules().values() if _is_small(module)}
    alone = {name: users for name, users in alone.items() if len(users) == 1}
    assert {name: users for name, users in alone.items() if name not in SMALL} == {}
    assert SMALL.keys() - alone.keys() == set(), "`SMALL` lists modules that are no exceptions any more"


def _is_small(module: Module) -> bool:
    return module.lines < SMALL_LINES and not module.is_package and not _in(module.path, ("upstreams/platforms",))


ENDING_TASKS = frozenset(
    re.findall(
        r"\S+",
        """
        bench.
        gateway.admin.client:ask_first gateway.calls.batches:work gateway.cli.
        gateway.node.serve:announce gateway.node.serve:stop_on_end_of_input
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

A name that ends with a dot is a package whose tasks belong to a program other than a node.
"""


def test_every_background_loop_is_supervised() -> None:
    """Goal: one error never ends the node. Each task is started by `keep`, or is in the list above."""
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
    assert ENDING_TASKS - without - set(programs) == set(), "`ENDING_TASKS` lists tasks that are not started any more"
