"""Sum a lake in a Spark standalone cluster of two workers, and compare with the cost report to the pico-dollar.

python tools/lake_spark.py [HOME]        (by `make lake-spark`, which fetches PySpark; needs a Java runtime)

A master and two workers run as processes on loopback and are ended by their ids. Without a home, that of the engines' test is made.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from importlib import import_module
from pathlib import Path

from recollect import Home
from recollect.share.lake_export import export_lake

WAIT_SECONDS = 120.0
_URL = re.compile(r"Starting Spark master at (spark://\S+)")


@contextmanager
def process(log: Path, *words: str) -> Iterator[Path]:
    """A daemon of Spark, with its messages in a file."""
    spark = Path(str(import_module("pyspark").__file__)).parent
    environment = {**os.environ, "SPARK_HOME": str(spark), "SPARK_LOCAL_IP": "127.0.0.1"}
    with log.open("wb") as file:
        running = subprocess.Popen(
            [spark / "bin" / "spark-class", *words], stdout=file, stderr=file, env=environment
        )
        try:
            yield log
        finally:
            running.terminate()
            running.wait()


def said(log: Path, pattern: re.Pattern[str]) -> str:
    """What a daemon said, as soon as it said it."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        found = pattern.search(log.read_text(errors="replace"))
        if found is not None:
            return found[found.re.groups]
        time.sleep(0.2)
    raise SystemExit(
        f"{log}: nothing like {pattern.pattern!r} within {WAIT_SECONDS:g} s:\n{log.read_text()[-2000:]}"
    )


def totals(lake: Path, master: str) -> tuple[Decimal, int, int]:
    """The sum and the number of counted responses in Spark, and how many workers computed."""
    session = (
        import_module("pyspark.sql").SparkSession.builder.master(master)
        .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "512m").config("spark.cores.max", "2").config("spark.executor.cores", "1")
        .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "4")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s").getOrCreate()
    )  # fmt: skip
    try:
        session.sparkContext.setLogLevel("ERROR")
        rows = session.read.option("mergeSchema", "true").parquet(str(lake / "responses"))
        found = rows.selectExpr("sum(usd)", "count_if(counted)").collect()[0]
        executors = len(session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1  # noqa: SLF001 - Python has no other way
        return Decimal(found[0]), found[1], executors
    finally:
        session.stop()


def main() -> int:
    with ExitStack() as held:
        place = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="lake-spark-")))
        home = Home(sys.argv[1], data=place / "data") if len(sys.argv) > 1 else _made(place)
        export_lake(home, place / "lake", data=place / "data")
        log = held.enter_context(
            process(place / "master.log", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1",
                    "--port", "0", "--webui-port", "0")
        )  # fmt: skip
        master = said(log, _URL)
        for number in (1, 2):
            worker = held.enter_context(
                process(place / f"worker-{number}.log", "org.apache.spark.deploy.worker.Worker", "--cores", "1",
                        "--memory", "1g", "--host", "127.0.0.1", "--webui-port", "0", "--work-dir",
                        str(place / f"work-{number}"), master)
            )  # fmt: skip
            said(worker, re.compile("(Successfully registered with master)"))
        total, counted, workers = totals(place / "lake", master)
        expected = home.costs().totals
    print(f"Spark, {workers} workers: ${total} in {counted:,} responses; cost report: ${expected.usd}")
    is_equal = (expected.usd, expected.responses) == (total, counted)
    return 0 if is_equal and workers == 2 else 1


def _made(place: Path) -> Home:
    from tests.ask.data.test_engines import made_home

    return made_home(place / "made")


if __name__ == "__main__":
    sys.exit(main())
