"""JSON texts, policies and jobs with their results: facts for the Python code, and for its twin in SQL.

Sources: RFC 8785, section 3.2 and appendix B; the Open Job Spec, unique jobs; digests of a third implementation.
"""

import struct
from typing import Any, NamedTuple

import msgspec

# RFC 8785, appendix B: the bits of a double, and its text.
RFC_NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}

# RFC 8785, section 3.2.2 ...
RFC_VALUE = r"""{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}"""
RFC_CANONICAL = (
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
    r'"string":"€$\u000f\nA' + r"'B\"\\\\\"/" + '"}'
)
# ... and 3.2.3. Its Hebrew letter U+FB33 is replaced by U+FB00: NFC, which the RFC leaves out, takes U+FB33 apart.
RFC_NAMES = r"""{
  "\u20ac": "Euro Sign",
  "\r": "Carriage Return",
  "\ufb00": "Small Ligature Ff",
  "1": "One",
  "\ud83d\ude00": "Emoji: Grinning Face",
  "\u0080": "Control",
  "\u00f6": "Latin Small Letter O With Diaeresis"
}"""
RFC_ORDER = [
    "Carriage Return",
    "One",
    "Control",
    "Latin Small Letter O With Diaeresis",
    "Euro Sign",
    "Emoji: Grinning Face",
    "Small Ligature Ff",
]

CANONICAL = {
    RFC_VALUE: RFC_CANONICAL,
    " 1.50 ": "1.5",
    " true ": "true",
    "\tnull\n": "null",
    ' "a" ': '"a"',
    "{}": "{}",
    "[]": "[]",
    '{"b":1,"a":2}': '{"a":2,"b":1}',
    '{"a":1,"a":2}': '{"a":2}',
    '{"a":9007199254740993,"a":1}': '{"a":1}',
    '{"a":1e400,"a":1}': '{"a":1}',
    '{"":0," ":1}': '{"":0," ":1}',
    "1.0": "1",
    "[-0, -0.0, 0e99, -0E-5]": "[0,0,0,0]",
    "[1e21,1e20,1.2345678901234568e20]": "[1e+21,100000000000000000000,123456789012345680000]",
    "[1e-6, 1e-7, 0.1, 1E+2]": "[0.000001,1e-7,0.1,100]",
    "[9007199254740992, -9007199254740992]": "[9007199254740992,-9007199254740992]",
    "123456789012345680000": "123456789012345680000",
    "1000000000000000000000": "1e+21",
    "100000000000000000000000": "1e+23",
    # A number with a fraction or an exponent means the nearest double.
    "[44684703282094176.0, 4.4684703282094176e16]": "[44684703282094180,44684703282094180]",
    "44684703282094180": "44684703282094180",
    "[1e23, 9.999999999999999e22, 5e-324, 1e-400, -1e-99999999999]": "[1e+23,1e+23,5e-324,0,0]",
    # Halfway between 0 and the smallest double, and just above.
    "2.4703282292062327e-324": "0",
    "2.4703282292062328e-324": "5e-324",
    "1.7976931348623158e308": "1.7976931348623157e+308",
    "0." + "0" * 400 + "1e400": "0.1",
    "1" + "0" * 400 + "e-400": "1",
    "1" + "0" * 400 + "e-800": "0",
    "1e-0000000000000000000000000000000000000004": "0.0001",
    "1e-" + "0" * 30 + "400": "0",
    "0." + "0" * 400 + "1": "0",
    "0." + "0" * 100 + "1e-300": "0",
    # 2^-44: its neighbours lie at different distances.
    "5.6843418860808015e-14": "5.684341886080802e-14",
    # Escapes: none but those that are needed, in the short form where there is one.
    r'"\u0061\/\u007f\u2028"': '"a/\x7f\u2028"',
    r'"\b\f\n\r\t\u0001\u001F\"\\"': r'"\b\f\n\r\t\u0001\u001f\"\\"',
    r'"\\u0000 \\ud800"': r'"\\u0000 \\ud800"',
    r'"\ud83d\ude00\uDBFF\uDFFF"': '"😀\U0010ffff"',
    # NFC, not NFKC; composed and not.
    '"\u00c5 A\u030a \u212b \ufb01"': '"\u00c5 \u00c5 \u00c5 \ufb01"',
    '{"cafe\u0301":"A\u030angstro\u0308m"}': '{"café":"Ångström"}',
    '"\u1112\u1161\u11ab\uac00\u11a8"': '"한각"',
    # U+11A7 is no last consonant, and nothing may swallow it.
    '["\uac00\u11a7", "\u1100\u1161\u11a7e\u0301"]': '["\uac00\u11a7","\uac00\u11a7é"]',
    '{"\uac00\u11a7":1,"\uac00":2}': '{"\uac00":2,"\uac00\u11a7":1}',
    # A composition that is excluded comes apart.
    '"\ufb33"': '"\u05d3\u05bc"',
    # UTF-16: pairs of units come before U+E000, and a name before longer ones that begin with it.
    '{"\uffff":1,"\ue000":2,"\U0010ffff\ue000":3,"\U0010ffff":4,"\U00010000":5,"\ud7ff":6,"\ue000\U00010000":7}': (
        '{"\ud7ff":6,"\U00010000":5,"\U0010ffff":4,"\U0010ffff\ue000":3,"\ue000":2,"\ue000\U00010000":7,"\uffff":1}'
    ),
    "[" * 64 + "]" * 64: "[" * 64 + "]" * 64,
}

REFUSED = (
    "9007199254740993",
    "\t9007199254740993\n",
    "-9007199254740993",
    "1234567890123456789",
    "44684703282094176",
    "18446744073709551615",
    '{"a":[1,{"b":9007199254740993}]}',
    "1e400",
    "-1e309",
    "1.7976931348623159e308",
    "1e0000000000000000000000000000000000000999",
    "1" + "0" * 309,
    "1" + "0" * 309 + ".0",
    "0." + "0" * 100 + "1e500",
    r'"\u0000"',
    r'{"\u0000":1}',
    r'["\\\u0000"]',
    r'"\ud800"',
    r'"\udc00\ud800"',
    r'"\ud83d\ude00\ude00"',
    r'"\ud800\ud83d\ude00"',
    r'{"a":{"\uDFFF":1}}',
    '{"é":1,"e\u0301":2}',
    '{"a":[{"Å":1,"\u212b":2}]}',
    "[" * 65 + "]" * 65,
    '{"a":' * 64 + "[]" + "}" * 64,
)


class Keyed(NamedTuple):
    """A policy and a job, and the text of the job's key.

    Attributes:
        job: Arguments out of `type`, `queue`, `args` and `meta`; args and meta are JSON texts.
        digest: The result of a third implementation; empty if it has none.
    """

    policy: dict[str, Any]
    job: dict[str, str]
    canonical: str
    digest: str = ""


ALL = {"keys": ["type", "args"]}
PAGE = {"keys": ["type", "queue", "args"], "args_keys": ["user_id"]}
PAGE_JOB = {"type": "email.send", "queue": "notifications", "args": '{"user_id":42,"template":"welcome"}'}
PAGE_CANONICAL = '{"args":{"user_id":42},"queue":"notifications","type":"email.send"}'
PAGE_DIGEST = "71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f"
ONE_DIGEST = "8241cce4f68455d31e13a4b8b855ff0d9506714a4edc721f5b12bd329ef6c057"
CAFE = '{"args":[{"café":"Ångström"}],"type":"x"}'
CAFE_DIGEST = "65fd5b1a0faa123afed43375fd059d64d0c8a7fd8220d84c0cde032d2c4113a3"

KEYED = {
    "page example": Keyed(PAGE, PAGE_JOB, PAGE_CANONICAL, PAGE_DIGEST),
    "page example, as an array": Keyed(
        {"keys": ["queue", "args"], "args_keys": ["user_id"]},
        {**PAGE_JOB, "args": '[{"user_id":42,"template":"welcome"}]'},
        PAGE_CANONICAL,
        PAGE_DIGEST,
    ),
    "default policy": Keyed(
        {},
        {"type": "report.daily", "args": "[]"},
        '{"type":"report.daily"}',
        "be66720bd0f961a37ab755101a985ca3f8563bd89ed8d412c41fa5791f3e4d95",
    ),
    "no keys": Keyed({"keys": []}, {"type": "a"}, '{"type":"a"}'),
    "no args_keys": Keyed(
        {**ALL, "args_keys": []},
        {"type": "email.send", "args": '[{"user_id":42}]'},
        '{"args":{},"type":"email.send"}',
        "be3450360bc20f46b42433e216831b9ef027c9f4b977441513d906ead1d6cc6d",
    ),
    "no args_keys, no object": Keyed(
        {**ALL, "args_keys": []}, {"type": "a", "args": "[1,2]"}, '{"args":{},"type":"a"}'
    ),
    "queue default": Keyed(
        {"keys": ["type", "queue"]},
        {"type": "a"},
        '{"queue":"default","type":"a"}',
        "c264707ea7dfe5a1297c368bd191939f75cfb90b4eaa98c1e27a2239f575493f",
    ),
    "empty queue": Keyed({"keys": ["queue"]}, {"type": "a", "queue": ""}, '{"queue":"","type":"a"}'),
    "1.0": Keyed(ALL, {"type": "n", "args": "[1.0]"}, '{"args":[1],"type":"n"}', ONE_DIGEST),
    "1": Keyed(ALL, {"type": "n", "args": "[1]"}, '{"args":[1],"type":"n"}', ONE_DIGEST),
    "zeros": Keyed(
        ALL,
        {"type": "n", "args": "[-0.0, 0]"},
        '{"args":[0,0],"type":"n"}',
        "765bdeda8a0d11976b27aa47f1b95159d0118774bbbe897a408c8ec8c0f15acb",
    ),
    "numbers": Keyed(
        ALL,
        {"type": "n", "args": "[1e21,1e20,1.2345678901234568e20,1e-6,1e-7,0.1,5e-324,1.7976931348623157e308]"},
        '{"args":[1e+21,100000000000000000000,123456789012345680000,0.000001,1e-7,0.1,5e-324,1.7976931348623157e+308],'
        '"type":"n"}',
        "881b1421a1243218b896b0274928d9bc092ebc11df5209f71752b19e20923614",
    ),
    "nested": Keyed(
        ALL,
        {"type": "x.y", "args": '[{"b":[2,{"z":null,"a":true}],"a":{"d":false,"c":[]}},{}]'},
        '{"args":[{"a":{"c":[],"d":false},"b":[2,{"a":true,"z":null}]},{}],"type":"x.y"}',
        "90c48359656342e10de3a1e6915d30847e9332ed774b302fcd5b4ef6a4a81dc2",
    ),
    "NFC": Keyed(ALL, {"type": "x", "args": '[{"café":"Ångström"}]'}, CAFE, CAFE_DIGEST),
    "NFD": Keyed(ALL, {"type": "x", "args": '[{"cafe\u0301":"A\u030angstro\u0308m"}]'}, CAFE, CAFE_DIGEST),
    "no args": Keyed(ALL, {"type": "a"}, '{"args":{},"type":"a"}'),
    "args that are no object": Keyed(ALL, {"type": "a", "args": " null "}, '{"args":null,"type":"a"}'),
    "meta": Keyed(
        {"keys": ["meta", "args", "queue"], "meta_keys": ["tenant", "n"], "args_keys": ["b", "a"]},
        {"type": "t", "queue": "q", "args": '{"a":1,"b":[],"c":2}', "meta": '{"tenant":"acme","trace":1,"n":1.50}'},
        '{"args":{"a":1,"b":[]},"meta":{"n":1.5,"tenant":"acme"},"queue":"q","type":"t"}',
    ),
    "meta that does not count": Keyed({"meta_keys": ["tenant"]}, {"type": "t", "meta": '{"tenant":1}'}, '{"type":"t"}'),
    "args that do not count": Keyed({"args_keys": ["a"]}, {"type": "t", "args": '{"a":1}'}, '{"type":"t"}'),
    "a number where it does not count": Keyed(
        PAGE,
        {**PAGE_JOB, "args": '{"user_id":42,"x":9007199254740993,"y":1e400,"é":{"e\u0301":1,"é":2}}'},
        PAGE_CANONICAL,
        PAGE_DIGEST,
    ),
    "the last of doubled names": Keyed(
        PAGE, {**PAGE_JOB, "args": '{"user_id":1,"user_id":42}'}, PAGE_CANONICAL, PAGE_DIGEST
    ),
    "type and queue in NFC, quoted": Keyed(
        {"keys": ["queue"]}, {"type": "cafe\u0301", "queue": 'q"\n'}, '{"queue":"q\\"\\n","type":"café"}'
    ),
    "args_keys in another form than the names": Keyed(
        {**ALL, "args_keys": ["e\u0301", "Å"]},
        {"type": "t", "args": '{"é":1,"\u212b":2}'},
        '{"args":{"Å":2,"é":1},"type":"t"}',
    ),
}


class Refused(NamedTuple):
    """A policy and a job that has no key under it, and the field of the error."""

    policy: dict[str, Any]
    job: dict[str, str]
    field: str


WITH_META = {"keys": ["meta"], "meta_keys": ["m"]}

KEYLESS = {
    "missing member": Refused({**ALL, "args_keys": ["a", "b"]}, {"type": "t", "args": '{"a":1}'}, "unique.args_keys"),
    "missing member that does not count": Refused({"args_keys": ["b"]}, {"type": "t"}, "unique.args_keys"),
    "missing member, by case": Refused(
        {**ALL, "args_keys": ["A"]}, {"type": "t", "args": '{"a":1}'}, "unique.args_keys"
    ),
    "a member inside of another": Refused(
        {**ALL, "args_keys": ["b"]}, {"type": "t", "args": '{"a":{"b":1}}'}, "unique.args_keys"
    ),
    "array of two": Refused({**ALL, "args_keys": ["a"]}, {"type": "t", "args": '["x",{"a":1}]'}, "unique.args_keys"),
    "array of two objects": Refused(
        {**ALL, "args_keys": ["a"]}, {"type": "t", "args": '[{"a":1},{"a":1}]'}, "unique.args_keys"
    ),
    "array of none": Refused({**ALL, "args_keys": ["a"]}, {"type": "t", "args": "[]"}, "unique.args_keys"),
    "array in an array": Refused({**ALL, "args_keys": ["a"]}, {"type": "t", "args": '[[{"a":1}]]'}, "unique.args_keys"),
    "scalar": Refused({**ALL, "args_keys": ["a"]}, {"type": "t", "args": '"a"'}, "unique.args_keys"),
    "missing meta": Refused(WITH_META, {"type": "t"}, "unique.meta_keys"),
    "missing member of meta": Refused(WITH_META, {"type": "t", "meta": '{"n":1}'}, "unique.meta_keys"),
    "meta in an array": Refused(WITH_META, {"type": "t", "meta": '[{"m":1}]'}, "unique.meta_keys"),
    "2^53+1": Refused(ALL, {"type": "t", "args": "[9007199254740993]"}, "args"),
    "64-bit id": Refused(ALL, {"type": "t", "args": '{"id":1234567890123456789}'}, "args"),
    "no double": Refused(ALL, {"type": "t", "args": "[44684703282094176]"}, "args"),
    "no double, in meta": Refused(WITH_META, {"type": "t", "meta": '{"m":[1e400]}'}, "meta"),
    "names that NFC makes equal": Refused(ALL, {"type": "t", "args": '{"é":1,"e\u0301":2}'}, "args"),
    "names that NFC makes equal, one of them named": Refused(
        {**ALL, "args_keys": ["é"]}, {"type": "t", "args": '{"é":1,"e\u0301":2}'}, "args"
    ),
    "names that NFC makes equal, neither named": Refused(
        {**ALL, "args_keys": ["a"]}, {"type": "t", "args": '{"a":0,"é":1,"e\u0301":2}'}, "args"
    ),
    "lone surrogate": Refused(ALL, {"type": "t", "args": r'["\ud800"]'}, "args"),
    "lone surrogate where it does not count": Refused(
        {**ALL, "args_keys": ["a"]}, {"type": "t", "args": r'{"a":1,"b":"\udc00"}'}, "args"
    ),
    "U+0000 where it does not count": Refused(
        {**ALL, "args_keys": ["a"]}, {"type": "t", "args": r'{"a":1,"b":"\u0000"}'}, "args"
    ),
    "too deep": Refused(ALL, {"type": "t", "args": "[" * 65 + "]" * 65}, "args"),
    "too deep in a member": Refused(
        {**ALL, "args_keys": ["a"]}, {"type": "t", "args": '{"a":' + "[" * 64 + "]" * 64 + "}"}, "args"
    ),
}

# Policies as JSON, and the same with all defaults.
DEFAULTS: dict[str, Any] = {
    "keys": ["type"],
    "args_keys": None,
    "meta_keys": None,
    "period": None,
    "states": ["available", "active", "scheduled", "retryable", "pending"],
    "on_conflict": "reject",
}
ALL_STATES = ["scheduled", "available", "active", "retryable", "pending", "completed", "cancelled", "discarded"]

POLICIES: list[dict[str, Any]] = [
    {},
    {"on_conflict": "ignore"},
    {"on_conflict": "replace"},
    {"on_conflict": "replace_except_schedule"},
    dict.fromkeys(DEFAULTS),
    {"keys": []},
    {"keys": ["meta", "args", "queue", "type"], "meta_keys": ["x"]},
    {"args_keys": [], "meta_keys": [], "states": []},
    {"args_keys": ["b", "a", "é"], "meta_keys": ["m"]},
    {"states": ALL_STATES, "period": "P7D"},
    {"period": "P3W4DT5H6M7.5S"},
]

BAD_POLICIES: list[tuple[Any, str]] = [
    ([], "unique"),
    ("reject", "unique"),
    (5, "unique"),
    ({"key": ["type"]}, "unique"),
    ({"Keys": ["type"]}, "unique"),
    ({"unique": None}, "unique"),
    ({"keys": ["argz"]}, "unique.keys"),
    ({"keys": ["Type"]}, "unique.keys"),
    ({"keys": [None]}, "unique.keys"),
    ({"keys": [["type"]]}, "unique.keys"),
    ({"keys": ["type", "type"]}, "unique.keys"),
    ({"keys": "type"}, "unique.keys"),
    ({"keys": {"type": 1}}, "unique.keys"),
    ({"keys": True}, "unique.keys"),
    ({"args_keys": "a"}, "unique.args_keys"),
    ({"args_keys": [""]}, "unique.args_keys"),
    ({"args_keys": [1]}, "unique.args_keys"),
    ({"args_keys": ["a", "a"]}, "unique.args_keys"),
    ({"args_keys": ["é", "e\u0301"]}, "unique.args_keys"),
    ({"meta_keys": ["m", ""]}, "unique.meta_keys"),
    ({"meta_keys": {}}, "unique.meta_keys"),
    ({"keys": ["meta"]}, "unique.meta_keys"),
    ({"keys": ["meta"], "meta_keys": None}, "unique.meta_keys"),
    ({"keys": ["meta"], "meta_keys": []}, "unique.meta_keys"),
    ({"period": "P"}, "unique.period"),
    ({"period": 3600}, "unique.period"),
    ({"period": True}, "unique.period"),
    ({"period": ["PT1H"]}, "unique.period"),
    ({"states": ["done"]}, "unique.states"),
    ({"states": ["Active"]}, "unique.states"),
    ({"states": ["active", "active"]}, "unique.states"),
    ({"states": "active"}, "unique.states"),
    ({"on_conflict": "use_existing"}, "unique.on_conflict"),
    ({"on_conflict": "drop"}, "unique.on_conflict"),
    ({"on_conflict": "Reject"}, "unique.on_conflict"),
    ({"on_conflict": ["reject"]}, "unique.on_conflict"),
    ({"on_conflict": 0}, "unique.on_conflict"),
    # Of several faults the same one is named.
    ({"keys": ["argz"], "nonsense": 1}, "unique"),
    ({"keys": ["argz"], "states": ["done"]}, "unique.keys"),
    ({"keys": ["meta"], "on_conflict": "drop"}, "unique.on_conflict"),
    ({"states": ["done"], "period": "P"}, "unique.states"),
]

# ISO 8601 durations as months, days and microseconds.
PERIODS = {
    "PT5M": (0, 0, 300_000_000),
    "PT1H": (0, 0, 3_600_000_000),
    "P1D": (0, 1, 0),
    "P7D": (0, 7, 0),
    "P2Y3M": (27, 0, 0),
    "P3W4DT5H6M7.5S": (0, 25, 18_367_500_000),
    "P0D": (0, 0, 0),
    "PT0S": (0, 0, 0),
    "PT36H": (0, 0, 129_600_000_000),
    "P0001M": (1, 0, 0),
    "PT0.000001S": (0, 0, 1),
    "PT0.000000999S": (0, 0, 0),
    "PT59.999999999S": (0, 0, 59_999_999),
    "P100Y": (1200, 0, 0),
    "P1200M": (1200, 0, 0),
    "PT3162240000S": (0, 0, 3_162_240_000_000_000),
    "PT3162239999.999999S": (0, 0, 3_162_239_999_999_999),
}

BAD_PERIODS = (
    "",
    "P",
    "PT",
    "P1DT",
    "PT1",
    "1D",
    "p1d",
    "P1d",
    "P-1D",
    "-P1D",
    "+P1D",
    "P1.5D",
    "PT1.5H",
    "PT1,5S",
    "PT.5S",
    "PT1.S",
    "P1S",
    "PT1D",
    "P1H",
    "P1D2W",
    "P1M1Y",
    "PT1S1M",
    "P 1D",
    " P1D",
    "P1D ",
    "P1D\n",
    "P٣D",
    "P0001-02-03T04:05:06",
    "P1Y2M10DT2H30M/2020-01-01",
    "1 day",
    "3600",
    "P12345678901D",
    "P00000000001D",
    "PT0.1234567890S",
    "P101Y",
    "P36601D",
    "P100YT0.000001S",
    "PT3162240000.000001S",
    "P9999999999Y9999999999M9999999999W9999999999DT9999999999H9999999999M9999999999.999999999S",
)


def double(bits: str) -> float:
    """The double with these bits, as 16 hexadecimal digits."""
    return struct.unpack(">d", bytes.fromhex(bits))[0]


def as_object(policy: Any) -> dict[str, Any]:
    """A unique policy as its JSON object, with the members that have their default."""
    return msgspec.json.decode(msgspec.json.encode(policy))
