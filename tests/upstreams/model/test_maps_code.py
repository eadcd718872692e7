"""The code that is generated from a field map."""

import re
from textwrap import dedent

import msgspec

from upstreams.model.archetypes import Record
from upstreams.model.fields import maps_code
from upstreams.model.fields.maps import record_map
from upstreams.model.fields.maps_code import Shape, compiled, generated, struct_of
from upstreams.model.fields.readers import count, text, texts


def repo(**fields: object) -> Record:
    return fields


MAP = record_map(repo, id=text("id"), owner=text("owner.login"), stars=count("stars"), tags=texts("tags"))


def test_docstring_shows_the_generated_code() -> None:
    code, _ = generated(MAP, Shape())
    (shown,) = re.findall(r"^    def read.*?(?=^\S)", maps_code.__doc__ or "", re.M | re.S)
    assert dedent(shown).strip() == code


def test_both_forms_return_the_same_record() -> None:
    shape = Shape()
    build = compiled(MAP, shape)
    for raw in (b'{"id":"1","owner":{"login":"ada"},"stars":2,"tags":["a",""]}', b'{"stars":"many"}', b"{}"):
        decoded = msgspec.json.decode(raw, type=struct_of(shape))
        assert build(decoded) == compiled(MAP, Shape(), from_json=True)(msgspec.json.decode(raw))
