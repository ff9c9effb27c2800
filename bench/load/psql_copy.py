"""`COPY … FROM STDIN` through psql for a bounded time, one row for each message: prints rows and seconds."""

from __future__ import annotations

import subprocess
import time

from bench.load.arguments import arguments, result

BATCH = 1_000


def main() -> None:
    given = arguments()
    value = b"x" * given["size"]
    statements = ["CREATE TABLE IF NOT EXISTS copied (place bigint, value text)", "TRUNCATE copied"]
    psql = [f"{given['programs']}/psql", "--no-psqlrc", "--quiet", given["url"]]
    for statement in statements:
        subprocess.run([*psql, "-c", statement], check=True)
    sent, began = 0, time.perf_counter()
    with subprocess.Popen([*psql, "-c", "COPY copied FROM STDIN"], stdin=subprocess.PIPE) as copying:
        assert copying.stdin is not None
        while sent < given["count"] and time.perf_counter() - began < given["seconds"]:
            copying.stdin.write(b"".join(b"%d\t%b\n" % (place, value) for place in range(sent, sent + BATCH)))
            sent += BATCH
    if copying.returncode:
        raise SystemExit(f"psql ended with {copying.returncode}")
    result(messages=sent, seconds=time.perf_counter() - began)


if __name__ == "__main__":
    main()
