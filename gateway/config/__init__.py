"""Load config.toml into one typed, immutable Config, or report all of its problems."""

from gateway.config.errors import ConfigError, Problem
from gateway.config.loading import load_config
from gateway.config.settings import Config

__all__ = ["Config", "ConfigError", "Problem", "load_config"]
