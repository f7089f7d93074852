#!/bin/sh
# Fetch the programs that `make bench` measures beside ours, into a directory outside the repository.
#   tools/fetch_peers.sh DIRECTORY
# Needs npm, python3 and the package registries they are set up for. Each version is fetched once.
# ccusage: the native program itself, since its npm wrapper would add the start of node to every run.
set -eu
ccusage=20.0.24
agentsview=0.46.1
mkdir -p "$1"
target=$(cd "$1" && pwd)

[ "$(uname -sm)" = "Linux x86_64" ] || { echo "the peers are fetched for Linux on x86_64 only" >&2; exit 1; }

fetch_ccusage() {
    native="$target/node_modules/@ccusage/ccusage-linux-x64"
    grep -qs "\"version\": \"$ccusage\"" "$native/package.json" ||
        npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix "$target" \
            "@ccusage/ccusage-linux-x64@$ccusage" >/dev/null || return 1
    chmod +x "$native/bin/ccusage"
}

fetch_agentsview() {
    packages="lib/python3*/site-packages"
    # shellcheck disable=SC2086 # the pattern is to be expanded
    ls -d "$target/av"/$packages/agentsview-$agentsview.dist-info >/dev/null 2>&1 || {
        python3 -m venv --clear "$target/av" &&
            "$target/av/bin/python" -m pip --quiet --disable-pip-version-check install --no-deps \
                "agentsview==$agentsview"
    } || return 1
    # shellcheck disable=SC2086
    chmod +x "$target/av"/$packages/agentsview/bin/agentsview
}

failed=0
fetch_ccusage || { echo "ccusage could not be fetched" >&2; failed=1; }
fetch_agentsview || { echo "agentsview could not be fetched" >&2; failed=1; }
exit $failed
