"""Places where credentials and private records are kept: a confined program does not see them.

``PLACES`` are below the user's home; ``NAMED_BY`` are variables whose value is such a place. What recollect
and the clients keep (logs, archive, trash, undo, index, team token) is hidden too: it quotes everything
that was ever pasted into a session. ``docs/reference/hidden-places.md`` lists them all, and a test compares.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from recollect.system import paths

PLACES: dict[str, tuple[str, ...]] = {
    "keys and passwords": (
        ".ssh", ".gnupg", ".pki", ".age", ".config/age", ".config/sops", ".password-store", ".local/share/gopass",
        ".config/gopass", ".local/share/keyrings", ".local/share/kwalletd", ".config/op", ".op", ".config/1Password",
        ".config/Bitwarden", ".config/Bitwarden CLI", ".lastpass", ".local/share/lpass", ".config/keepassxc",
        ".vault-token", ".config/vault", ".authinfo", ".authinfo.gpg", ".netrc", "_netrc", ".config/doppler",
        ".doppler", ".infisical", ".config/infisical",
    ),
    "agents": (
        ".claude", ".claude.json", ".config/claude", ".config/Claude", ".codex", ".gemini", ".config/opencode",
        ".local/share/opencode", ".local/share/goose", ".config/goose", ".cursor", ".config/Cursor",
        ".config/github-copilot", ".copilot", ".aider.conf.yml", ".continue", ".codeium", ".factory", ".qwen",
        ".config/amp", ".local/share/amp", ".config/openai", ".openai", ".cache/huggingface/token",
        ".huggingface", ".config/io.datasette.llm", ".config/zed", ".ollama/id_ed25519",
    ),
    "clouds": (
        ".aws", ".azure", ".config/gcloud", ".boto", ".config/doctl", ".config/linode-cli", ".config/hcloud",
        ".config/scw", ".oci", ".aliyun", ".bluemix", ".config/ibmcloud", ".fly", ".config/fly", ".config/heroku",
        ".config/netlify", ".local/share/com.vercel.cli", ".vercel", ".config/firebase", ".config/configstore",
        ".wrangler", ".config/.wrangler", ".cloudflared", ".config/rclone", ".s3cfg", ".mc", ".config/b2",
        ".terraform.d/credentials.tfrc.json", ".terraformrc", ".pulumi", ".config/packer", ".railway",
        ".config/stripe", ".config/ngrok", ".ngrok2", ".config/tailscale",
    ),
    "clusters and containers": (
        ".kube", ".docker/config.json", ".config/containers/auth.json", ".config/helm/registry", ".minikube",
        ".config/argocd", ".config/k9s", ".rancher", ".config/regctl",
    ),
    "code and packages": (
        ".git-credentials", ".config/git/credentials", ".config/gh", ".config/glab-cli", ".config/hub", ".config/tea",
        ".config/lab", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".config/pypoetry/auth.toml", ".config/uv/credentials",
        ".config/pip", ".pip", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".bundle/config",
        ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".sbt/credentials",
        ".ivy2/.credentials", ".composer/auth.json", ".config/composer/auth.json", ".nuget/NuGet/NuGet.Config",
        ".config/NuGet", ".condarc", ".config/hf", ".kaggle", ".config/sentry", ".sentryclirc", ".config/gitlab",
    ),
    "databases": (
        ".pgpass", ".pg_service.conf", ".my.cnf", ".mylogin.cnf", ".mongorc.js", ".mongodb", ".snowsql", ".snowflake",
        ".databrickscfg", ".dbt/profiles.yml", ".config/mycli", ".rediscli_auth", ".bigqueryrc",
    ),
    "mail, chat and browsers": (
        ".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge",
        ".config/vivaldi", ".thunderbird", ".msmtprc", ".config/msmtp", ".mbsyncrc", ".config/Slack", ".config/discord",
        ".config/Signal", ".local/share/TelegramDesktop", ".config/evolution", ".local/share/evolution", ".mutt", ".muttrc",
    ),
    "what was typed": (
        ".bash_history", ".zsh_history", ".zhistory", ".local/share/fish/fish_history", ".python_history", ".node_repl_history",
        ".psql_history", ".mysql_history", ".sqlite_history", ".rediscli_history", ".lesshst", ".viminfo",
        ".local/share/atuin", ".config/atuin",
    ),
    "money": (".bitcoin", ".ethereum", ".electrum", ".config/solana", ".gnucash", ".monero"),
}  # fmt: skip
COPIES = (".claude.json*", ".netrc*", ".pgpass*", ".npmrc*", ".git-credentials*")
"""Backups and temporary copies of the same files."""
SYSTEM = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private",
    "/etc/krb5.keytab", "/etc/NetworkManager/system-connections", "/etc/wireguard", "/etc/ppp/chap-secrets",
    "/etc/kubernetes", "/etc/rancher", "/etc/docker/key.json", "/etc/mysql/debian.cnf", "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key", "/run/user", "/run/secrets", "/var/run/secrets",
    "/var/lib/docker", "/var/lib/kubelet", "/var/lib/postgresql", "/var/spool/cron", "/var/spool/mail", "/var/backups",
)  # fmt: skip
NAMED_BY = (
    "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AZURE_CONFIG_DIR", "CLOUDSDK_CONFIG",
    "GOOGLE_APPLICATION_CREDENTIALS", "KUBECONFIG", "DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "GNUPGHOME", "PASSWORD_STORE_DIR",
    "GH_CONFIG_DIR", "GLAB_CONFIG_DIR", "NPM_CONFIG_USERCONFIG", "PGPASSFILE", "PGSERVICEFILE", "NETRC", "PIP_CONFIG_FILE",
    "CODEX_HOME", "GEMINI_CONFIG_DIR", "VAULT_TOKEN_PATH", "TF_CLI_CONFIG_FILE", "PULUMI_HOME", "OCI_CLI_CONFIG_FILE",
    "HISTFILE", "SSH_AUTH_SOCK", "XAUTHORITY", "ICEAUTHORITY", "KRB5CCNAME", "BOTO_CONFIG", "MYSQL_HOME", "HF_TOKEN_PATH",
    "CLAUDE_SECURESTORAGE_CONFIG_DIR",
)  # fmt: skip
_XDG = {".config": "XDG_CONFIG_HOME", ".local/share": "XDG_DATA_HOME", ".cache": "XDG_CACHE_HOME"}


def secret_places(environ: Mapping[str, str]) -> list[Path]:
    """Every place, existing or not: of this user, of the machine, and where variables say."""
    home = Path(environ.get("HOME") or "/nonexistent")
    names = [name for group in PLACES.values() for name in group]
    found = [home / name for name in names]
    for default, variable in _XDG.items():
        moved = environ.get(variable, "")
        if moved.startswith("/"):
            found += [
                Path(moved, name.removeprefix(f"{default}/"))
                for name in names
                if name.startswith(f"{default}/")
            ]
    found += [path for pattern in COPIES for path in home.glob(pattern)]
    for name in NAMED_BY:
        values = environ.get(name, "").split(os.pathsep)
        found += [
            Path(value.removeprefix("FILE:"))
            for value in values
            if value.removeprefix("FILE:").startswith("/")
        ]
    return [*found, *_own(environ), *map(Path, SYSTEM)]


def _own(environ: Mapping[str, str]) -> Iterable[Path]:
    """What clients and recollect keep, in the places that the environment names."""
    if not environ.get("HOME"):
        return
    for text in (*paths.named_homes(environ), *paths.usual_homes(environ)):
        yield Path(text)
    yield Path(paths.data_dir(environ))
    yield Path(paths.cache_dir(environ))
    yield Path(paths.config_file(environ)).parent


def hidden_from(places: Iterable[Path], shown: Iterable[Path]) -> list[Path]:
    """The existing places with links resolved, without those that are shown, or inside one that is shown."""
    open_ones = _resolved(shown)
    return [
        place
        for place in _resolved(places)
        if place not in open_ones and not any(one in place.parents for one in open_ones)
    ]


def _resolved(places: Iterable[Path]) -> dict[Path, None]:
    """Hiding a link alone would hide nothing."""
    found: dict[Path, None] = {}
    for place in places:
        try:
            found[place.resolve(strict=True)] = None
        except (OSError, RuntimeError):
            continue
    return found
