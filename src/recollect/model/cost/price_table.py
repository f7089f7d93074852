"""What Claude models cost. Written by tools/build_price_table.py from genai-prices 0.2.1: do not edit.

The tool names the sources of what that package does not say. A row of MODELS: the model; how its
names are recognised (= is, ^ starts with, * contains, # starts with and then eight digits,
~ and then a date); the published rules that apply to it (half price for a batch; 1.1 times for
US-only inference; 1.1 times at a regional endpoint of Amazon Bedrock; no higher price for long contexts on
Anthropic's own API); its prices; those of fast mode. OWN_SOURCES: who says so of models the package lacks.

Prices: (first quarter of an hour since 1970, ((above how many tokens of context, rates), ...)).
Rates: pico-dollars (10**-12 USD) for a token of input, output, cache write of 5 minutes, of 1 hour,
cache read, and for a web search. None: no price is known.
"""

SOURCE = "genai-prices 0.2.1"
# The quarters at which a price of other_prices changes.
OTHER_CHANGES = (
    1_943_904,
    1_960_704,
    1_963_968,
    1_970_688,
    1_979_520,
    1_983_744,
    1_984_896,
    1_985_856,
    1_987_776,
    1_990_848,
    1_991_136,
    1_991_520,
    1_991_616,
    1_995_648,
    1_998_624,
)
OWN_SOURCES = {
    "claude-mythos-5": "client 2.1.325 and LiteLLM 1.108.4",
    "claude-mythos-5-1": "client 2.1.325 and LiteLLM 1.108.4",
    "claude-mythos-5-2": "client 2.1.325",
}

Rates = tuple[int | None, ...]
Periods = tuple[tuple[int, tuple[tuple[int, Rates], ...]], ...]

MODELS: tuple[tuple[str, tuple[str, ...], tuple[str, ...], Periods, Periods], ...] = (
    (
        "claude-2",
        ("^claude-2", "*claude-v2"),
        (),
        ((0, ((0, (8_000_000, 24_000_000, None, None, None, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-3-5-haiku-latest",
        ("^claude-3-5-haiku", "^claude-3.5-haiku"),
        ("batch",),
        ((0, ((0, (800_000, 4_000_000, 1_000_000, 1_600_000, 80_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-3-5-sonnet",
        ("^claude-3-5-sonnet", "^claude-3.5-sonnet"),
        ("batch",),
        ((0, ((0, (3_000_000, 15_000_000, 3_750_000, 6_000_000, 300_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-3-7-sonnet-latest",
        ("^claude-3-7-sonnet", "^claude-3.7-sonnet", "^claude-sonnet-3.7", "^claude-sonnet-3-7"),
        ("batch",),
        ((0, ((0, (3_000_000, 15_000_000, 3_750_000, 6_000_000, 300_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-3-haiku",
        ("^claude-3-haiku",),
        ("batch",),
        ((0, ((0, (250_000, 1_250_000, 300_000, 500_000, 30_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-3-opus-latest",
        ("^claude-3-opus",),
        ("batch",),
        ((0, ((0, (15_000_000, 75_000_000, 18_750_000, 30_000_000, 1_500_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-3-sonnet",
        ("^claude-3-sonnet",),
        (),
        ((0, ((0, (3_000_000, 15_000_000, 3_750_000, 6_000_000, 300_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-fable-5",
        ("=claude-fable-5", "#claude-fable-5-"),
        ("batch", "us", "regional"),
        ((0, ((0, (10_000_000, 50_000_000, 12_500_000, 20_000_000, 1_000_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-fable-5-1",
        ("=claude-fable-5-1", "#claude-fable-5-1-"),
        ("batch", "us", "regional"),
        ((0, ((0, (10_000_000, 50_000_000, 12_500_000, 20_000_000, 250_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-haiku-4-5",
        ("^claude-haiku-4-5", "^claude-haiku-4.5", "^claude-4-5-haiku", "^claude-4.5-haiku"),
        ("batch", "regional"),
        ((0, ((0, (1_000_000, 5_000_000, 1_250_000, 2_000_000, 100_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-haiku-5-5",
        (
            "=claude-haiku-5-5",
            "#claude-haiku-5-5-",
            "^claude-haiku-5-5@",
            "^claude-haiku-5.5",
            "^claude-5-5-haiku",
            "^claude-5.5-haiku",
        ),
        ("batch", "us", "regional"),
        (
            (
                0,
                (
                    (0, (100_000, 500_000, 125_000, 200_000, 10_000, 10_000_000_000)),
                    (100_000, (500_000, 2_500_000, 625_000, 1_000_000, 50_000, 10_000_000_000)),
                ),
            ),
        ),
        (),
    ),
    (
        "claude-opus-4-0",
        ("^claude-opus-4-0", "^claude-4-opus", "=claude-opus-4", "=claude-opus-4-20250514"),
        ("batch",),
        ((0, ((0, (15_000_000, 75_000_000, 18_750_000, 30_000_000, 1_500_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-opus-4-1",
        ("^claude-opus-4-1", "^claude-opus-4.1"),
        ("batch",),
        ((0, ((0, (15_000_000, 75_000_000, 18_750_000, 30_000_000, 1_500_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-opus-4-5",
        ("^claude-opus-4-5", "^claude-opus-4.5", "^claude-4-5-opus", "^claude-4.5-opus"),
        ("batch", "regional"),
        ((0, ((0, (5_000_000, 25_000_000, 6_250_000, 10_000_000, 500_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-opus-4-6",
        ("^claude-opus-4-6", "^claude-opus-4.6", "^claude-4-6-opus", "^claude-4.6-opus"),
        ("batch", "us", "regional"),
        (
            (
                0,
                (
                    (0, (5_000_000, 25_000_000, 6_250_000, 10_000_000, 500_000, 10_000_000_000)),
                    (200_000, (10_000_000, 37_500_000, 12_500_000, 20_000_000, 1_000_000, 10_000_000_000)),
                ),
            ),
            (1_970_400, ((0, (5_000_000, 25_000_000, 6_250_000, 10_000_000, 500_000, 10_000_000_000)),)),
        ),
        ((0, ((0, (30_000_000, 150_000_000, 37_500_000, 60_000_000, 3_000_000, 10_000_000_000)),)),),
    ),
    (
        "claude-opus-4-7",
        ("^claude-opus-4-7", "^claude-opus-4.7", "^claude-4-7-opus", "^claude-4.7-opus"),
        ("batch", "us", "regional"),
        ((0, ((0, (5_000_000, 25_000_000, 6_250_000, 10_000_000, 500_000, 10_000_000_000)),)),),
        ((0, ((0, (30_000_000, 150_000_000, 37_500_000, 60_000_000, 3_000_000, 10_000_000_000)),)),),
    ),
    (
        "claude-opus-4-8",
        ("^claude-opus-4-8", "^claude-opus-4.8", "^claude-4-8-opus", "^claude-4.8-opus"),
        ("batch", "us", "regional"),
        ((0, ((0, (5_000_000, 25_000_000, 6_250_000, 10_000_000, 500_000, 10_000_000_000)),)),),
        ((0, ((0, (10_000_000, 50_000_000, 12_500_000, 20_000_000, 1_000_000, 10_000_000_000)),)),),
    ),
    (
        "claude-opus-5",
        (
            "=claude-opus-5",
            "=claude-opus-5-latest",
            "#claude-opus-5-",
            "#claude-opus-5@",
            "~claude-opus-5-",
            "^claude-opus-5.0",
            "^claude-5-opus",
            "^claude-5.0-opus",
        ),
        ("batch", "us", "regional"),
        ((0, ((0, (5_000_000, 25_000_000, 6_250_000, 10_000_000, 500_000, 10_000_000_000)),)),),
        ((0, ((0, (10_000_000, 50_000_000, 12_500_000, 20_000_000, 1_000_000, 10_000_000_000)),)),),
    ),
    (
        "claude-opus-5-5",
        ("=claude-opus-5-5", "#claude-opus-5-5-", "^claude-opus-5.5", "^claude-5-5-opus", "^claude-5.5-opus"),
        ("batch", "us", "regional"),
        ((0, ((0, (4_000_000, 20_000_000, 5_000_000, 8_000_000, 200_000, 10_000_000_000)),)),),
        ((0, ((0, (8_000_000, 40_000_000, 10_000_000, 16_000_000, 400_000, 10_000_000_000)),)),),
    ),
    (
        "claude-sonnet-4-0",
        (
            "^claude-sonnet-4-2025",
            "^claude-sonnet-4-0",
            "^claude-sonnet-4@",
            "=claude-sonnet-4",
            "^claude-4-sonnet",
        ),
        ("batch", "flat"),
        (
            (
                0,
                (
                    (0, (3_000_000, 15_000_000, 3_750_000, 6_000_000, 300_000, 10_000_000_000)),
                    (200_000, (6_000_000, 22_500_000, 7_500_000, 12_000_000, 600_000, 10_000_000_000)),
                ),
            ),
        ),
        (),
    ),
    (
        "claude-sonnet-4-5",
        ("^claude-sonnet-4-5", "^claude-sonnet-4.5"),
        ("batch", "regional", "flat"),
        (
            (
                0,
                (
                    (0, (3_000_000, 15_000_000, 3_750_000, 6_000_000, 300_000, 10_000_000_000)),
                    (200_000, (6_000_000, 22_500_000, 7_500_000, 12_000_000, 600_000, 10_000_000_000)),
                ),
            ),
        ),
        (),
    ),
    (
        "claude-sonnet-4-6",
        ("^claude-sonnet-4-6", "^claude-sonnet-4.6"),
        ("batch", "us", "regional"),
        (
            (
                0,
                (
                    (0, (3_000_000, 15_000_000, 3_750_000, 6_000_000, 300_000, 10_000_000_000)),
                    (200_000, (6_000_000, 22_500_000, 7_500_000, 12_000_000, 600_000, 10_000_000_000)),
                ),
            ),
            (1_970_400, ((0, (3_000_000, 15_000_000, 3_750_000, 6_000_000, 300_000, 10_000_000_000)),)),
        ),
        (),
    ),
    (
        "claude-sonnet-5",
        (
            "=claude-sonnet-5",
            "#claude-sonnet-5-",
            "^claude-sonnet-5@",
            "^claude-sonnet-5.0",
            "^claude-5-sonnet",
            "^claude-5.0-sonnet",
        ),
        ("batch", "us", "regional"),
        ((0, ((0, (2_000_000, 10_000_000, 2_500_000, 4_000_000, 200_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-sonnet-5-5",
        (
            "=claude-sonnet-5-5",
            "#claude-sonnet-5-5-",
            "^claude-sonnet-5-5@",
            "^claude-sonnet-5.5",
            "^claude-5-5-sonnet",
            "^claude-5.5-sonnet",
        ),
        ("batch", "us", "regional"),
        ((0, ((0, (2_000_000, 10_000_000, 2_500_000, 4_000_000, 100_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-v1",
        ("=claude-v1",),
        (),
        ((0, ((0, (8_000_000, 24_000_000, None, None, None, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-mythos-5",
        ("=claude-mythos-5", "#claude-mythos-5-"),
        ("batch", "us", "regional"),
        ((0, ((0, (10_000_000, 50_000_000, 12_500_000, 20_000_000, 1_000_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-mythos-5-1",
        ("=claude-mythos-5-1", "#claude-mythos-5-1-"),
        ("batch", "us", "regional"),
        ((0, ((0, (10_000_000, 50_000_000, 12_500_000, 20_000_000, 250_000, 10_000_000_000)),)),),
        (),
    ),
    (
        "claude-mythos-5-2",
        ("=claude-mythos-5-2", "#claude-mythos-5-2-"),
        ("us",),
        ((0, ((0, (8_000_000, 40_000_000, 10_000_000, 16_000_000, 200_000, 10_000_000_000)),)),),
        (),
    ),
)
