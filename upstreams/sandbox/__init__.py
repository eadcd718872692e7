"""The built-in sandbox.

It answers like the upstream platforms, with invented data, over HTTP on the loopback interface.
"""
