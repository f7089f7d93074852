#!/bin/sh
# Fetch the real clients that tests/oracle runs against, into a directory outside the repository.
#   tools/fetch_clients.sh DIRECTORY
# Needs npm and the package registry it is set up for. Each version is fetched once.
set -eu
target=$1
mkdir -p "$target"
fetch() { # version package
    [ -e "$target/$1/.complete" ] && return
    scratch=$(mktemp -d)
    (cd "$scratch" && npm pack --silent "$2@$1" >/dev/null && tar -xzf ./*.tgz)
    rm -rf "${target:?}/$1"
    mv "$scratch/package" "$target/$1"
    if [ -f "$target/$1/bin/claude" ] && [ ! -f "$target/$1/claude" ]; then mv "$target/$1/bin/claude" "$target/$1/claude"; fi
    touch "$target/$1/.complete"
    rm -rf "$scratch"
}
fetch 2.1.325 @anthropic-ai/claude-code-linux-x64
fetch 2.1.197 @anthropic-ai/claude-code-linux-x64
fetch 2.0.76 @anthropic-ai/claude-code
