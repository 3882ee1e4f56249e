"""The live view: a hub per run, plain ASGI sockets, frames."""
