"""Hosts of documentation that client 2.1.325 fetches without a rule. Data, asked of the client host by host."""

from __future__ import annotations

from urllib.parse import urlsplit

from recollect.policy.commands.options import names

_HOSTS = names(
    "agentskills.io angular.io asp.net blazor.net bun.sh cloud.google.com code.claude.com cypress.io"
    " d3js.org dev.mysql.com devcenter.heroku.com developer.android.com developer.apple.com"
    " developer.mozilla.org doc.rust-lang.org docs.aws.amazon.com docs.djangoproject.com docs.flutter.dev"
    " docs.netlify.com docs.oracle.com docs.python.org docs.spring.io docs.swift.org docs.unity.com"
    " docs.unrealengine.com dotnet.microsoft.com en.cppreference.com expressjs.com fastapi.tiangolo.com"
    " flask.palletsprojects.com getbootstrap.com git-scm.com gradle.org graphql.org hibernate.org"
    " httpd.apache.org jestjs.io jquery.com jupyter.org keras.io kotlinlang.org kubernetes.io laravel.com"
    " learn.microsoft.com matplotlib.org maven.apache.org modelcontextprotocol.io nextjs.org nginx.org"
    " nodejs.org numpy.org pandas.pydata.org platform.claude.com prisma.io pytorch.org react.dev"
    " reactnative.dev reactrouter.com redis.io redux.js.org requests.readthedocs.io ruby-doc.org"
    " scikit-learn.org selenium.dev spark.apache.org symfony.com tailwindcss.com threejs.org"
    " tomcat.apache.org vuejs.org webpack.js.org www.ansible.com www.docker.com www.mongodb.com"
    " www.php.net www.postgresql.org www.sqlite.org www.tensorflow.org www.terraform.io"
    " www.typescriptlang.org"
)
_PATHS = {"github.com": "/anthropics", "vercel.com": "/docs"}
"""Hosts of which only what is below one path counts."""


def is_documentation(url: str) -> bool:
    """Whether the URL leads to one of the hosts. Give only a URL that can be read in one way."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    below = _PATHS.get(host)
    return host in _HOSTS or (below is not None and f"{parts.path}/".startswith(f"{below}/"))
