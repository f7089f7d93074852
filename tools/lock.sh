#!/bin/sh
# Pins every dependency with hashes and without any registry address.
set -eu
uv=$1
compile() { "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate "$@"; }
compile pyproject.toml requirements/build.in -o requirements/core.lock
compile --all-extras pyproject.toml requirements/build.in requirements/dev.in -o requirements/dev.lock
compile requirements/fuzz.in -o requirements/fuzz.lock
