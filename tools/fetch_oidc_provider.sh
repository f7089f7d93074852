#!/bin/sh
# Fetch the OpenID Connect provider that tests/server/oidc signs in at, outside the repository.
#   tools/fetch_oidc_provider.sh DIRECTORY    then: RECOLLECT_OIDC_PROVIDER=DIRECTORY pytest tests/server/oidc
# Needs npm and the registry it is set up for. A version is fetched once; no install script of a package is run.
set -eu
version=9.13.3
mkdir -p "$1"
target=$(cd "$1" && pwd)

if ! grep -qs "\"version\": \"$version\"" "$target/node_modules/oidc-provider/package.json"; then
    npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix "$target" \
        "oidc-provider@$version" >/dev/null ||
        { echo "the OpenID Connect provider could not be fetched" >&2; exit 1; }
fi
