"""config.toml: loads the file into one typed, frozen Config, or reports all of its problems."""

from gateway.config.errors import ConfigError, Problem
from gateway.config.loading import load_config
from gateway.config.settings import Config

__all__ = ["Config", "ConfigError", "Problem", "load_config"]
