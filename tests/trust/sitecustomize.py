"""Refuse the network in processes with this folder in PYTHONPATH; note it in $NETWORK_LOG."""

import os
import socket
import sys

ADDRESS = {"socket.connect": 1, "socket.bind": 1, "socket.sendto": 1, "socket.sendmsg": 1}
HOST = {"socket.getaddrinfo": 0, "socket.gethostbyname": 0}


def _refuse_network(event: str, arguments: tuple) -> None:
    if event in ADDRESS:
        address = arguments[ADDRESS[event]]
        if arguments[0].family not in (socket.AF_INET, socket.AF_INET6) or address is None:
            return
        host = address[0]
    elif event in HOST:
        host = arguments[HOST[event]]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host not in (None, "localhost", "::1") and not host.startswith("127."):
        with open(os.environ["NETWORK_LOG"], "a") as log:
            log.write(f"{event} {host or 'all addresses'}: {sys.argv}\n")
        raise PermissionError(f"{event} {host}")


if "NETWORK_LOG" in os.environ:
    sys.addaudithook(_refuse_network)
