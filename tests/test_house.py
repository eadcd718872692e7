"""Rules for the code: every module has a name that says what it does, is small, and is described in plain English.

Exceptions are in lists here, with their reasons.
"""

import ast
import re
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import PurePath
from types import MappingProxyType

from tests.docs.source import importers, modules, texts

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


def _in(path: str, folders: tuple[str, ...]) -> bool:
    return any(PurePath(path).is_relative_to(folder) for folder in folders)


def test_public_class_names_are_unique() -> None:
    found = defaultdict(list)
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{module.path}:{node.lineno}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


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
        upstreams.fetching.fetch:work upstreams.transport.pooled:transport.keep_deadlines
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
