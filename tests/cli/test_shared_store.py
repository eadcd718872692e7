"""Commands on a store that many nodes share: they ask the node at the config's admin address, whoever it is.

Method: the node that answers there has a store of its own, since the commands never look at it.
"""

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from tests.fakes.commands import Commands
from tests.fakes.sluice_process import Place
from tests.servers.ports import free_port

SHARED = {"url": "postgresql://127.0.0.1:1/none"}
SECRET = {"SLUICE_SECRET": "the same on every machine"}


def test_commands_go_to_the_node_at_the_configs_admin_address(place: Place, tmp_path: Path, commands: Commands) -> None:
    place = replace(place, environ=SECRET)
    desk = Place(tmp_path / "desk", commands, SECRET)
    desk.folder.mkdir()
    with place.serve() as node:
        desk.configure(admin={"port": urlsplit(node.admin_url).port}, store=SHARED)
        made = desk.told("account", "create", "--name", "elsewhere")
        assert [account["id"] for account in place.told("account", "list")] == [made["id"]]
        assert desk.told("reload") == {"applied": [], "needs_restart": []}
        assert desk.told("platforms", "isolate", "github")["platform"] == "github"


def test_what_only_a_node_can_do_is_refused_while_none_answers(place: Place) -> None:
    place.configure(admin={"port": free_port()}, store=SHARED)
    assert place.operate("reload").refused(1) == "no node runs on this store"
