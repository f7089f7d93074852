#!/bin/sh
# Fetch the clients of other agents (Codex, OpenCode, Gemini, Qwen) and ccusage into a directory outside the repository.
#   tools/fetch_agents.sh DIRECTORY
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
fetch opencode opencode-linux-x64@1.18.33
fetch gemini @google/gemini-cli@0.61.0
fetch qwen @qwen-code/qwen-code@0.24.4
fetch ccusage ccusage@20.0.24
ls "$target"/*/.complete >/dev/null 2>&1
