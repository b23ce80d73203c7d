"""A server of predictions: ``python -m fairseq_idpg.serve --path CHECKPOINT``, on http://127.0.0.1:8000.

POST /predict takes {"texts": ["a sentence", ["first", "second"]], "tasks": ["..."], "prompts": true, "words": 5}, the
last three optional: the tasks that answer, and the nearest words of each prompt row. It gives {"predictions": [...]},
for each text what python -m fairseq_idpg.predict writes with --format jsonl. "cut" is true where the text was too long
and its end was not read, "prompts" has the words of each prompt row and "prompt_layers" its layer. An error gives
{"error": "one line"}: 400 cannot be answered, 413 too large, 415 not JSON, 421 for a server of another name, 500 a
fault of the model, which is in the log, 503 loading, ending, or too many texts wait. A connection ends when it brings
no whole request within 30 seconds.

GET / is a page to try it, /tasks lists the tasks, /health is 200 once the model is there, /metrics is for Prometheus.

example: python -m fairseq_idpg.serve --path runs/rte/checkpoint_best.pt --port 8000
"""

import argparse
import ipaddress
import signal
import socket
import sys
from collections.abc import Sequence

from preprocess.errors import shown
from preprocess.flags import flag_name

from .errors import InputError, command_parser, logged_command
from .predict import add_model_options, add_reading_options, check_files, open_model

LIMITS = {  # option -> its least and its largest value
    **dict.fromkeys(("batch_size", "max_texts", "max_bytes", "max_queue"), (1, 2**31)),
    **{"port": (0, 65535), "window": (0, 60_000)},
}


def build_parser() -> argparse.ArgumentParser:
    parser = command_parser("serve", __doc__, "")
    parser.epilog, parser.formatter_class = (__doc__ or "").partition("\n")[2], argparse.RawDescriptionHelpFormatter
    add_model_options(parser)
    add_reading_options(parser)
    add = parser.add_argument_group("the server").add_argument
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="default: 127.0.0.1, which no other machine reaches")
    add("--port", type=int, default=8000, metavar="N", help="default: 8000; 0: a free one, which is printed")
    name = "name by which it may be called, again for more; default: this machine's, and any with another --host"
    add("--allowed-host", action="append", default=[], metavar="NAME", help=name)
    add("--batch-size", type=int, default=64, metavar="N", help="texts that the model runs together, default: 64")
    add("--window", type=float, default=2, metavar="MS", help="milliseconds to wait for more of them, default: 2")
    add("--max-texts", type=int, default=256, metavar="N", help="texts of a request, default: 256")
    add("--max-bytes", type=int, default=1 << 20, metavar="N", help="size of a request, default: 1 MiB")
    add("--max-queue", type=int, default=4096, metavar="N", help="texts that may wait, default: 4096")
    return parser


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raise InputError where the address is unknown or the port is taken."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=socket.SOMAXCONN)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name of a host that cannot be encoded
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--host {host} --port {port}: {reason}: give others; --port 0 takes a free one") from None


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def allowed_hosts(bound: socket.socket, host: str, named: Sequence[str]) -> set[str] | None:
    """Return the names by which requests may call the server; None for any.

    On a loopback address a foreign page in a browser of this machine must not reach the server under the page's own
    name. On other addresses the names are unknown, and clients that reach these may ask anyhow.
    """
    address = bound.getsockname()[0]
    names = {address, host.lower(), *map(str.lower, named)}
    if ipaddress.ip_address(address).is_loopback:
        return {"localhost", "127.0.0.1", "::1", *names}
    return names if named else None


def serve(args: argparse.Namespace, bound: socket.socket) -> None:
    """Answer until a signal comes, and then the requests that were accepted before."""
    from . import plugin  # noqa: F401  here, as torch and fairseq take seconds to import

    try:
        from .serving.app import Metrics, build_app
        from .serving.batching import Batcher
        from .serving.http import HttpServer
        from .serving.questions import Served
    except ModuleNotFoundError as error:
        raise InputError(f"the server needs {error.name}: pip install prometheus-client starlette uvicorn") from None
    metrics = Metrics()
    limits = args.batch_size, args.window / 1000, args.max_queue
    batcher = Batcher(lambda: Served(open_model(args)), *limits, metrics.answered)
    hosts = allowed_hosts(bound, args.host, args.allowed_host)
    app = build_app(batcher, metrics, args.max_bytes, args.max_texts, hosts)
    server, url = HttpServer(app, batcher.hurry), url_of(bound)  # which a closed socket does not say

    def opened() -> None:
        names = batcher.served.tasks if batcher.served else ()
        print(f"{url} answers for {', '.join(map(shown, names))}; Ctrl-C ends it", flush=True)

    def ended() -> None:
        server.should_exit = True

    # uvicorn handles signals only while it runs, and raises the one that ended it once more afterwards.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, server.handle_exit)
    batcher.start(opened, ended)
    try:
        server.run(sockets=[bound])
    finally:
        batcher.close(drop=server.force_exit)  # Ctrl-C twice
    if batcher.error is not None:
        raise batcher.error


@logged_command()
def main(argv: Sequence[str] | None = None) -> None:
    args = build_parser().parse_args(argv)
    for name, (least, most) in LIMITS.items():
        value = getattr(args, name)
        if not least <= value <= most:
            raise InputError(f"{flag_name(name)} {value}: give {least} to {most}")
    check_files(args)
    with bind(args.host, args.port) as bound:
        serve(args, bound)


if __name__ == "__main__":
    sys.exit(main())
