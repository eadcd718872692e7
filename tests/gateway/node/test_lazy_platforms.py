"""A node imports the package of a platform with the first call to it, and for nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import orjson

PROGRAM = """
import sys
from pathlib import Path

import orjson
import trio

from tests.fakes.node import open_test_node
from upstreams.index import load_indexed
from upstreams.sandbox.app import Behaviour
from gateway.node.serve import open_sandbox

FREE = (
    "/v1/utility/endpoints",
    "/v1/utility/endpoints?platform=github&search=profile",
    "/v1/openapi.json",
    "/v1/openapi.json?platform=github",
    "/v1/status",
    "/docs",
    "/docs/github",
    "/docs/search?q=posts",
    "/docs/records",
    "/docs/errors",
    "/llms.txt",
    "/v1/credits/balance",
    "/v1/github/profle",
    "/v1/github/profile?hndle=octocat",
    "/v1/github/profile",
)


def loaded():
    return sorted({name.split(".")[2] for name in sys.modules if name.startswith("upstreams.platforms.")})


async def main():
    platforms = load_indexed()
    assert platforms[0].loading is not None
    found = {"start": [200, loaded()]}
    async with open_sandbox(Behaviour()) as url, open_test_node(Path("."), only=platforms, sandbox=url) as node:
        async def get(target, **options):
            found[target] = [(await node.get(target, **options)).status, loaded()]
        for target in FREE:
            await get(target)
        await node.client.get(node.admin_url + "/metrics")
        found["/metrics"] = [200, loaded()]
        await get("/v1/github/profile?handle=octocat&dry_run=true")
        await get("/v1/github/profile?handle=octocat")
        await get("/v1/utility/endpoint?id=mastodon/profile")  # its example is the result of a call
        await get("/v1/hackernews/search?query=trio")
        await get("/v1/prism/lookup?url=https://github.com/octocat")
    sys.stdout.write(orjson.dumps(found).decode())


trio.run(main)
"""


def test_only_a_call_imports_its_platform(tmp_path: Path) -> None:
    """Goal: descriptions and prices use the index. Method: read them in a new process, then list its modules."""
    project = str(Path(__file__).parents[3])
    environ = {**os.environ, "PYTHONPATH": project, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for _ in range(2):  # the first run builds the index, which imports everything
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2_000:]
    found: dict[str, tuple[int, list[str]]] = orjson.loads(done.stdout)
    assert {target: status for target, (status, _) in found.items() if status not in (200, 400, 404)} == {}
    assert {target: loaded for target, (_, loaded) in found.items() if loaded} == {
        "/v1/github/profile?handle=octocat&dry_run=true": ["github"],
        "/v1/github/profile?handle=octocat": ["github"],
        "/v1/utility/endpoint?id=mastodon/profile": ["github", "mastodon"],
        "/v1/hackernews/search?query=trio": ["github", "hackernews", "mastodon"],
        "/v1/prism/lookup?url=https://github.com/octocat": ["github", "hackernews", "mastodon"],
    }
    assert found["/v1/prism/lookup?url=https://github.com/octocat"][0] == 200
