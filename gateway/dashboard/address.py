"""The place of the dashboard on the public address."""

from typing import Final

PREFIX: Final = "/dashboard"
