#!/bin/sh
# Fetch the public reference MCP servers that tests/guard/mcp/test_reference_servers.py talks to, outside the repository.
#   tools/fetch_mcp_servers.sh DIRECTORY      then: RECOLLECT_MCP_SERVERS=DIRECTORY pytest tests/guard/mcp
# Needs npm and the registry it is set up for. Each version is fetched once; no install script of a package is run.
set -eu
everything=2026.8.31
filesystem=2026.8.31
mkdir -p "$1"
target=$(cd "$1" && pwd)
packages="$target/node_modules/@modelcontextprotocol"

is_there() {
    grep -qs "\"version\": \"$2\"" "$packages/$1/package.json"
}

if ! is_there server-everything "$everything" || ! is_there server-filesystem "$filesystem"; then
    npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix "$target" \
        "@modelcontextprotocol/server-everything@$everything" \
        "@modelcontextprotocol/server-filesystem@$filesystem" >/dev/null ||
        { echo "the reference MCP servers could not be fetched" >&2; exit 1; }
fi
