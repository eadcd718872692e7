"""One module for each supplier's interface, which defines its `INTERFACE`. To add an interface, add its module here.

A platform names an interface as the address of a source: `"@<module>"`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upstreams.model.supplier_interface import Interface


def interface_names() -> tuple[str, ...]:
    """Return the name of every interface without importing the modules. The name is the module's name."""
    return tuple(sorted(module.name for module in iter_modules(__path__)))


def load_interface(name: str) -> Interface:
    """Return the interface with this name."""
    interface: Interface = import_module(f"{__name__}.{name}").INTERFACE
    return interface


def resolve_address(address: str) -> str:
    """Return the base address of a source. If `address` names an interface, it is the interface's usual address."""
    return load_interface(address[1:]).base_url if address.startswith("@") else address
