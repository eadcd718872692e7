"""The answers of routes that are no data endpoints, as types, and what their readers are told of them."""
