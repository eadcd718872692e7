"""config.toml: every key, every kind of mistake, and no file causes an error other than ConfigError."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.config import Config, ConfigError, load_config
from gateway.config.settings import ServerSettings, StoreSettings, SupplierSettings
from upstreams.suppliers import interface_names

PLATFORMS = frozenset({"github", "bluesky", "hackernews"})
SHIPPED = Path(__file__).parents[3] / "config.toml"

CONTRACT = """
[server]
host = "127.0.0.1"
port = 8080
base_url = ""
engine = "native"
tls_cert = ""
tls_key = ""
workers = 1
request_timeout_s = 60
drain_s = 30
[admin]
host = "127.0.0.1"
port = 8081
[store]
url = "sqlite:///data/sluice.db"
[state]
url = "memory:"
[limits]
requests_per_minute = 600
concurrent_requests = 50
long_polls = 5
[cache]
max_bytes = 268435456
[upstreams]
egress = ""
operator_contact = ""
[upstreams.defaults]
timeout_s = 20
retries = 2
max_connections = 100
[upstreams.github]
token_env = "GITHUB_TOKEN"
[breaker]
failures = 5
window_s = 60
open_s = 30
[webhooks]
allow_insecure_targets = false
backoff_s = [5, 300, 1800, 7200, 18000]
timeout_s = 15
[events]
retention_days = 30
"""

TABLES = [name for name in Config.__struct_fields__ if name not in ("packs", "suppliers")]
"""The tables of the file. Packs are an array of tables, and each supplier has a table of its own."""


def load(tmp_path: Path, text: str | bytes) -> Config:
    file = tmp_path / "config.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_config(file, {}, PLATFORMS)


def refusal(tmp_path: Path, text: str | bytes) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/config.toml: ")
    assert all("\n" not in line for line in (str(caught.value), *caught.value.lines()))
    return caught.value


def first_line(tmp_path: Path, text: str | bytes) -> str:
    return str(refusal(tmp_path, text)).removeprefix(f"{tmp_path}/config.toml: ")


def test_empty_file_gives_defaults_for_every_platform(tmp_path):
    config = load(tmp_path, "")
    assert config.upstreams.platforms.keys() == PLATFORMS
    assert config.server == ServerSettings()
    assert config.upstreams.platforms["github"].timeout_s == 20.0
    assert config.upstreams.platforms["github"].enabled


def test_shipped_file_equals_the_defaults(tmp_path):
    assert load_config(SHIPPED, {}, PLATFORMS) == load(tmp_path, "")


def test_commented_out_settings_of_the_shipped_file_are_valid(tmp_path):
    text = "\n".join(
        line.removeprefix("# ") if "=" in line or "[" in line else "" for line in SHIPPED.read_text().split("\n")
    )
    text = text[text.index("[server]") :]
    found = load(tmp_path, text)
    assert found.upstreams.platforms["github"].credentials == {"token": "GITHUB_TOKEN"}
    assert found.suppliers == {"main": SupplierSettings(interface=interface_names()[0], key_env="SUPPLIER_KEY")}


SUPPLIERS = {
    "a text": ("suppliers = 1", ["suppliers: must be a table, not 1"]),
    "a name": ('[suppliers."A b"]\nkey_env = "K"', ["must have a name of 1 to 40 characters of a-z, 0-9, _ and -"]),
    "a key": (f'[suppliers.{interface_names()[0]}]\nkey = "K"', ["unknown key; did you mean", "key_env: must be set"]),
    "a budget": (
        f'[suppliers.{interface_names()[0]}]\nkey_env = "K"\ndaily_budget = -1',
        ["daily_budget: must be a whole number from 0 to 1000000000, not -1"],
    ),
    "an interface": ('[suppliers.other]\nkey_env = "K"', [f'did you mean "{interface_names()[0]}"?']),
}


@pytest.mark.parametrize(("text", "problems"), SUPPLIERS.values(), ids=SUPPLIERS.keys())
def test_bad_supplier_is_reported(tmp_path, text, problems):
    lines = refusal(tmp_path, text).lines()
    assert len(lines) == len(problems)
    for line, problem in zip(lines, problems, strict=True):
        assert problem in line


def test_shipped_file_names_every_setting():
    document = tomllib.loads(SHIPPED.read_text())
    assert "# [[packs]]" in SHIPPED.read_text(), "no packs are sold by default"
    assert "# [suppliers.main]" in SHIPPED.read_text(), "no supplier is used by default"
    for section in TABLES:
        named = set(document[section])
        known = set(getattr(Config(), section).__struct_encode_fields__) - {"platforms"}
        assert named == known, section


def test_every_operator_contract_key_has_its_default(tmp_path):
    contract = load(tmp_path, CONTRACT)
    assert contract.upstreams.platforms["github"].credentials == {"token": "GITHUB_TOKEN"}
    without_token = CONTRACT.replace('token_env = "GITHUB_TOKEN"', "")
    assert load(tmp_path, without_token) == load(tmp_path, "")


CHANGES = [
    ("server", "host", '"::1"', "::1"),
    ("server", "port", "0", 0),
    ("server", "base_url", '"https://api.example.com/sluice/"', "https://api.example.com/sluice"),
    ("server", "engine", '"hypercorn"', "hypercorn"),
    ("server", "tls_cert", '""', ""),
    ("server", "tls_key", '""', ""),
    ("server", "request_timeout_s", "2.5", 2.5),
    ("server", "drain_s", "0", 0.0),
    ("admin", "port", "9000", 9000),
    ("store", "url", '"sqlite:////var/lib/sluice.db"', "sqlite:////var/lib/sluice.db"),
    ("store", "disk_floor_bytes", "0", 0),
    ("limits", "requests_per_minute", "10", 10),
    ("limits", "concurrent_requests", "2", 2),
    ("limits", "long_polls", "0", 0),
    ("cache", "max_bytes", "0", 0),
    ("upstreams", "egress", '"http://127.0.0.1:9999/"', "http://127.0.0.1:9999"),
    ("upstreams", "operator_contact", '"ops@example.com"', "ops@example.com"),
    ("breaker", "failures", "1", 1),
    ("breaker", "open_s", "0.5", 0.5),
    ("webhooks", "allow_insecure_targets", "true", True),
    ("webhooks", "backoff_s", "[0.1, 2]", (0.1, 2.0)),
    ("webhooks", "signature_header", '"x-acme-signature"', "x-acme-signature"),
    ("events", "retention_days", "7", 7),
    ("monitors", "runs_retention_days", "90", 90),
    ("monitors", "results_retention_days", "1", 1),
    ("log", "level", '"debug"', "debug"),
    ("log", "access", "false", False),
    ("log", "access", '"errors"', "errors"),
    ("server", "trusted_proxies", '["10.0.0.0/8", "::1"]', ("10.0.0.0/8", "::1")),
    ("log", "access", "0.01", 0.01),
    ("keys", "prefix", '"ab-"', "ab-"),
]


@pytest.mark.parametrize(("section", "key", "text", "value"), CHANGES)
def test_setting_takes_effect(tmp_path, section, key, text, value):
    config = load(tmp_path, f"[{section}]\n{key} = {text}\n")
    assert getattr(getattr(config, section), key) == value


UNKNOWN_KEYS = [
    ("[server]\nprot = 1", 'server.prot: unknown key; did you mean "server.port"?'),
    ("[sever]\nport = 1", 'sever: unknown key; did you mean "server"?'),
    ("requests_per_minute = 5", 'requests_per_minute: unknown key; did you mean "limits.requests_per_minute"?'),
    ("port = 5", 'port: unknown key; did you mean "server.port"?'),
    ("[state]\nxyz = 1", 'state.xyz: unknown key; did you mean "state.url"?'),
    ("[upstreams]\negres = ''", 'upstreams.egres: unknown key; did you mean "upstreams.egress"?'),
    ("[upstreams.githib]", 'upstreams.githib: unknown platform; did you mean "upstreams.github"?'),
    ("[upstreams.default]", 'upstreams.default: unknown platform; did you mean "upstreams.defaults"?'),
    (
        "[upstreams.defaults]\nretry = 1",
        'upstreams.defaults.retry: unknown key; did you mean "upstreams.defaults.retries"?',
    ),
    (
        "[upstreams.github]\ntoken = 'x'",
        'upstreams.github.token: unknown key; did you mean "upstreams.github.token_env"?',
    ),
    ('[server]\n"po\\nrt" = 1', 'server."po\\nrt": unknown key; did you mean "server.port"?'),
]


@pytest.mark.parametrize(("text", "line"), UNKNOWN_KEYS)
def test_unknown_key_is_rejected_with_suggestion(tmp_path, text, line):
    assert first_line(tmp_path, text) == line


def test_platforms_is_not_a_key(tmp_path):
    assert first_line(tmp_path, "[upstreams.platforms.github]").startswith("upstreams.platforms: unknown platform")


def test_windows_text_files_are_accepted(tmp_path):
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xef\xbb\xbf[server]\r\nport = 8099\r\n")
    assert load_config(file, {}, PLATFORMS).server.port == 8099


WRONG_VALUES = [
    ("[server]\nport = 70000", "server.port: must be a port number from 0 to 65535, not 70000"),
    ("[server]\nport = -1", "server.port: must be a port number from 0 to 65535, not -1"),
    ("[server]\nport = '80'", "server.port: must be a port number from 0 to 65535, not text"),
    ("[server]\nport = true", "server.port: must be a port number from 0 to 65535, not true"),
    ("[server]\nhost = 'a b'", "server.host: must be a host name or an IP address"),
    ("[server]\nhost = 1979-05-27", "server.host: must be a host name or an IP address, not a date or time"),
    ("[server]\nengine = 'hyprcorn'", 'server.engine: must be one of "native", "hypercorn"; did you mean "hypercorn"?'),
    ("[server]\ndrain_s = -1", "server.drain_s: must be a number of seconds from 0 to 86400, not -1"),
    ("[server]\ndrain_s = nan", "server.drain_s: must be a number of seconds from 0 to 86400, not nan"),
    (
        "[server]\nrequest_timeout_s = 0",
        "server.request_timeout_s: must be a number of seconds above 0, at most 86400, not 0",
    ),
    ("[server]\nworkers = 0", "server.workers: must be a whole number from 1 to 256, not 0"),
    ("server = 3", "server: must be a table, not 3"),
    ("[[server]]\nport = 1", "server: must be a table, not an array"),
    ("upstreams = 3", "upstreams: must be a table, not 3"),
    ("[upstreams]\ngithub = 'no'", "upstreams.github: must be a table, not text"),
    (
        "[limits]\nrequests_per_minute = 0",
        "limits.requests_per_minute: must be a whole number from 1 to 10000000, not 0",
    ),
    ("[limits]\nlong_polls = 1.5", "limits.long_polls: must be a whole number from 0 to 100000, not 1.5"),
    ("[cache]\nmax_bytes = -1", "cache.max_bytes: must be a whole number of bytes from 0 to 1099511627776, not -1"),
    ("[webhooks]\nallow_insecure_targets = 'yes'", "webhooks.allow_insecure_targets: must be true or false, not text"),
    (
        "[webhooks]\nbackoff_s = [5, 0]",
        "webhooks.backoff_s: must be an array of 1 to 20 numbers of seconds, each above 0, at most 86400",
    ),
    (
        "[webhooks]\nbackoff_s = 5",
        "webhooks.backoff_s: must be an array of 1 to 20 numbers of seconds, each above 0, at most 86400, not 5",
    ),
    (
        "[monitors]\nretention_days = 9",
        'monitors.retention_days: unknown key; did you mean "monitors.runs_retention_days"?',
    ),
    (
        "[monitors]\nresults_retention_days = 0",
        "monitors.results_retention_days: must be a whole number from 1 to 3650, not 0",
    ),
    ("[events]\nretention_days = 0", "events.retention_days: must be a whole number from 1 to 3650, not 0"),
    ("[log]\nlevel = 'warn'", 'log.level: must be one of "debug", "info", "warning", "error"; did you mean "warning"?'),
    ("[log]\nlevel = {}", 'log.level: must be one of "debug", "info", "warning", "error", not a table'),
    ("[keys]\nprefix = 'sluice'", "keys.prefix: must be exactly 3 characters of A-Z, a-z, 0-9, _ and -"),
    (
        "[webhooks]\nsignature_header = 'X-Sig'",
        "webhooks.signature_header: must be a header name such as x-<service>-signature",
    ),
    (
        "[upstreams]\noperator_contact = 'é'",
        "upstreams.operator_contact: must be text with only printable ASCII characters",
    ),
    ("[upstreams.github]\nretries = 11", "upstreams.github.retries: must be a whole number from 0 to 10, not 11"),
    ("[store]\nurl = 5", "store.url: must be text, not 5"),
    ("[server]\ncors_origins = 'https://a.example'", "server.cors_origins: must be an array of text, not text"),
    (
        "[server]\ncors_origins = ['*', 'https://a.example/']",
        'server.cors_origins[1]: must be "*", or an origin such as https://app.example.com: only a scheme and a host',
    ),
]


@pytest.mark.parametrize(("text", "line"), WRONG_VALUES)
def test_error_for_an_invalid_value_says_what_is_valid(tmp_path, text, line):
    assert first_line(tmp_path, text) == line


def test_secret_instead_of_a_variable_name_is_not_repeated(tmp_path):
    error = refusal(tmp_path, "[upstreams.github]\ntoken_env = 'ghp-s3cr3t/value'")
    assert str(error).endswith("token_env: must be the name of an environment variable (never the secret itself)")
    assert "s3cr3t" not in str(error)


def test_credentials_in_a_rejected_url_are_not_repeated(tmp_path):
    for text in (
        "[store]\nurl = 'postgresql://u:s3cr3t@h'",
        "[state]\nurl = 'redys://u:s3cr3t@h'",
        "[state]\nurl = 'redis://u:s3cr3t@h:x'",
        "[server]\nbase_url = 'https://u:s3cr3t@h'",
    ):
        assert "s3cr3t" not in " ".join(refusal(tmp_path, text).lines())


@pytest.mark.parametrize("key", ["server.base_url", "upstreams.egress"])
@pytest.mark.parametrize(
    "url",
    [
        "example.com",
        "ftp://example.com",
        "https://",
        "/path",
        "http://h:99999",
        "http://[::1",
        "http://h:0",
        "http://u@h",
        "http://h?q=1",
        "http://h/#f",
        "http://h/?",
        "http://a b",
        "http://h\\n",
        "http://é.example",
    ],
)
def test_address_must_be_a_plain_http_url(tmp_path, key, url):
    section, name = key.split(".")
    line = first_line(tmp_path, f'[{section}]\n{name} = "{url}"')
    assert line.startswith(f"{key}: must be an absolute http or https URL such as https://api.example.com")


IN_THE_CLEAR = 'needs server.engine = "hypercorn"; the engine "native" supports only HTTP/1.1 without TLS'


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "engine = 'hypercorn'\ntls_cert = 'c.pem'",
            ["server.tls_key: must be set together with server.tls_cert: the PEM file of the certificate's key"],
        ),
        (
            "engine = 'hypercorn'\ntls_key = 'k.pem'",
            ["server.tls_cert: must be set together with server.tls_key: the PEM file of the key's certificate"],
        ),
        (
            "tls_cert = 'c.pem'\ntls_key = 'k.pem'",
            [f"server.tls_cert: {IN_THE_CLEAR}", f"server.tls_key: {IN_THE_CLEAR}"],
        ),
    ],
)
def test_certificate_needs_its_key_and_an_engine_with_tls(tmp_path, text, lines):
    assert [str(problem) for problem in refusal(tmp_path, f"[server]\n{text}").problems] == lines


def test_only_a_node_checks_its_certificate_files(tmp_path):
    text = "[server]\nengine = 'hypercorn'\ntls_cert = 'absent.pem'\ntls_key = 'absent.pem'"
    assert load(tmp_path, text).server.tls_cert == "absent.pem"
    with pytest.raises(ConfigError) as refused:
        load_config(tmp_path / "config.toml", {}, PLATFORMS, to_serve=True)
    assert [problem.key_path for problem in refused.value.problems] == ["server.tls_cert", "server.tls_key"]


POSTGRESQL, REDIS = "postgresql://sluice@db.internal/sluice", "redis://state.internal:6379"


def shared(workers, store, state):
    return f"[server]\nworkers = {workers}\n[store]\nurl = '{store}'\n[state]\nurl = '{state}'\n"


@pytest.mark.parametrize("workers", [1, 256])
@pytest.mark.parametrize(
    "store",
    [
        POSTGRESQL,
        "postgres://u:p@10.0.0.1:5433/d?sslmode=verify-full",
        "postgresql://one:5432,two:5432/d?target_session_attrs=read-write",
        "postgresql:///d?host=/run/postgresql",
    ],
)
@pytest.mark.parametrize(
    "state",
    [
        REDIS,
        "redis://:p@h/2",
        "rediss://u:p@h:6380/0",
        "redis+cluster://a:7000,b:7000",
        "rediss+cluster://a:7000",
        "redis+sentinel://a:26379,b:26379/main",
    ],
)
def test_shared_store_and_state_allow_any_number_of_workers(tmp_path, workers, store, state):
    config = load(tmp_path, shared(workers, store, state))
    assert (config.server.workers, config.store.url, config.state.url) == (workers, store, state)
    assert config.store.data_dir == Path("data")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "disk:",
        "redis:",
        "redis://",
        "redis:///1",
        "redis://h:x",
        "redis://h:70000",
        "redis://h/main",
        "redis+cluster://h/1",
        "redis+sentinel://h:1",
        "rediss+sentinel://h:1/main/x",
    ],
)
def test_state_must_be_memory_or_redis(tmp_path, url):
    assert first_line(tmp_path, f"[state]\nurl = '{url}'") == (
        "state.url: not a Redis address; expected redis://HOST:PORT/DB, redis+cluster://HOST:PORT,HOST:PORT or "
        "redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB (rediss for TLS); a single node can use memory:"
    )


def test_several_redis_servers_need_a_cluster_or_sentinel_url(tmp_path):
    assert first_line(tmp_path, "[state]\nurl = 'redis://a:1,b:2'") == (
        "state.url: redis:// accepts one server; for several, use redis+cluster:// or redis+sentinel://; "
        "a single node can use memory:"
    )


@pytest.mark.parametrize("url", ["redis://h h", "redis://:p#s@h", "redis://:pä@h"])
def test_state_url_with_unescaped_characters_is_rejected(tmp_path, url):
    line = first_line(tmp_path, f"[state]\nurl = '{url}'")
    assert line == (
        "state.url: must contain only visible ASCII characters without #; "
        "percent-encode others in a password, such as %23"
    )


def test_checking_a_file_imports_no_driver(tmp_path):
    """Goal: a check loads no drivers. Method: a separate process prints what it has imported."""
    (tmp_path / "config.toml").write_text(shared(2, POSTGRESQL, "rediss://h:6380"))
    code = (
        "import sys; from gateway.config import load_config; load_config('config.toml', {}, ());"
        "print(sorted({'coredis', 'psycopg'} & sys.modules.keys()))"
    )
    environ = {"PYTHONPATH": str(SHIPPED.parent)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, check=True)
    assert done.stdout == b"[]\n"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "sqlite:",
        "sqlite://x.db",
        "sqlite:///",
        "sqlite:////",
        "sqlite:///d/",
        "mysql://h",
        "postgresql://h",
        "postgresql://h/",
        "postgres://h/a b",
    ],
)
def test_store_must_be_sqlite_or_postgresql(tmp_path, url):
    line = first_line(tmp_path, f"[store]\nurl = '{url}'")
    assert line == (
        "store.url: must be sqlite:///relative/file.db, sqlite:////absolute/file.db or "
        "postgresql://user@host:5432/database"
    )


def test_all_problems_are_reported_and_counted(tmp_path):
    error = refusal(tmp_path, "[server]\nprot = 1\nport = 70000\nbase_url = 'x'\n[webhooks]\ntimeout_s = 0")
    assert [problem.key_path for problem in error.problems] == [
        "server.prot",
        "server.port",
        "webhooks.timeout_s",
        "server.base_url",
    ]
    assert error.problems[0].nearest == "server.port"
    assert str(error).endswith('unknown key; did you mean "server.port"? (and 3 more problems)')
    assert len(error.lines()) == 4


BROKEN_FILES = [
    ("[server]\nport = \n", "line 2: Invalid value"),
    ("[server]\nport = 1\nport = 2\n", "line 3: Cannot overwrite a value"),
    ("[server]\n\n[admin", "line 3: Expected ']' at the end of a table declaration"),
    (b"[server]\nhost = '\xff'\n", "line 2: not UTF-8 text"),
    ("a = " + "[" * 5000, "not valid TOML: "),
    ("a = " + "1" * 5000, "not valid TOML: "),
]


@pytest.mark.parametrize(("text", "line"), BROKEN_FILES)
def test_invalid_toml_is_rejected_with_its_line(tmp_path, text, line):
    assert first_line(tmp_path, text).startswith(line)


def test_missing_named_file_is_reported_by_name(tmp_path):
    missing = tmp_path / "missing.toml"
    with pytest.raises(ConfigError) as caught:
        load_config(missing, {}, PLATFORMS)
    assert str(caught.value) == f"{missing}: cannot be read: No such file or directory"
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path, {}, PLATFORMS)
    with pytest.raises(ConfigError, match="cannot be read: not a path"):
        load_config("a\0b", {}, PLATFORMS)


def test_config_path_order_is_argument_environment_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_config(None, {}, PLATFORMS)
    assert str(caught.value).endswith("No such file or directory; name the file with --config or SLUICE_CONFIG")
    for name, port in (("config.toml", 1), ("env.toml", 2), ("argument.toml", 3)):
        (tmp_path / name).write_text(f"[server]\nport = {port}\n")
    environ = {"SLUICE_CONFIG": str(tmp_path / "env.toml")}
    assert load_config(None, {}, PLATFORMS).server.port == 1
    assert load_config(None, environ, PLATFORMS).server.port == 2
    assert load_config(tmp_path / "argument.toml", environ, PLATFORMS).server.port == 3


@pytest.mark.parametrize(
    ("fields", "public", "listening"),
    [
        ({}, "http://127.0.0.1:9", "http://127.0.0.1:9"),
        ({"host": "::1"}, "http://[::1]:9", "http://[::1]:9"),
        ({"host": "::1", "tls_cert": "c", "tls_key": "k"}, "https://[::1]:9", "https://[::1]:9"),
        ({"host": "::", "tls_cert": "c", "tls_key": "k"}, "https://localhost:9", "https://[::]:9"),
        ({"host": "0.0.0.0"}, "http://localhost:9", "http://0.0.0.0:9"),
        ({"base_url": "https://api.example.com/", "tls_cert": "c"}, "https://api.example.com", "https://127.0.0.1:9"),
    ],
)
def test_public_url_is_configured_or_derived(fields, public, listening):
    server = ServerSettings(**fields)
    assert (server.public_url(9), server.listening_url(9)) == (public, listening)


def test_data_folder_is_the_folder_of_the_database():
    assert StoreSettings().data_dir == Path("data")
    assert StoreSettings(url="sqlite:////var/lib/s/x.db").data_dir == Path("/var/lib/s")
    assert StoreSettings(url="sqlite:///x.db").data_dir == Path()


def test_config_is_immutable(tmp_path):
    config = load(tmp_path, "")
    with pytest.raises(AttributeError):
        config.server.port = 1
    with pytest.raises(TypeError):
        config.upstreams.platforms["x"] = None


NAMES = sorted(
    {*Config.__struct_fields__, *PLATFORMS, "defaults", "platforms", "port", "url", "host", "retries", "level"}
)
LEAVES = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["sqlite:///x", "memory:", "native", "http://[", "http://h:x", "", "é"]),
    st.text(st.characters(codec="utf-8")),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(st.characters(codec="utf-8"), max_size=5)), inner),
    ),
    max_leaves=12,
)


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return quoted(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def quoted(text: str) -> str:
    """A TOML string: JSON's, but with astral characters and DEL in TOML's own escapes."""
    plain = json.dumps(text, ensure_ascii=False)
    return plain.replace("\x7f", "\\u007f")


FUZZ = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def loads_or_refuses(tmp_path: Path, content: bytes) -> None:
    try:
        load(tmp_path, content)
    except ConfigError as exc:
        lines = [str(exc), *exc.lines()]
    else:
        return
    assert len(lines) >= 2
    assert all(len(line.splitlines()) == 1 for line in lines)


@FUZZ
@given(document=st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(st.characters(codec="utf-8"))), VALUES))
def test_any_toml_document_loads_or_is_rejected_in_single_lines(tmp_path, document):
    content = "\n".join(f"{quoted(key)} = {toml(value)}" for key, value in document.items())
    tomllib.loads(content)
    loads_or_refuses(tmp_path, content.encode())


@FUZZ
@given(section=st.sampled_from(TABLES), data=st.data(), value=VALUES)
def test_any_setting_value_loads_or_is_rejected_in_single_lines(tmp_path, section, data, value):
    key = data.draw(st.sampled_from(getattr(Config(), section).__struct_fields__))
    loads_or_refuses(tmp_path, f"[{section}]\n{key} = {toml(value)}".encode())


@FUZZ
@given(place=st.integers(0, 5000), cut=st.integers(0, 40), junk=st.binary(max_size=10))
def test_damaged_file_loads_or_is_rejected_in_single_lines(tmp_path, place, cut, junk):
    content = SHIPPED.read_bytes()
    loads_or_refuses(tmp_path, content[:place] + junk + content[place + cut :])
