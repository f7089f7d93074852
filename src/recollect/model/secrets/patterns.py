"""Patterns of credentials as data, one row per kind.

Three tables. ``TOKENS`` have a prefix of their provider that nothing else has. ``NAMED`` are plain hex or
letters that only the name beside them identifies (``HEROKU_API_KEY=``). ``SHAPES`` are everything else with a
form: private keys, passwords in addresses, headers, and, with the least weight, any value assigned to
something called password, secret, key or token.

A row holds no example: the tests generate samples and near misses from a seed, because a sample in a
repository triggers every other scanner.

``body`` is a regular expression for ASCII text and never looks outside the secret; the finder checks the
edges. Where several lengths are known the usual one comes first, so that a secret broken over two lines is
matched at its right length.
"""

from __future__ import annotations

from typing import NamedTuple

_A = "[0-9A-Za-z]"
_H = "[0-9a-f]"
_U = "[0-9A-Za-z_-]"
_B = "[0-9A-Za-z+/]"
# From a name to its value: NAME=, "NAME": and ["NAME"] =; define("NAME", and <add key="NAME" value=.
BETWEEN = r"""(?:["'`]?\]?\s{0,3}(?::=|=>|=|:)|["'`]\s?,|["'`]\s{1,3}value\s?=)\s{0,3}"""
_UUID = f"{_H}{{8}}-{_H}{{4}}-{_H}{{4}}-{_H}{{4}}-{_H}{{12}}"


class TokenPattern(NamedTuple):
    """A secret with a provider's mark: its beginning, or a few letters ``inside``.

    ``body`` follows one of ``starts``, or is the whole secret. ``hint`` is what the prefilter may expect at
    the first long word of the secret, if that is not one of ``starts``.
    """

    kind: str
    about: str
    starts: tuple[str, ...]
    body: str
    hint: str = ""
    inside: str = ""


class NamedPattern(NamedTuple):
    """A secret that only a name before it identifies.

    ``words`` are in lower case; one must be in the text.
    """

    kind: str
    about: str
    words: tuple[str, ...]
    name: str
    body: str


class ShapePattern(NamedTuple):
    """A secret by its form. ``words`` as in ``NamedPattern``; the secret is the group of that name."""

    kind: str
    about: str
    words: tuple[str, ...]
    pattern: str
    entropy: float = 0.0
    is_generic: bool = False


def _token(kind: str, about: str, starts: str, body: str, hint: str = "") -> TokenPattern:
    return TokenPattern(kind, about, tuple(starts.split()), body, hint)


def _inside(kind: str, about: str, inside: str, body: str, hint: str) -> TokenPattern:
    return TokenPattern(kind, about, (), body, hint, inside)


def _named(kind: str, about: str, words: str, name: str, body: str) -> NamedPattern:
    return NamedPattern(kind, about, tuple(words.split()), name, body)


TOKENS: tuple[TokenPattern, ...] = (
    # --- models and model services
    _token("anthropic-api-key", "Anthropic API key", "sk-ant-api", rf"\d\d-(?:{_U}{{93}}AA|{_U}{{60,140}})"),
    _token(
        "anthropic-admin-key", "Anthropic admin key", "sk-ant-admin", rf"\d\d-(?:{_U}{{93}}AA|{_U}{{60,140}})"
    ),
    _token(
        "anthropic-oauth-token",
        "Anthropic OAuth token",
        "sk-ant-oat sk-ant-ort",
        rf"\d\d-(?:{_U}{{93}}AA|{_U}{{60,140}})",
    ),
    _token(
        "anthropic-session-key",
        "Anthropic session key",
        "sk-ant-sid",
        rf"\d\d-(?:{_U}{{93}}AA|{_U}{{60,140}})",
    ),
    _token(
        "openai-api-key",
        "OpenAI API key",
        "sk-proj- sk-svcacct- sk-admin-",
        rf"(?:{_U}{{74}}T3BlbkFJ{_U}{{74}}|{_U}{{58}}T3BlbkFJ{_U}{{58}}|{_U}{{40,180}})",
    ),
    _token("openai-legacy-key", "OpenAI API key (early format)", "sk-", rf"{_A}{{20}}T3BlbkFJ{_A}{{20}}"),
    _token("openrouter-api-key", "OpenRouter API key", "sk-or-v1-", f"{_H}{{64}}"),
    _token("langfuse-secret-key", "Langfuse secret key", "sk-lf-", _UUID),
    _token(
        "sk-api-key",
        "API key in the shape many model services use",
        "sk-",
        rf"(?:{_A}{{48}}|{_A}{{32}}|{_A}{{33,64}})",
    ),
    _token("groq-api-key", "Groq API key", "gsk_", f"{_A}{{52}}"),
    _token("xai-api-key", "xAI API key", "xai-", f"{_A}{{80}}"),
    _token("perplexity-api-key", "Perplexity API key", "pplx-", f"{_A}{{48}}"),
    _token("huggingface-token", "Hugging Face token", "hf_", f"{_A}{{34}}"),
    _token("huggingface-org-token", "Hugging Face organisation token", "api_org_", f"{_A}{{34}}"),
    _token("replicate-api-token", "Replicate API token", "r8_", f"{_A}{{37}}"),
    _token("fireworks-api-key", "Fireworks API key", "fw_", f"(?:{_A}{{24}}|{_A}{{22}})"),
    _token("cerebras-api-key", "Cerebras API key", "csk-", "[0-9a-z]{48}"),
    _token("nvidia-api-key", "NVIDIA API key", "nvapi-", f"(?:{_U}{{64}}|{_U}{{60,70}})"),
    _token("together-api-key", "Together AI API key", "tgp_v1_", f"{_U}{{43}}"),
    _token("langsmith-api-key", "LangSmith API key", "lsv2_pt_ lsv2_sk_", f"{_H}{{32}}_{_H}{{10}}"),
    _token("tavily-api-key", "Tavily API key", "tvly-", f"(?:dev-|prod-)?{_A}{{32}}"),
    _token("firecrawl-api-key", "Firecrawl API key", "fc-", f"{_H}{{32}}"),
    _token("pinecone-api-key", "Pinecone API key", "pcsk_", f"{_A}{{5,6}}_{_A}{{56,66}}"),
    _token("jina-api-key", "Jina API key", "jina_", f"{_A}{{32}}{_U}{{28}}"),
    _token("voyage-api-key", "Voyage API key", "pa-", f"{_U}{{43}}"),
    _token("elevenlabs-api-key", "ElevenLabs API key", "sk_", f"{_H}{{48}}"),
    _token("e2b-api-key", "E2B API key", "e2b_", f"{_H}{{40}}"),
    # --- clouds
    _token("aws-access-key-id", "AWS access key id", "AKIA ASIA ABIA ACCA", "[A-Z2-7]{16}"),
    _token("aws-bedrock-key", "AWS Bedrock API key", "ABSK", f"{_B}{{109,269}}={{0,2}}"),
    _token("google-api-key", "Google API key", "AIza", f"{_U}{{35}}"),
    _token("google-oauth-secret", "Google OAuth client secret", "GOCSPX-", f"{_U}{{28}}"),
    _token("google-oauth-token", "Google OAuth access token", "ya29.", rf"{_U}{{40,400}}", r"(?<=ya29\.)"),
    _token("google-refresh-token", "Google OAuth refresh token", "1//0", rf"{_U}{{40,150}}", r"(?<=1//)0"),
    _inside("azure-devops-token", "Azure DevOps token", "AZDO", rf"{_A}{{76}}AZDO{_A}{{4}}", ""),
    _inside(
        "azure-client-secret",
        "Azure client secret",
        "Q~",
        r"[0-9A-Za-z_~.-]{3}\dQ~[0-9A-Za-z_~.-]{31,34}",
        r"(?<=[0-9]Q~)",
    ),
    _token("digitalocean-token", "DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", f"{_H}{{64}}"),
    _token("heroku-api-key", "Heroku API key", "HRKU-AA", f"{_U}{{58}}"),
    _token("netlify-token", "Netlify token", "nfp_", f"(?:{_A}{{36}}|{_A}{{37,48}})"),
    _token("fly-token", "Fly.io token", "fo1_ fm1r_ fm1a_ fm2_", f"(?:{_U}{{43}}|{_B}{{100,800}}={{0,3}})"),
    _token("render-api-key", "Render API key", "rnd_", f"{_A}{{28,32}}"),
    _token("supabase-token", "Supabase token", "sbp_", f"{_H}{{40}}"),
    _token("supabase-secret-key", "Supabase secret key", "sb_secret_", f"{_A}{{22}}_{_A}{{8}}"),
    _token("planetscale-token", "PlanetScale token", "pscale_tkn_ pscale_oauth_", r"[0-9A-Za-z_=.-]{32,64}"),
    _token("planetscale-password", "PlanetScale password", "pscale_pw_", r"[0-9A-Za-z_=.-]{32,64}"),
    _token("neon-api-key", "Neon API key", "napi_", "[0-9a-z]{64}"),
    _token("databricks-token", "Databricks token", "dapi", rf"{_H}{{32}}(?:-\d)?"),
    _token(
        "cloudflare-origin-key",
        "Cloudflare origin CA key",
        "v1.0-",
        f"{_H}{{24}}-{_H}{{146}}",
        r"(?<=v1\.)0-",
    ),
    _token("alibaba-access-key-id", "Alibaba Cloud access key id", "LTAI", f"(?:{_A}{{20}}|{_A}{{12,24}})"),
    _token("tencent-secret-id", "Tencent Cloud secret id", "AKID", f"{_A}{{32}}"),
    _token("yandex-api-key", "Yandex Cloud API key", "AQVN", f"{_U}{{35,38}}"),
    _token("scalingo-token", "Scalingo token", "tk-us-", f"{_U}{{48}}"),
    _token("vercel-blob-token", "Vercel Blob token", "vercel_blob_rw_", f"{_A}{{16}}_{_A}{{30,40}}"),
    _token("tailscale-key", "Tailscale key", "tskey-", rf"[a-z]{{3,8}}-{_A}{{10,30}}-{_A}{{20,60}}"),
    # --- code, packages, builds
    _token("github-pat", "GitHub personal access token", "ghp_", f"{_A}{{36}}"),
    _token("github-fine-grained-pat", "GitHub fine-grained token", "github_pat_", rf"{_A}{{22}}_{_A}{{59}}"),
    _token("github-oauth-token", "GitHub OAuth token", "gho_", f"{_A}{{36}}"),
    _token("github-app-token", "GitHub App token", "ghu_ ghs_", f"{_A}{{36}}"),
    _token("github-refresh-token", "GitHub refresh token", "ghr_", f"(?:{_A}{{76}}|{_A}{{36}})"),
    _token(
        "gitlab-pat",
        "GitLab personal access token",
        "glpat-",
        rf"(?:{_U}{{27,300}}\.(?:[0-9a-z]{{2}}\.)?[0-9a-z]{{9}}|{_U}{{20}})",
    ),
    _token("gitlab-deploy-token", "GitLab deploy token", "gldt-", f"{_U}{{20}}"),
    _token(
        "gitlab-runner-token",
        "GitLab runner token",
        "glrt-",
        rf"(?:t\d_{_U}{{27,300}}\.(?:[0-9a-z]{{2}}\.)?[0-9a-z]{{9}}|{_U}{{20}})",
    ),
    _token("gitlab-trigger-token", "GitLab pipeline trigger token", "glptt-", f"{_H}{{40}}"),
    _token("gitlab-job-token", "GitLab job token", "glcbt-", f"{_A}{{1,5}}_{_U}{{20}}"),
    _token("gitlab-feed-token", "GitLab feed token", "glft-", f"{_U}{{20}}"),
    _token("gitlab-mail-token", "GitLab incoming mail token", "glimt-", f"{_U}{{25}}"),
    _token("gitlab-agent-token", "GitLab Kubernetes agent token", "glagent-", f"{_U}{{50}}"),
    _token("gitlab-oauth-secret", "GitLab application secret", "gloas-", f"{_U}{{64}}"),
    _token("gitlab-scim-token", "GitLab SCIM token", "glsoat-", f"{_U}{{20}}"),
    _token("gitlab-flag-token", "GitLab feature flag token", "glffct-", f"{_U}{{20}}"),
    _token("gitlab-registration-token", "GitLab runner registration token", "GR1348941", f"{_U}{{20}}"),
    _token("bitbucket-app-password", "Bitbucket app password", "ATBB", f"{_A}{{32}}"),
    _token(
        "atlassian-token",
        "Atlassian API token",
        "ATATT3 ATCTT3",
        r"(?:[0-9A-Za-z_=-]{186}|[0-9A-Za-z_=-]{100,250})",
    ),
    _token("npm-token", "npm token", "npm_", f"{_A}{{36}}"),
    _token(
        "pypi-token", "PyPI token", "pypi-AgEIcHlwaS5vcmc pypi-AgENdGVzdC5weXBpLm9yZw", f"{_U}{{50,1000}}"
    ),
    _token("rubygems-token", "RubyGems token", "rubygems_", f"{_H}{{48}}"),
    _token("nuget-api-key", "NuGet API key", "oy2", "[0-9a-z]{43}"),
    _token("clojars-token", "Clojars token", "CLOJARS_", "[0-9a-z]{60}"),
    _token("crates-io-token", "crates.io token", "cio", f"{_A}{{32}}", f"cio{_A}{{12}}"),
    _token("docker-token", "Docker Hub token", "dckr_pat_ dckr_oat_", f"(?:{_U}{{32}}|{_U}{{27}})"),
    _token("artifactory-api-key", "Artifactory API key", "AKCp", f"{_A}{{69}}"),
    _token("artifactory-reference-token", "Artifactory reference token", "cmVmd", f"{_A}{{59}}"),
    _token("buildkite-token", "Buildkite token", "bkua_", f"{_H}{{40}}"),
    _token("circleci-token", "CircleCI token", "CCIPAT_ CCIPRJ_", f"{_A}{{22}}_{_H}{{40}}"),
    _token("sonar-token", "Sonar token", "sqp_ squ_ sqa_", f"{_H}{{40}}"),
    _token("sourcegraph-token", "Sourcegraph token", "sgp_", f"(?:{_H}{{16}}_|local_)?{_H}{{40}}"),
    _inside(
        "terraform-token",
        "Terraform Cloud token",
        ".atlasv1.",
        rf"{_A}{{14}}\.atlasv1\.{_U}{{60,70}}",
        r"(?<=\.atlasv1\.)",
    ),
    _token("pulumi-token", "Pulumi token", "pul-", f"{_H}{{40}}"),
    _token("infracost-api-key", "Infracost API key", "ico-", f"{_A}{{32}}"),
    _token("octopus-api-key", "Octopus Deploy API key", "API-", "[A-Z0-9]{26}"),
    _token(
        "jetbrains-token",
        "JetBrains permanent token",
        "perm- perm:",
        rf"{_B}{{4,80}}={{0,2}}\.{_B}{{4,80}}={{0,2}}\.{_A}{{30,60}}",
        r"perm-|(?<=perm:)|(?<==\.)[0-9A-Za-z]{30}",
    ),
    _token("postman-api-key", "Postman API key", "PMAK-", f"{_H}{{24}}-{_H}{{34}}"),
    _token(
        "harness-token",
        "Harness token",
        "pat. sat.",
        rf"{_U}{{22}}\.{_A}{{24}}\.{_A}{{20}}",
        r"(?<=[ps]at\.)",
    ),
    _token(
        "doppler-token",
        "Doppler token",
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
        rf"(?:{_U}{{1,35}}\.)?{_A}{{40,44}}",
        r"(?<=dp\.[psca][tact]\.)|(?<=dp\.scim\.)|(?<=dp\.audit\.)",
    ),
    _token("vault-token", "HashiCorp Vault token", "hvs. hvb. hvr.", f"{_U}{{90,300}}", r"(?<=hv[sbr]\.)"),
    _token(
        "1password-secret-key",
        "1Password secret key",
        "A3-",
        r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",
    ),
    _token(
        "1password-service-token", "1Password service account token", "ops_eyJ", f"{_B}{{250,2000}}={{0,3}}"
    ),
    _token("age-secret-key", "age secret key", "AGE-SECRET-KEY-1", "[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    _token("prefect-api-key", "Prefect API key", "pnu_", f"{_A}{{36}}"),
    _token("openshift-token", "OpenShift token", "sha256~", f"{_U}{{43}}", r"(?<=sha256~)"),
    _token("launchdarkly-key", "LaunchDarkly key", "sdk- api- mob-", _UUID, f"(?:sdk|api|mob)-{_H}{{8}}-"),
    # --- messages, mail, money, maps
    _token(
        "slack-bot-token",
        "Slack bot token",
        "xoxb-",
        rf"(?:\d{{10,13}}-\d{{10,13}}-{_A}{{24}}|\d{{8,14}}-{_A}{{18,26}})",
    ),
    _token(
        "slack-user-token", "Slack user token", "xoxp-", rf"(?:\d{{10,13}}-){{3}}(?:{_A}{{32}}|{_A}{{28,34}})"
    ),
    _token(
        "slack-app-token",
        "Slack app token",
        "xapp-",
        rf"\d-[A-Z0-9]{{8,14}}-\d{{10,14}}-(?:{_H}{{64}}|[0-9a-z]{{30,70}})",
    ),
    _token("slack-refresh-token", "Slack refresh token", "xoxe-", rf"\d-{_A}{{146}}"),
    _token(
        "slack-config-token",
        "Slack configuration token",
        "xoxe.xoxp- xoxe.xoxb-",
        rf"\d-{_A}{{163,166}}",
        r"(?<=xoxe\.)xox",
    ),
    _token(
        "slack-legacy-token",
        "Slack token (old format)",
        "xoxs- xoxo- xoxa- xoxr-",
        rf"(?:\d-)?(?:\d+-){{1,3}}{_A}{{10,64}}",
    ),
    _inside("telegram-bot-token", "Telegram bot token", ":AA", rf"\d{{8,10}}:AA{_U}{{33}}", r"(?<=[0-9]:)AA"),
    _token(
        "stripe-secret-key",
        "Stripe secret key",
        "sk_live_ sk_test_ rk_live_ rk_test_",
        f"(?:{_A}{{99}}|{_A}{{24}}|{_A}{{16,107}})",
    ),
    _token(
        "stripe-webhook-secret", "Stripe webhook secret", "whsec_", f"(?:{_A}{{32}}|{_B}{{32,64}}={{0,2}})"
    ),
    _token("square-token", "Square access token", "sq0atp- sq0csp-", f"(?:{_U}{{43}}|{_U}{{22}})"),
    _token("square-access-token", "Square access token", "EAAA", f"{_U}{{60}}"),
    _token("facebook-token", "Facebook access token", "EAAC EAAM EAAG EAAB", f"{_A}{{100,400}}"),
    _token(
        "braintree-token",
        "PayPal Braintree access token",
        "access_token$production$ access_token$sandbox$",
        rf"[0-9a-z]{{16}}\${_H}{{32}}",
        r"(?<=\$[0-9a-z]{16}\$)",
    ),
    _token("razorpay-key-id", "Razorpay key id", "rzp_live_ rzp_test_", f"{_A}{{14}}"),
    _token("shopify-token", "Shopify token", "shpat_ shpca_ shppa_ shpss_", f"{_H}{{32}}"),
    _token("shippo-token", "Shippo token", "shippo_live_ shippo_test_", f"{_H}{{40}}"),
    _token("easypost-api-key", "EasyPost API key", "EZAK EZTK", f"{_A}{{54}}"),
    _token("duffel-token", "Duffel token", "duffel_live_ duffel_test_", f"{_U}{{43}}"),
    _token("flutterwave-secret-key", "Flutterwave secret key", "FLWSECK- FLWSECK_TEST-", "[0-9a-h]{32}-X"),
    _token(
        "plaid-access-token",
        "Plaid access token",
        "access-sandbox- access-development- access-production-",
        _UUID,
    ),
    _token("twilio-api-key", "Twilio API key", "SK", f"{_H}{{32}}", f"SK{_H}{{8}}"),
    _token(
        "sendgrid-api-key",
        "SendGrid API key",
        "SG.",
        rf"{_U}{{22}}\.{_U}{{43}}",
        r"(?<=SG\.)|(?<=SG\.[0-9A-Za-z_-]{22}\.)",
    ),
    _token("mailgun-api-key", "Mailgun API key", "key-", f"{_H}{{32}}", f"key-{_H}{{8}}"),
    _inside("mailchimp-api-key", "Mailchimp API key", "-us", rf"{_H}{{32}}-us\d{{1,2}}", ""),
    _token("brevo-api-key", "Brevo API key", "xkeysib-", f"{_H}{{64}}-{_A}{{16}}"),
    _token("resend-api-key", "Resend API key", "re_", f"{_A}{{8}}_{_A}{{24}}"),
    _token("intercom-token", "Intercom token", "dG9rO", f"{_B}{{43,75}}={{0,2}}"),
    _token(
        "mapbox-secret-token",
        "Mapbox secret token",
        "sk.eyJ",
        rf"{_U}{{50,200}}\.{_U}{{22}}",
        r"(?<=sk\.)eyJ",
    ),
    _token("dropbox-token", "Dropbox token", "sl.", rf"(?:u\.)?{_U}{{130,1200}}", r"(?<=sl\.)|(?<=sl\.u\.)"),
    _token("twitter-bearer-token", "Twitter bearer token", "AAAAAAAAAAAAAAAAAAAAA", r"[0-9A-Za-z%]{80,100}"),
    # --- monitoring, planning, writing
    _token("grafana-service-token", "Grafana service account token", "glsa_", f"{_A}{{32}}_[0-9A-Fa-f]{{8}}"),
    _token("grafana-cloud-token", "Grafana Cloud token", "glc_", f"{_B}{{32,400}}={{0,3}}"),
    _token("grafana-api-key", "Grafana API key", "eyJrIjoi", f"{_A}{{70,400}}={{0,3}}"),
    _token(
        "sentry-org-token", "Sentry organisation token", "sntrys_eyJ", f"{_B}{{40,400}}={{0,2}}_{_B}{{43}}"
    ),
    _token("sentry-user-token", "Sentry user token", "sntryu_", f"{_H}{{64}}"),
    _token("newrelic-user-key", "New Relic user key", "NRAK-", "[A-Z0-9]{27}"),
    _token("newrelic-insert-key", "New Relic insert key", "NRII-", f"{_U}{{32}}"),
    _token("newrelic-browser-key", "New Relic browser key", "NRJS-", f"{_H}{{19}}"),
    _token("dynatrace-token", "Dynatrace token", "dt0c01.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}", r"(?<=dt0c01\.)"),
    _token("honeycomb-key", "Honeycomb key", "hcaik_ hcbik_ hcxik_ hcalk_", f"{_A}{{58}}"),
    _token("posthog-personal-key", "PostHog personal API key", "phx_", f"(?:{_A}{{43}}|{_A}{{40,48}})"),
    _token("linear-api-key", "Linear API key", "lin_api_ lin_oauth_", f"(?:{_A}{{40}}|{_H}{{64}})"),
    _token("notion-token", "Notion token", "ntn_", rf"\d{{11}}{_A}{{35}}"),
    _token("notion-secret", "Notion integration secret", "secret_", f"{_A}{{43}}"),
    _token(
        "airtable-token",
        "Airtable token",
        "pat",
        rf"{_A}{{14}}\.{_H}{{64}}",
        rf"pat{_A}{{14}}(?=\.)|(?<=\.){_H}{{64}}",
    ),
    _token(
        "asana-token",
        "Asana token",
        "0/ 1/ 2/",
        rf"\d{{10,20}}(?:/\d{{10,20}})?:{_H}{{32}}",
        rf"(?<=[0-9]{{10}}:){_H}{{32}}",
    ),
    _token("figma-token", "Figma token", "figd_", f"{_U}{{40}}"),
    _token("clickup-token", "ClickUp token", "pk_", r"\d{6,9}_[A-Z0-9]{32}", r"pk_\d{6}"),
    _token("contentful-token", "Contentful management token", "CFPAT-", f"{_U}{{43}}"),
    _token("typeform-token", "Typeform token", "tfp_", r"[0-9A-Za-z_.=-]{59}"),
    _token("readme-api-key", "ReadMe API key", "rdme_", "[0-9a-z]{70}"),
    _token("adafruit-key", "Adafruit IO key", "aio_", f"{_A}{{28}}"),
    _token("adobe-client-secret", "Adobe client secret", "p8e-", f"{_A}{{32}}"),
    _token("frameio-token", "Frame.io token", "fio-u-", f"{_U}{{64}}"),
    _token("intra42-client-secret", "Intra 42 client secret", "s-s4t2ud- s-s4t2af-", f"{_H}{{64}}"),
    _inside("maxmind-license-key", "MaxMind licence key", "_mmk", rf"{_A}{{6}}_{_A}{{29}}_mmk", ""),
    _token("settlemint-token", "SettleMint token", "sm_aat_ sm_pat_ sm_sat_", f"{_A}{{16}}"),
    _token("clickhouse-api-secret", "ClickHouse Cloud API secret", "4b1d", f"{_A}{{38}}"),
    _token("nostr-secret-key", "Nostr secret key", "nsec1", "[0-9a-z]{58}"),
    _token("bitcoin-extended-key", "Bitcoin extended private key", "xprv", f"{_A}{{107}}"),
    _token("jwt", "JSON Web Token", "eyJ", rf"{_U}{{10,2000}}\.eyJ{_U}{{10,6000}}\.{_U}{{16,1500}}"),
)

NAMED: tuple[NamedPattern, ...] = (
    _named(
        "aws-secret-access-key",
        "AWS secret access key",
        "aws secret",
        "(?:aws_?)?secret_?access_?key|aws_?secret_?key",
        f"{_B}{{40}}",
    ),
    _named(
        "aws-session-token",
        "AWS session token",
        "session",
        "aws_?session_?token|sessiontoken|aws_?security_?token",
        f"{_B}{{100,2000}}={{0,2}}",
    ),
    _named(
        "azure-storage-key", "Azure storage key", "accountkey account_key", "account_?key", f"{_B}{{86}}=="
    ),
    _named(
        "alibaba-secret-key", "Alibaba Cloud secret key", "alibaba aliyun", "alibaba|aliyun", f"{_A}{{30}}"
    ),
    _named(
        "cloudflare-token",
        "Cloudflare token",
        "cloudflare cf_api",
        "cloudflare|cf_api",
        f"(?:{_U}{{40}}|{_H}{{37}})",
    ),
    _named("heroku-api-key-v1", "Heroku API key (early format)", "heroku", "heroku", _UUID),
    _named("snyk-token", "Snyk token", "snyk", "snyk", _UUID),
    _named("postmark-token", "Postmark token", "postmark", "postmark", _UUID),
    _named(
        "datadog-key",
        "Datadog key",
        "datadog dd_api dd_app",
        "datadog|dd_api|dd_app",
        f"(?:{_H}{{40}}|{_H}{{32}})",
    ),
    _named("cohere-api-key", "Cohere API key", "cohere co_api_key", "cohere|co_api", f"{_A}{{40}}"),
    _named("mistral-api-key", "Mistral API key", "mistral", "mistral", f"{_A}{{32}}"),
    _named("wandb-api-key", "Weights & Biases API key", "wandb", "wandb", f"{_H}{{40}}"),
    _named("deepgram-api-key", "Deepgram API key", "deepgram", "deepgram", f"{_H}{{40}}"),
    _named("assemblyai-api-key", "AssemblyAI API key", "assemblyai", "assemblyai", f"{_H}{{32}}"),
    _named("twilio-auth-token", "Twilio auth token", "twilio", "twilio", f"{_H}{{32}}"),
    _named(
        "mailgun-signing-key", "Mailgun signing key", "mailgun", "mailgun", f"{_H}{{32}}-{_H}{{8}}-{_H}{{8}}"
    ),
    _named("okta-token", "Okta token", "okta", "okta", f"00{_U}{{40}}"),
    _named(
        "discord-bot-token",
        "Discord bot token",
        "discord bot token",
        "discord|bot|token",
        rf"[MNO]{_U}{{23,27}}\.{_U}{{6}}\.{_U}{{27,38}}",
    ),
    _named("discord-client-secret", "Discord client secret", "discord", "discord", f"{_U}{{32}}"),
    _named("algolia-api-key", "Algolia API key", "algolia", "algolia", f"{_H}{{32}}"),
    _named("codecov-token", "Codecov token", "codecov", "codecov", f"(?:{_UUID}|{_H}{{32}})"),
    _named("vercel-token", "Vercel token", "vercel", "vercel", f"{_A}{{24}}"),
    _named("linode-token", "Linode token", "linode", "linode", f"{_H}{{64}}"),
    _named("fastly-token", "Fastly token", "fastly", "fastly", f"{_U}{{32}}"),
    _named("zendesk-token", "Zendesk token", "zendesk", "zendesk", f"{_A}{{40}}"),
    _named("opsgenie-api-key", "Opsgenie API key", "opsgenie", "opsgenie", _UUID),
    _named("twitter-api-secret", "Twitter API secret", "twitter", "twitter", f"(?:{_A}{{50}}|{_A}{{45}})"),
    _named(
        "ethereum-private-key",
        "Ethereum private key",
        "private_key privatekey private-key",
        "private_?key",
        "(?:0x)?[0-9a-fA-F]{64}",
    ),
)

_ASSIGNED = rf"""{BETWEEN}(?:["'`]|(?=[^\s"'`]))"""

SHAPES: tuple[ShapePattern, ...] = (
    ShapePattern(
        "slack-webhook",
        "Slack webhook",
        ("hooks.slack.com",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[0-9A-Za-z+/]{30,70})",
    ),
    ShapePattern(
        "discord-webhook",
        "Discord webhook",
        ("/api/webhooks/",),
        r"discord(?:app)?\.com/api/webhooks/\d{15,21}/(?P<secret>[0-9A-Za-z_-]{60,80})",
    ),
    ShapePattern(
        "teams-webhook",
        "Microsoft Teams webhook",
        ("webhook.office.com",),
        r"webhook\.office\.com/webhookb2/(?P<secret>[0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36})",
    ),
    ShapePattern(
        "azure-sas-signature",
        "Azure shared access signature",
        ("sig=",),
        r"(?<![A-Za-z])sig=(?P<secret>[0-9A-Za-z+/%]{43,90}(?:%3[Dd]|=))",
    ),
    ShapePattern(
        "gitlab-session",
        "GitLab session cookie",
        ("_gitlab_session",),
        r"_gitlab_session=(?P<secret>[0-9a-z]{32})",
    ),
    ShapePattern(
        "npm-registry-auth",
        "npm registry credential",
        ("_authtoken", "_auth=", "_password="),
        r"""_(?:authToken|auth|password)\s?=\s?["']?(?P<secret>[0-9A-Za-z+/_.~-]{16,}={0,2})""",
        3.0,
    ),
    ShapePattern(
        "netrc-password",
        "password in .netrc",
        ("machine",),
        r"\bmachine\s+\S{1,200}\s+login\s+\S{1,200}\s+password\s+(?P<secret>\S{4,200})",
    ),
    ShapePattern(
        "url-password",
        "password in an address",
        ("://",),
        r"""\b[A-Za-z][0-9A-Za-z+.-]{1,30}://[^\s:/?#@"'`<>\\]{0,100}:(?P<secret>[^\s/?#@"'`<>\\]{3,200})@(?=[\w\[])""",
    ),
    ShapePattern(
        "basic-auth",
        "basic authorization header",
        ("basic",),
        r"\b(?i:basic)\s{1,3}(?P<secret>[0-9A-Za-z+/]{10,400}={0,2})",
    ),
    ShapePattern(
        "docker-auth",
        "registry login",
        ("auth",),
        r'"auth"\s{0,3}:\s{0,3}"(?P<secret>[0-9A-Za-z+/]{12,400}={0,2})"',
    ),
    ShapePattern(
        "bearer-token",
        "bearer token",
        ("bearer",),
        r"\b(?i:bearer)\s{1,3}(?P<secret>[0-9A-Za-z_.~+/-]{20,2000}={0,2})",
        3.5,
    ),
    ShapePattern(
        "curl-password",
        "password on a command line",
        ("curl",),
        r"""\bcurl\b[^\n]{0,400}?\s(?:-u|--user)[ =]?["']?[^\s:"'$]{1,100}:(?P<secret>[^\s"'$]{6,200})""",
    ),
    ShapePattern(
        "http-cookie",
        "session cookie",
        ("cookie",),
        r"""(?i:cookie)["']?\s{0,3}[:=][^\n]{0,400}?(?i:sess|sid|auth|token)[\w.-]{0,30}=(?P<secret>[^\s;"'`\\,]{16,2000})""",
        3.5,
    ),
    ShapePattern(
        "password",
        "password",
        ("passw", "pwd", "passphrase"),
        rf"""(?i:passw(?:or)?d|passphrase|\bpwd)[\w.-]{{0,20}}{_ASSIGNED}(?P<secret>[^\s"'`,;<>{{}}()\[\]\\]{{8,200}})(?![(\w])""",
        2.8,
        is_generic=True,
    ),
    ShapePattern(
        "secret",
        "secret, key or token by its name",
        ("secret", "token", "key", "credential"),
        rf"""(?i:secret|token|credential|(?:api|access|auth|account|private|encryption|signing|client|master|admin|service|license)[_. -]?key)[\w.-]{{0,20}}{_ASSIGNED}(?P<secret>[0-9A-Za-z_.~+/=-]{{16,400}})(?![0-9A-Za-z_.~+/=(-])""",
        3.5,
        is_generic=True,
    ),
)
