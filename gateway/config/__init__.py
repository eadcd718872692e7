"""config.toml: one typed, frozen Config, or everything that is wrong with the file."""

from gateway.config.errors import ConfigError, Problem
from gateway.config.loading import load_config
from gateway.config.settings import Config

__all__ = ["Config", "ConfigError", "Problem", "load_config"]
