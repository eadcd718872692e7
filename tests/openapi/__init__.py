"""The OpenAPI document as strangers use it: Schemathesis tests a node by it, generators make clients of it."""
