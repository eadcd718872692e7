"""The address of the dashboard under the public address."""

from typing import Final

PREFIX: Final = "/dashboard"
