"""Fails to be imported, two calls deep."""


def inner():
    raise RuntimeError("the reason why")


inner()
