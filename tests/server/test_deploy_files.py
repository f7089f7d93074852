"""The files below deploy/ name commands and options that exist, and the backup that they make can be restored."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import tomllib
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it has no types

from recollect.cli.main import command_parser
from recollect.model.text.query import WordQuery
from recollect.server.app import ROUTES
from recollect.server.cli.serve import DATABASE, OBJECTS
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.records import LineSearch
from tests.server.conftest import Kind
from tests.server.postgres_cluster import PROGRAMS, Cluster
from tests.server.world import World, in_world, prompt, reply

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())


PORT = 8787


def parsed(words: Sequence[str], command: str = "team serve") -> Namespace:
    """The options of ``recollect team serve``, or another command; a wrong one ends the test."""
    return command_parser(command).parse_args(list(words))


def test_every_option_is_one_of_the_server() -> None:
    """In the image, the Compose file, the units and the chart."""
    actions = [*command_parser("team serve")._actions, *command_parser("team lake")._actions]
    known = {option for action in actions for option in action.option_strings}
    served = [path for path in FILES if path.name not in ("recollect-backup.service", "compose-role.sh")]
    lines = [
        line
        for path in served
        for line in path.read_text().splitlines()
        if not line.lstrip().startswith(("#", "RUN", "HEALTHCHECK"))
    ]
    named = set(re.findall(r"--[a-z][a-z-]+", " ".join(lines)))

    assert {"--behind-proxy", "--migrate", "--host", "--trusted-proxy"} <= named
    assert named <= known


def test_the_compose_file_is_what_the_server_takes() -> None:
    """Its options parse, and every port, secret, volume, file and variable that it names exists. The role is a plain
    one: a superuser would see through row-level security."""
    document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = document["services"]
    assert set(services) == {"database", "migrate", "server"}
    assert parsed(services["migrate"]["command"]).migrate
    assert parsed(services["server"]["command"]).behind_proxy
    assert services["server"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert "SUPERUSER" not in (DEPLOY / "compose-role.sh").read_text()
    for service in services.values():
        secrets = {one if isinstance(one, str) else one["source"] for one in service["secrets"]}
        assert secrets <= set(document["secrets"])
        sources = {volume.partition(":")[0] for volume in service["volumes"]}
        files = {source for source in sources if source.startswith("./")}
        assert sources - files <= set(document["volumes"])
        assert all((DEPLOY / name).is_file() for name in files)
        assert set(service.get("depends_on", ())) <= set(services)
    environment = services["server"]["environment"]
    assert set(environment) == {DATABASE, "PGPASSFILE"}
    assert environment[DATABASE].startswith("postgresql://recollect@database/")
    assert environment["PGPASSFILE"] == "/run/secrets/pgpass"


def test_the_image_starts_the_server_as_the_chart_and_the_compose_file_expect() -> None:
    image = (DEPLOY / "Containerfile").read_text()
    words = {name: json.loads(text) for name, text in re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", image, re.M)}
    assert words["ENTRYPOINT"] == ["recollect", "team", "serve"]
    assert parsed(words["CMD"]).host == "0.0.0.0"
    assert re.search(rf"^EXPOSE {PORT}$", image, re.M)
    assert f"127.0.0.1:{PORT}/healthz" in image
    assert re.search(r"^USER 10001$", image, re.M)
    extras = re.search(r"\$\{wheel\}\[([a-z,]+)\]", image)
    assert extras is not None
    package = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert set(extras[1].split(",")) <= set(package["optional-dependencies"])
    # A server may sign people in and move lines to an object store, and the chart starts the lake with the same image.
    assert set(extras[1].split(",")) >= {"server", "data", "otel"}


def test_the_units_start_commands_that_exist() -> None:
    unit = (DEPLOY / "systemd" / "recollect-server.service").read_text()
    started = re.findall(r"^ExecStart(?:Pre)?=/opt/recollect/bin/recollect team serve (.*)$", unit, re.M)
    before, server = (parsed(line.split()) for line in started)
    assert (before.migrate, server.port, server.behind_proxy) == (True, PORT, True)
    assert DATABASE in unit
    worker, lake = (
        (DEPLOY / "systemd" / name).read_text()
        for name in ("recollect-worker.service", "recollect-lake@.service")
    )
    (words,) = re.findall(r"^ExecStart=/opt/recollect/bin/recollect team serve (.*)$", worker, re.M)
    assert parsed(words.split()).role == "worker"
    assert OBJECTS in worker
    (words,) = re.findall(r"^ExecStart=/opt/recollect/bin/recollect team lake (.*)$", lake, re.M)
    assert parsed(words.split(), "team lake").to == "${LAKE}"
    for timer in (DEPLOY / "systemd").glob("*.timer"):
        assert timer.with_suffix(".service").is_file()


# --- the chart ------------------------------------------------------------------------------------------------------

_BLOCK = re.compile(r"[ \t]*\{\{-? *(?:if|range|end)\b.*?\}\}\n")


def chart() -> dict[str, dict[str, Any]]:
    """The documents of the chart with all that can be switched on, by kind and name. There is no Helm here: blocks are taken
    as they are, and every value must be one of values.yaml."""
    directory = DEPLOY / "helm" / "recollect"
    values = yaml.safe_load((directory / "values.yaml").read_text())

    def value(tag: re.Match[str]) -> str:
        path = tag[1].removeprefix("toYaml ").partition(" | ")[0].removeprefix("$")
        if not path.startswith(".Values."):
            return "r" if path == ".Release.Name" else "one"
        found = values
        for name in path.split(".")[2:]:
            assert name in found, f"values.yaml has no {path}"
            found = found[name]
        return json.dumps(found) if isinstance(found, dict) else str(found)

    documents = [
        document
        for path in sorted((directory / "templates").glob("*.yaml"))
        for document in yaml.safe_load_all(
            re.sub(r"\{\{-? *(.*?) *-?\}\}", value, _BLOCK.sub("", path.read_text()))
        )
        if document is not None
    ]
    return {f"{document['kind']} {document['metadata']['name']}": document for document in documents}


def test_the_chart_starts_programs_with_options_and_ports_that_exist() -> None:
    """Servers leave the moving to workers; all have the credentials; every organisation has a job of its own."""
    found = chart()
    assert set(found) == {
        *("Deployment r-server", "Service r-server", "Job r-migrate"),
        *("Ingress r-server", "Deployment r-worker", "CronJob r-lake-one"),
    }
    specs = {name: found[f"Deployment r-{name}"]["spec"] for name in ("server", "worker")}
    for spec in specs.values():
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    lake = found["CronJob r-lake-one"]["spec"]
    pods = [spec["template"]["spec"] for spec in specs.values()] + [
        lake["jobTemplate"]["spec"]["template"]["spec"]
    ]
    server, worker, job = (container for pod in pods for container in pod["containers"])
    (migrate,) = found["Job r-migrate"]["spec"]["template"]["spec"]["containers"]
    for container, pod in zip((server, worker, job), pods, strict=True):
        assert container["envFrom"] == server["envFrom"]
        assert (container["image"], container["env"]) == (migrate["image"], migrate["env"])
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    assert [one["name"] for one in server["env"]] == [DATABASE]
    options = parsed(server["args"])
    assert options.behind_proxy
    assert options.no_worker
    assert server["ports"] == [{"name": "http", "containerPort": options.port}]
    for probe in ("livenessProbe", "readinessProbe"):
        assert server[probe]["httpGet"]["path"] in {endpoint.path for endpoint in ROUTES}
    assert parsed(migrate["args"]).migrate
    assert parsed(worker["args"]).role == "worker"
    assert (job["command"], lake["concurrencyPolicy"]) == (["recollect", "team", "lake"], "Forbid")
    assert parsed(job["args"], "team lake").organization == "one"
    service = found["Service r-server"]["spec"]
    assert service["selector"] == specs["server"]["selector"]["matchLabels"]
    (path,) = found["Ingress r-server"]["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {"name": "r-server", "port": {"name": service["ports"][0]["name"]}}


def test_every_yaml_file_is_one() -> None:
    files = [path for path in FILES if path.suffix == ".yaml" and path.parent.name != "templates"]
    assert len(files) >= 3
    for path in files:
        assert isinstance(yaml.safe_load(path.read_text()), dict), path


@pytest.mark.postgres
def test_a_dump_as_the_documented_role_is_restored_whole() -> None:
    """As the backup unit makes it; without naming every organisation, pg_dump refuses."""
    if os.environ.get("RECOLLECT_TEST_POSTGRES"):
        pytest.skip("RECOLLECT_TEST_POSTGRES names a database that is not ours to dump")
    unit = (DEPLOY / "systemd" / "recollect-backup.service").read_text()
    setting = re.search(r"^Environment=PGOPTIONS=(.*)$", unit, re.MULTILINE)
    assert setting is not None
    assert "--enable-row-security" in unit
    cluster = Cluster()

    async def fill(made: World) -> str:
        await made.put("s1", prompt("needle") + reply("m-1"))
        return made.org.id

    async def found(org: str) -> list[object]:
        database = PostgresDatabase(cluster.dsn(database="restored"))
        await database.open()
        try:
            hits = await database.search(org, LineSearch(WordQuery.parse("needle"), 5))
            head = await database.head(org, "s1", "")
            return [head and head.lines, len(await database.usage(org)), len(hits.hits)]
        finally:
            await database.close()

    try:
        cluster.make()
        asyncio.run(PostgresDatabase(cluster.dsn()).migrate())
        org = in_world(Kind("postgres", cluster.dsn()), fill)
        cluster.psql("CREATE DATABASE restored OWNER recollect")
        reached = ("-h", str(cluster.directory), "-p", str(cluster.port), "-U", "recollect")
        dump = [str(PROGRAMS / "pg_dump"), *reached, "--enable-row-security", "-Fc", "recollect"]
        bare = subprocess.run([PROGRAMS / "pg_dump", *reached, "recollect"], capture_output=True, check=False)
        made = subprocess.run(
            dump, capture_output=True, check=True, env={**os.environ, "PGOPTIONS": setting[1]}
        )
        subprocess.run(
            [PROGRAMS / "pg_restore", *reached, "--no-owner", "-d", "restored"], input=made.stdout, check=True
        )
        assert bare.returncode != 0
        assert asyncio.run(found(org)) == [2, 1, 1]
        policies = "SELECT count(*) FROM pg_policies"
        assert cluster.psql(policies, "restored") == cluster.psql(policies, "recollect")
    finally:
        cluster.stop()
