#!/bin/sh
# Fetch the clients of other agents (Codex, OpenCode, Gemini, Qwen) into a directory outside the repository.
#   tools/fetch_agents.sh DIRECTORY [every]
# With "every" also the older clients whose homes tools/write_agent_homes.py writes (2 GB).
# Needs npm and the package registry it is set up for. Each is fetched once; one that cannot be fetched is named and left
# out, and its tests skip. Succeeds if at least one is there.
set -u
target=$1
mkdir -p "$target"
fetch() { # directory package@version
    [ -e "$target/$1/.complete" ] && return
    scratch=$(mktemp -d)
    if (cd "$scratch" && npm pack --silent "$2" >/dev/null 2>&1 && tar -xzf ./*.tgz); then
        rm -rf "${target:?}/$1"
        mkdir -p "$target/$(dirname "$1")"
        mv "$scratch/package" "$target/$1"
        touch "$target/$1/.complete"
    else
        echo "could not fetch $2"
    fi
    rm -rf "$scratch"
}
fetch codex @openai/codex@0.166.0-linux-x64
fetch codex-0.20.0 @openai/codex@0.20.0 # the last that reads sessions of its time
fetch opencode opencode-linux-x64@1.18.33
fetch gemini @google/gemini-cli@0.61.0
fetch qwen @qwen-code/qwen-code@0.24.4
if [ "${2:-}" = every ]; then
    for version in 0.36.0 0.45.0 0.58.0 0.77.0 0.98.0; do # one package for every platform
        fetch "codex-$version" "@openai/codex@$version"
    done
    for version in 0.104.0 0.117.0 0.130.0 0.142.5 0.150.1 0.159.3; do
        fetch "codex-$version" "@openai/codex@$version-linux-x64"
    done
    for version in 1.3.2 1.14.41 1.15.13 1.17.11; do
        fetch "opencode-$version" "opencode-linux-x64@$version"
    done
    fetch gemini-0.38.2 @google/gemini-cli@0.38.2
    # This one has its dependencies beside it, not in it.
    if [ ! -e "$target/gemini-0.24.5/.complete" ]; then
        mkdir -p "$target/gemini-0.24.5"
        npm install --silent --ignore-scripts --no-audit --no-fund --prefix "$target/gemini-0.24.5" @google/gemini-cli@0.24.5 &&
            touch "$target/gemini-0.24.5/.complete" || echo "could not fetch @google/gemini-cli@0.24.5"
    fi
fi
ls "$target"/*/.complete >/dev/null 2>&1
