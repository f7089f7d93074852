"""Credentials made at run time, for tests only: none of them was ever given out, none is stored.

Each kind has a recipe written from what its provider says about the format, not from our expressions, and a near
miss: something that looks much like it and is none. A generator with a seed draws the letters.
"""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable
from typing import NamedTuple

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
URL = ALNUM + "_-"
BASE64 = ALNUM + "+/"
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
BASE32 = string.ascii_uppercase + "234567"
BECH32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"


class Dice:
    """Letters drawn from a seed."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(str(seed))

    def draw(self, letters: str, count: int) -> str:
        """So many letters; never one of few letters only, which no generator of keys would give out."""
        return "".join(self.random.choice(letters) for _ in range(count))

    def alnum(self, count: int) -> str:
        return self.draw(ALNUM, count)

    def hex(self, count: int) -> str:
        return self.draw(HEX, count)

    def url(self, count: int) -> str:
        # Ends in a letter, as a reader would expect a key to.
        return self.draw(URL, count - 1) + self.draw(ALNUM, 1)

    def digits(self, count: int) -> str:
        return self.draw("123456789", 1) + self.draw(string.digits, count - 1)

    def uuid(self) -> str:
        return "-".join(self.hex(n) for n in (8, 4, 4, 4, 12))

    def jwt(self) -> str:
        head = _base64url(b'{"alg":"HS256","typ":"JWT"}')
        body = _base64url(f'{{"sub":"{self.digits(10)}","name":"{self.alnum(12)}"}}'.encode())
        return f"{head}.{body}.{self.url(43)}"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


Recipe = Callable[[Dice], str]


class Sample(NamedTuple):
    """How to make one of a kind, and something that is none. ``before`` is the name it needs beside it."""

    make: Recipe
    miss: Recipe
    before: str = ""
    after: str = ""


def _fixed(prefix: str, letters: str, count: int, before: str = "") -> Sample:
    """A start and so many letters; with three letters fewer it is something else."""
    edge = ALNUM if letters in (URL, BASE64) else letters

    def make(dice: Dice) -> str:
        return prefix + dice.draw(letters, count - 1) + dice.draw(edge, 1)

    return Sample(make, lambda dice: make(dice)[:-3], before)


def _parts(make: Recipe, miss: Recipe | None = None, before: str = "", after: str = "") -> Sample:
    return Sample(make, miss or (lambda dice: make(dice)[: len(make(dice)) // 3]), before, after)


SAMPLES: dict[str, Sample] = {
    "anthropic-api-key": _parts(
        lambda d: f"sk-ant-api03-{d.draw(URL, 93)}AA", lambda d: f"sk-ant-api03-{d.url(40)}"
    ),
    "anthropic-admin-key": _parts(
        lambda d: f"sk-ant-admin01-{d.draw(URL, 93)}AA", lambda d: f"sk-ant-admin01-{d.url(40)}"
    ),
    "anthropic-oauth-token": _parts(
        lambda d: f"sk-ant-oat01-{d.draw(URL, 93)}AA", lambda d: f"sk-ant-oat01-{d.url(40)}"
    ),
    "anthropic-session-key": _parts(
        lambda d: f"sk-ant-sid01-{d.draw(URL, 93)}AA", lambda d: f"sk-ant-sid01-{d.url(40)}"
    ),
    "openai-api-key": _parts(
        lambda d: f"sk-proj-{d.draw(URL, 74)}T3BlbkFJ{d.url(74)}", lambda d: f"sk-proj-{d.url(30)}"
    ),
    "openai-legacy-key": _parts(
        lambda d: f"sk-{d.alnum(20)}T3BlbkFJ{d.alnum(20)}", lambda d: f"sk-{d.alnum(8)}T3BlbkFJ{d.alnum(8)}"
    ),
    "openrouter-api-key": _fixed("sk-or-v1-", HEX, 64),
    "langfuse-secret-key": _parts(lambda d: f"sk-lf-{d.uuid()}"),
    "sk-api-key": _parts(lambda d: f"sk-{d.hex(32)}", lambda d: f"sk-{d.hex(24)}"),
    "groq-api-key": _fixed("gsk_", ALNUM, 52),
    "xai-api-key": _fixed("xai-", ALNUM, 80),
    "perplexity-api-key": _fixed("pplx-", ALNUM, 48),
    "huggingface-token": _fixed("hf_", string.ascii_letters, 34),
    "huggingface-org-token": _fixed("api_org_", string.ascii_letters, 34),
    "replicate-api-token": _fixed("r8_", ALNUM, 37),
    "fireworks-api-key": _parts(lambda d: f"fw_{d.alnum(24)}", lambda d: f"fw_{d.alnum(18)}"),
    "cerebras-api-key": _fixed("csk-", LOWER, 48),
    "nvidia-api-key": _parts(lambda d: f"nvapi-{d.url(64)}", lambda d: f"nvapi-{d.url(40)}"),
    "together-api-key": _fixed("tgp_v1_", URL, 43),
    "langsmith-api-key": _parts(lambda d: f"lsv2_pt_{d.hex(32)}_{d.hex(10)}"),
    "tavily-api-key": _fixed("tvly-", ALNUM, 32),
    "firecrawl-api-key": _fixed("fc-", HEX, 32),
    "pinecone-api-key": _parts(
        lambda d: f"pcsk_{d.alnum(6)}_{d.alnum(63)}", lambda d: f"pcsk_{d.alnum(6)}_{d.alnum(20)}"
    ),
    "jina-api-key": _parts(lambda d: f"jina_{d.alnum(32)}{d.url(28)}", lambda d: f"jina_{d.alnum(32)}"),
    "voyage-api-key": _fixed("pa-", URL, 43),
    "elevenlabs-api-key": _fixed("sk_", HEX, 48),
    "e2b-api-key": _fixed("e2b_", HEX, 40),
    "aws-access-key-id": _fixed("AKIA", BASE32, 16),
    "aws-bedrock-key": _parts(
        lambda d: f"ABSK{d.draw(BASE64, 127)}{d.alnum(1)}", lambda d: f"ABSK{d.alnum(60)}"
    ),
    "google-api-key": _fixed("AIza", URL, 35),
    "google-oauth-secret": _fixed("GOCSPX-", URL, 28),
    "google-oauth-token": _parts(lambda d: f"ya29.a0{d.url(160)}", lambda d: f"ya29.{d.url(20)}"),
    "google-refresh-token": _parts(lambda d: f"1//0{d.url(99)}", lambda d: f"1//0{d.url(20)}"),
    "azure-devops-token": _parts(
        lambda d: f"{d.alnum(76)}AZDO{d.alnum(4)}", lambda d: f"{d.alnum(30)}AZDO{d.alnum(4)}"
    ),
    "azure-client-secret": _parts(
        lambda d: f"{d.alnum(3)}8Q~{d.draw(URL + '~.', 33)}{d.alnum(1)}",
        lambda d: f"{d.alnum(3)}8Q~{d.url(20)}",
    ),
    "digitalocean-token": _fixed("dop_v1_", HEX, 64),
    "heroku-api-key": _fixed("HRKU-AA", URL, 58),
    "netlify-token": _parts(lambda d: f"nfp_{d.alnum(36)}", lambda d: f"nfp_{d.alnum(20)}"),
    "fly-token": _parts(lambda d: f"fo1_{d.url(43)}", lambda d: f"fo1_{d.url(30)}"),
    "render-api-key": _parts(lambda d: f"rnd_{d.alnum(32)}", lambda d: f"rnd_{d.alnum(18)}"),
    "supabase-token": _fixed("sbp_", HEX, 40),
    "supabase-secret-key": _parts(lambda d: f"sb_secret_{d.alnum(22)}_{d.alnum(8)}"),
    "planetscale-token": _parts(lambda d: f"pscale_tkn_{d.url(43)}", lambda d: f"pscale_tkn_{d.url(20)}"),
    "planetscale-password": _parts(lambda d: f"pscale_pw_{d.url(43)}", lambda d: f"pscale_pw_{d.url(20)}"),
    "neon-api-key": _fixed("napi_", LOWER, 64),
    "databricks-token": _fixed("dapi", HEX, 32),
    "cloudflare-origin-key": _parts(lambda d: f"v1.0-{d.hex(24)}-{d.hex(146)}"),
    "alibaba-access-key-id": _parts(lambda d: f"LTAI{d.alnum(20)}", lambda d: f"LTAI{d.alnum(9)}"),
    "tencent-secret-id": _fixed("AKID", ALNUM, 32),
    "yandex-api-key": _parts(lambda d: f"AQVN{d.url(36)}", lambda d: f"AQVN{d.url(20)}"),
    "scalingo-token": _fixed("tk-us-", URL, 48),
    "vercel-blob-token": _parts(lambda d: f"vercel_blob_rw_{d.alnum(16)}_{d.alnum(30)}"),
    "tailscale-key": _parts(lambda d: f"tskey-auth-k{d.alnum(16)}-{d.alnum(32)}"),
    "github-pat": _fixed("ghp_", ALNUM, 36),
    "github-fine-grained-pat": _parts(lambda d: f"github_pat_{d.alnum(22)}_{d.alnum(59)}"),
    "github-oauth-token": _fixed("gho_", ALNUM, 36),
    "github-app-token": _fixed("ghs_", ALNUM, 36),
    "github-refresh-token": _parts(lambda d: f"ghr_{d.alnum(76)}", lambda d: f"ghr_{d.alnum(50)}"),
    "gitlab-pat": _parts(
        lambda d: (
            f"glpat-{d.url(20)}" if d.random.random() < 0.5 else f"glpat-{d.url(40)}.01.{d.draw(LOWER, 9)}"
        ),
        lambda d: f"glpat-{d.url(17)}",
    ),
    "gitlab-deploy-token": _fixed("gldt-", URL, 20),
    "gitlab-runner-token": _fixed("glrt-", URL, 20),
    "gitlab-trigger-token": _fixed("glptt-", HEX, 40),
    "gitlab-job-token": _parts(
        lambda d: f"glcbt-{d.alnum(2)}_{d.url(20)}", lambda d: f"glcbt-{d.alnum(2)}_{d.url(9)}"
    ),
    "gitlab-feed-token": _fixed("glft-", URL, 20),
    "gitlab-mail-token": _fixed("glimt-", URL, 25),
    "gitlab-agent-token": _fixed("glagent-", URL, 50),
    "gitlab-oauth-secret": _fixed("gloas-", URL, 64),
    "gitlab-scim-token": _fixed("glsoat-", URL, 20),
    "gitlab-flag-token": _fixed("glffct-", URL, 20),
    "gitlab-registration-token": _fixed("GR1348941", URL, 20),
    "bitbucket-app-password": _fixed("ATBB", ALNUM, 32),
    "atlassian-token": _parts(lambda d: f"ATATT3{d.url(177)}={d.hex(8)}", lambda d: f"ATATT3{d.url(50)}"),
    "npm-token": _fixed("npm_", ALNUM, 36),
    "pypi-token": _parts(
        lambda d: f"pypi-AgEIcHlwaS5vcmc{d.url(150)}", lambda d: f"pypi-AgEIcHlwaS5vcmc{d.url(20)}"
    ),
    "rubygems-token": _fixed("rubygems_", HEX, 48),
    "nuget-api-key": _fixed("oy2", LOWER, 43),
    "clojars-token": _fixed("CLOJARS_", LOWER, 60),
    "crates-io-token": _fixed("cio", ALNUM, 32),
    "docker-token": _parts(lambda d: f"dckr_pat_{d.url(27)}", lambda d: f"dckr_pat_{d.url(20)}"),
    "artifactory-api-key": _fixed("AKCp", ALNUM, 69),
    "artifactory-reference-token": _fixed("cmVmd", ALNUM, 59),
    "buildkite-token": _fixed("bkua_", HEX, 40),
    "circleci-token": _parts(lambda d: f"CCIPAT_{d.alnum(22)}_{d.hex(40)}"),
    "sonar-token": _fixed("squ_", HEX, 40),
    "sourcegraph-token": _parts(
        lambda d: f"sgp_{d.hex(16)}_{d.hex(40)}", lambda d: f"sgp_{d.hex(16)}_{d.hex(30)}"
    ),
    "terraform-token": _parts(
        lambda d: f"{d.alnum(14)}.atlasv1.{d.url(67)}", lambda d: f"{d.alnum(14)}.atlasv1.{d.url(30)}"
    ),
    "pulumi-token": _fixed("pul-", HEX, 40),
    "infracost-api-key": _fixed("ico-", ALNUM, 32),
    "octopus-api-key": _fixed("API-", UPPER, 26),
    "jetbrains-token": _parts(lambda d: f"perm-{d.alnum(8)}=.{d.alnum(6)}==.{d.alnum(48)}"),
    "postman-api-key": _parts(lambda d: f"PMAK-{d.hex(24)}-{d.hex(34)}"),
    "harness-token": _parts(lambda d: f"pat.{d.url(22)}.{d.alnum(24)}.{d.alnum(20)}"),
    "doppler-token": _parts(lambda d: f"dp.pt.{d.alnum(43)}", lambda d: f"dp.pt.{d.alnum(30)}"),
    "vault-token": _parts(lambda d: f"hvs.{d.url(95)}", lambda d: f"hvs.{d.url(40)}"),
    "1password-secret-key": _parts(
        lambda d: "-".join(["A3", *(d.draw(UPPER, n) for n in (6, 6, 5, 5, 5, 5))]),
        lambda d: "-".join(["A3", *(d.draw(UPPER, n) for n in (6, 6, 5, 5))]),
    ),
    "1password-service-token": _parts(lambda d: f"ops_eyJ{d.alnum(400)}", lambda d: f"ops_eyJ{d.alnum(100)}"),
    "age-secret-key": _fixed("AGE-SECRET-KEY-1", BECH32, 58),
    "prefect-api-key": _fixed("pnu_", ALNUM, 36),
    "openshift-token": _fixed("sha256~", URL, 43),
    "launchdarkly-key": _parts(lambda d: f"sdk-{d.uuid()}"),
    "slack-bot-token": _parts(lambda d: f"xoxb-{d.digits(12)}-{d.digits(13)}-{d.alnum(24)}"),
    "slack-user-token": _parts(lambda d: f"xoxp-{d.digits(12)}-{d.digits(12)}-{d.digits(13)}-{d.hex(32)}"),
    "slack-app-token": _parts(lambda d: f"xapp-1-A{d.draw(UPPER, 10)}-{d.digits(13)}-{d.hex(64)}"),
    "slack-refresh-token": _parts(lambda d: f"xoxe-1-{d.alnum(146)}"),
    "slack-config-token": _parts(lambda d: f"xoxe.xoxp-1-{d.alnum(166)}"),
    "slack-legacy-token": _parts(
        lambda d: f"xoxs-{d.digits(11)}-{d.digits(11)}-{d.digits(11)}-{d.hex(10)}",
        lambda d: f"xoxs-{d.digits(4)}",
    ),
    "telegram-bot-token": _parts(
        lambda d: f"{d.digits(10)}:AA{d.url(33)}", lambda d: f"{d.digits(10)}:AA{d.url(20)}"
    ),
    "stripe-secret-key": _parts(lambda d: f"sk_live_{d.alnum(99)}", lambda d: f"sk_live_{d.alnum(9)}"),
    "stripe-webhook-secret": _parts(lambda d: f"whsec_{d.alnum(32)}", lambda d: f"whsec_{d.alnum(20)}"),
    "square-token": _parts(lambda d: f"sq0atp-{d.url(22)}", lambda d: f"sq0atp-{d.url(15)}"),
    "square-access-token": _fixed("EAAA", URL, 60),
    "facebook-token": _parts(lambda d: f"EAAC{d.alnum(180)}", lambda d: f"EAAC{d.alnum(50)}"),
    "braintree-token": _parts(lambda d: f"access_token$production${d.draw(LOWER, 16)}${d.hex(32)}"),
    "razorpay-key-id": _fixed("rzp_live_", ALNUM, 14),
    "shopify-token": _fixed("shpat_", HEX, 32),
    "shippo-token": _fixed("shippo_live_", HEX, 40),
    "easypost-api-key": _fixed("EZAK", ALNUM, 54),
    "duffel-token": _fixed("duffel_live_", URL, 43),
    "flutterwave-secret-key": _parts(lambda d: f"FLWSECK-{d.hex(32)}-X", lambda d: f"FLWSECK-{d.hex(20)}-X"),
    "plaid-access-token": _parts(lambda d: f"access-production-{d.uuid()}"),
    "twilio-api-key": _fixed("SK", HEX, 32),
    "sendgrid-api-key": _parts(
        lambda d: f"SG.{d.url(22)}.{d.url(43)}", lambda d: f"SG.{d.url(22)}.{d.url(20)}"
    ),
    "mailgun-api-key": _fixed("key-", HEX, 32),
    "mailchimp-api-key": _parts(lambda d: f"{d.hex(32)}-us14", lambda d: f"{d.hex(28)}-us14"),
    "brevo-api-key": _parts(lambda d: f"xkeysib-{d.hex(64)}-{d.alnum(16)}"),
    "resend-api-key": _parts(lambda d: f"re_{d.alnum(8)}_{d.alnum(24)}"),
    "intercom-token": _parts(
        lambda d: f"dG9rO{d.draw(BASE64, 59)}{d.alnum(1)}", lambda d: f"dG9rO{d.alnum(20)}"
    ),
    "mapbox-secret-token": _parts(
        lambda d: f"sk.eyJ{d.alnum(84)}.{d.alnum(22)}", lambda d: f"sk.eyJ{d.alnum(84)}.{d.alnum(10)}"
    ),
    "dropbox-token": _parts(lambda d: f"sl.u.{d.url(180)}", lambda d: f"sl.{d.url(40)}"),
    "twitter-bearer-token": _parts(
        lambda d: f"{'A' * 21}{d.alnum(90)}", lambda d: f"{'A' * 21}{d.alnum(30)}"
    ),
    "grafana-service-token": _parts(lambda d: f"glsa_{d.alnum(32)}_{d.hex(8)}"),
    "grafana-cloud-token": _parts(
        lambda d: f"glc_{d.draw(BASE64, 119)}{d.alnum(1)}", lambda d: f"glc_{d.alnum(20)}"
    ),
    "grafana-api-key": _parts(lambda d: f"eyJrIjoi{d.alnum(92)}", lambda d: f"eyJrIjoi{d.alnum(30)}"),
    "sentry-org-token": _parts(
        lambda d: f"sntrys_eyJ{d.alnum(120)}_{d.draw(BASE64, 42)}{d.alnum(1)}",
        lambda d: f"sntrys_eyJ{d.alnum(120)}",
    ),
    "sentry-user-token": _fixed("sntryu_", HEX, 64),
    "newrelic-user-key": _fixed("NRAK-", UPPER, 27),
    "newrelic-insert-key": _fixed("NRII-", URL, 32),
    "newrelic-browser-key": _fixed("NRJS-", HEX, 19),
    "dynatrace-token": _parts(lambda d: f"dt0c01.{d.draw(UPPER, 24)}.{d.draw(UPPER, 64)}"),
    "honeycomb-key": _fixed("hcaik_", ALNUM, 58),
    "posthog-personal-key": _parts(lambda d: f"phx_{d.alnum(43)}", lambda d: f"phx_{d.alnum(30)}"),
    "linear-api-key": _fixed("lin_api_", ALNUM, 40),
    "notion-token": _parts(
        lambda d: f"ntn_{d.digits(11)}{d.alnum(35)}", lambda d: f"ntn_{d.digits(11)}{d.alnum(20)}"
    ),
    "notion-secret": _fixed("secret_", ALNUM, 43),
    "airtable-token": _parts(
        lambda d: f"pat{d.alnum(14)}.{d.hex(64)}", lambda d: f"pat{d.alnum(14)}.{d.hex(30)}"
    ),
    "figma-token": _fixed("figd_", URL, 40),
    "clickup-token": _parts(
        lambda d: f"pk_{d.digits(8)}_{d.draw(UPPER, 32)}", lambda d: f"pk_{d.digits(8)}_{d.draw(UPPER, 20)}"
    ),
    "contentful-token": _fixed("CFPAT-", URL, 43),
    "typeform-token": _parts(lambda d: f"tfp_{d.url(59)}", lambda d: f"tfp_{d.url(40)}"),
    "readme-api-key": _fixed("rdme_", LOWER, 70),
    "adafruit-key": _fixed("aio_", ALNUM, 28),
    "adobe-client-secret": _fixed("p8e-", ALNUM, 32),
    "frameio-token": _fixed("fio-u-", URL, 64),
    "intra42-client-secret": _fixed("s-s4t2ud-", HEX, 64),
    "maxmind-license-key": _parts(
        lambda d: f"{d.alnum(6)}_{d.alnum(29)}_mmk", lambda d: f"{d.alnum(6)}_{d.alnum(20)}_mmk"
    ),
    "settlemint-token": _fixed("sm_pat_", ALNUM, 16),
    "clickhouse-api-secret": _fixed("4b1d", ALNUM, 38),
    "nostr-secret-key": _fixed("nsec1", LOWER, 58),
    "bitcoin-extended-key": _fixed("xprv", ALNUM, 107),
    "jwt": _parts(lambda d: d.jwt(), lambda d: d.jwt().rpartition(".")[0]),
    # --- known by the name beside them
    "aws-secret-access-key": _fixed("", BASE64, 40, "aws_secret_access_key = "),
    "aws-session-token": _parts(
        lambda d: d.draw(BASE64, 299) + d.alnum(1), lambda d: d.alnum(40), "aws_session_token="
    ),
    "azure-storage-key": _parts(
        lambda d: d.draw(BASE64, 86) + "==", lambda d: d.alnum(40) + "==", "AccountKey="
    ),
    "alibaba-secret-key": _fixed("", ALNUM, 30, "ALIBABA_SECRET="),
    "cloudflare-token": _fixed("", URL, 40, "CLOUDFLARE_API_TOKEN="),
    "heroku-api-key-v1": _parts(lambda d: d.uuid(), lambda d: d.uuid()[:-3], "HEROKU_API_KEY="),
    "snyk-token": _parts(lambda d: d.uuid(), lambda d: d.uuid()[:-3], "SNYK_TOKEN="),
    "postmark-token": _parts(lambda d: d.uuid(), lambda d: d.uuid()[:-3], "POSTMARK_TOKEN="),
    "datadog-key": _fixed("", HEX, 32, "DD_API_KEY="),
    "cohere-api-key": _fixed("", ALNUM, 40, "COHERE_API_KEY="),
    "mistral-api-key": _fixed("", ALNUM, 32, "MISTRAL_API_KEY="),
    "wandb-api-key": _fixed("", HEX, 40, "WANDB_API_KEY="),
    "deepgram-api-key": _fixed("", HEX, 40, "DEEPGRAM_API_KEY="),
    "assemblyai-api-key": _fixed("", HEX, 32, "ASSEMBLYAI_API_KEY="),
    "twilio-auth-token": _fixed("", HEX, 32, "TWILIO_AUTH_TOKEN="),
    "mailgun-signing-key": _parts(
        lambda d: f"{d.hex(32)}-{d.hex(8)}-{d.hex(8)}", None, "MAILGUN_SIGNING_KEY="
    ),
    "okta-token": _fixed("00", URL, 40, "OKTA_API_TOKEN="),
    "discord-bot-token": _parts(
        lambda d: f"M{d.alnum(25)}.{d.url(6)}.{d.url(38)}", lambda d: f"M{d.alnum(12)}.x", "DISCORD_TOKEN="
    ),
    "discord-client-secret": _fixed("", URL, 32, "DISCORD_CLIENT_SECRET="),
    "algolia-api-key": _fixed("", HEX, 32, "ALGOLIA_ADMIN_KEY="),
    "codecov-token": _parts(lambda d: d.uuid(), lambda d: d.uuid()[:-3], "CODECOV_TOKEN="),
    "vercel-token": _fixed("", ALNUM, 24, "VERCEL_TOKEN="),
    "linode-token": _fixed("", HEX, 64, "LINODE_TOKEN="),
    "fastly-token": _fixed("", URL, 32, "FASTLY_API_TOKEN="),
    "zendesk-token": _fixed("", ALNUM, 40, "ZENDESK_API_TOKEN="),
    "asana-token": _parts(
        lambda d: f"1/{d.digits(16)}:{d.hex(32)}", lambda d: f"1/{d.digits(16)}:{d.hex(20)}", "ASANA_TOKEN="
    ),
    "opsgenie-api-key": _parts(lambda d: d.uuid(), lambda d: d.uuid()[:-3], "OPSGENIE_API_KEY="),
    "twitter-api-secret": _fixed("", ALNUM, 50, "TWITTER_API_SECRET="),
    "ethereum-private-key": _parts(lambda d: f"0x{d.hex(64)}", lambda d: f"0x{d.hex(40)}", "PRIVATE_KEY="),
    # --- known by their shape
    "slack-webhook": _parts(
        lambda d: f"T{d.draw(UPPER, 10)}/B{d.draw(UPPER, 10)}/{d.alnum(24)}",
        lambda d: f"T{d.draw(UPPER, 10)}",
        "https://hooks.slack.com/services/",
    ),
    "discord-webhook": _parts(
        lambda d: d.url(68), lambda d: d.url(30), "https://discord.com/api/webhooks/112233445566778899/"
    ),
    "teams-webhook": _parts(
        lambda d: f"{d.uuid()}@{d.uuid()}/IncomingWebhook/{d.hex(32)}/{d.uuid()}",
        lambda d: d.uuid(),
        "https://acme.webhook.office.com/webhookb2/",
    ),
    "azure-sas-signature": _parts(
        lambda d: d.alnum(43) + "%3D",
        lambda d: d.alnum(20),
        "https://a.blob.core.windows.net/c?sv=2022-11-02&sig=",
    ),
    "gitlab-session": _fixed("", LOWER, 32, "_gitlab_session="),
    "npm-registry-auth": _parts(
        lambda d: d.alnum(40), lambda d: d.alnum(10), "//registry.example.org/:_authToken="
    ),
    "netrc-password": _parts(
        lambda d: d.alnum(12), lambda d: "no", "machine example.org login bob password "
    ),
    "url-password": _parts(lambda d: d.alnum(14), lambda d: "$PW", "postgres://app:", "@db.internal/app"),
    "basic-auth": _parts(
        lambda d: base64.b64encode(f"bob:{d.alnum(15)}".encode()).decode(),
        lambda d: base64.b64encode(d.alnum(15).encode()).decode(),
        "Authorization: Basic ",
    ),
    "docker-auth": _parts(
        lambda d: base64.b64encode(f"bob:{d.alnum(14)}".encode()).decode(),
        lambda d: "none",
        '{"auth": "',
        '"}',
    ),
    "bearer-token": _parts(lambda d: d.url(40), lambda d: d.url(12), "Authorization: Bearer "),
    "curl-password": _parts(
        lambda d: d.alnum(14), lambda d: "$PW", "curl -u bob:", " https://example.org/api"
    ),
    "http-cookie": _parts(lambda d: d.alnum(40), lambda d: d.alnum(8), "Cookie: theme=dark; sessionid="),
    "password": _parts(lambda d: f"{d.alnum(11)}7k", lambda d: "os.environ['X']", "DB_PASSWORD="),
    "secret": _parts(lambda d: f"{d.alnum(30)}7k", lambda d: "settings.api_key", "internal_api_key: "),
}

# The thirty formats that are met most often in transcripts: code hosting, clouds, models, payment, messages, packages.
COMMON = frozenset(
    {
        "anthropic-api-key",
        "anthropic-oauth-token",
        "openai-api-key",
        "openai-legacy-key",
        "google-api-key",
        "google-oauth-secret",
        "google-oauth-token",
        "aws-access-key-id",
        "github-pat",
        "github-fine-grained-pat",
        "github-oauth-token",
        "github-app-token",
        "gitlab-pat",
        "slack-bot-token",
        "slack-user-token",
        "slack-app-token",
        "stripe-secret-key",
        "stripe-webhook-secret",
        "npm-token",
        "pypi-token",
        "huggingface-token",
        "sendgrid-api-key",
        "digitalocean-token",
        "docker-token",
        "groq-api-key",
        "openrouter-api-key",
        "databricks-token",
        "vault-token",
        "shopify-token",
        "jwt",
    }
)


def private_key(dice: Dice, label: str = "RSA PRIVATE KEY") -> str:
    """Lines of base64 that are no key, in the clothes of one."""
    lines = "\n".join(dice.draw(BASE64, 64) for _ in range(12))
    return f"-----BEGIN {label}-----\n{lines}\n{dice.draw(BASE64, 30)}==\n-----END {label}-----"
