"""Random limits for the model test: human ones, extreme ones, and changes to them. Each is a dict as a limits file
would hold it, and becomes lines of YAML for the engine and a model.Limit for the model."""
import json

import model

NS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
COUNT_MAX = 2**53 - 1
LOG_MAX = 100_000
RATED = ("token_bucket", "gcra", "leaky_bucket", "fixed_window", "sliding_window", "sliding_log")
ALGORITHMS = RATED + ("quota", "concurrency")
UNITS = ("hour", "day", "week", "month", "year")
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata",
    "Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "America/Asuncion", "America/Caracas", "America/Havana",
    "America/Nuuk", "America/Sao_Paulo", "America/St_Johns", "Antarctica/Troll", "Asia/Beirut", "Asia/Gaza",
    "Asia/Kathmandu", "Asia/Pyongyang", "Asia/Tehran", "Atlantic/Azores", "Australia/Lord_Howe", "Europe/Dublin",
    "Pacific/Apia", "Pacific/Chatham", "Pacific/Kiritimati", "Pacific/Kwajalein",
)

# (N, count, unit): N per `count` of a unit
HUMAN_RATES = (
    (1, 1, "s"), (2, 1, "s"), (10, 1, "s"), (50, 1, "s"), (7, 3, "s"), (3, 7, "s"), (333, 10, "s"), (10, 30, "s"),
    (15, 30, "s"), (1000, 60, "s"), (100, 1, "m"), (7, 1, "h"), (1, 1, "d"), (700, 1000, "ms"), (3, 1, "ms"),
)
EXTREME_RATES = (
    (1, 365, "d"), (1, 366, "d"), (10**9, 1, "s"), (2 * 10**6, 1, "s"), (6000, 1, "s"), (1, 1, "ms"),
    (COUNT_MAX, 1, "ms"), (10**6 - 1, 1, "ms"), (10**9 + 7, 7, "s"), (999_999_937, 86399, "s"),
    (3, 31_536_000, "s"), (COUNT_MAX, 366, "d"), (COUNT_MAX - 1, 13, "h"),
)

# What requests are made of. Values that differ only in how they would be joined, globs as values, and odd addresses.
VALUES = {
    "api_key": ("k0", "k1", "k2", ""),
    "org": ("a", "a_b", "b"),
    "route": ("payments.write", "payments.read", "payments.", "list", "c", "b_c", "*", "päyments.wríte", ".*"),
    "ip": ("10.1.2.3", "10.255.0.1", "11.0.0.0", "192.168.7.9", "::ffff:10.1.2.3", "::FFFF:0a01:0203", "2001:db8::1",
           "2001:db9::", "10.1.2", "10.1.2.3/32", "010.1.2.3", "not-an-ip", "", "fe80::1%eth0", "::10.1.2.3"),
}
PATTERNS = {
    "api_key": ("k0", "k*", "*1", "", "*"),
    "org": ("a", "a*", "*_*", "b", "**"),
    "route": ("payments.*", "*.read", "p*s.*e", "list", "payments.**write", "*", "päyments.*", ".*", "*ayments.*í*"),
    "ip": ({"cidr": "10.0.0.0/8"}, {"cidr": "10.1.2.3/32"}, {"cidr": "2001:db8::/32"}, {"cidr": "0.0.0.0/0"},
           {"cidr": "::/0"}, {"cidr": "192.168.0.0/21"}, "10.*", "not-an-ip"),
}


def log_uniform(rnd, low, high):
    """A whole number of any size between the two, small ones as likely as large ones."""
    return max(low, min(high, rnd.getrandbits(rnd.randint(1, high.bit_length()))))


def any_rate(rnd):
    roll = rnd.random()
    if roll < 0.55:
        return rnd.choice(HUMAN_RATES)
    if roll < 0.8:
        return rnd.choice(EXTREME_RATES)
    unit = rnd.choice(("ms", "s", "s", "m", "h", "d"))
    return log_uniform(rnd, 1, COUNT_MAX), rnd.randint(1, 366 if unit == "d" else 1000), unit


def any_capacity(rnd, around):
    anything = log_uniform(rnd, 1, COUNT_MAX)
    return max(1, min(COUNT_MAX, rnd.choice((around, around, around + 1, 1, 2, 5, 100, COUNT_MAX, anything))))


def any_pattern(rnd, attribute):
    def single():
        pattern = rnd.choice(PATTERNS[attribute])
        return {"not": pattern} if rnd.random() < 0.2 else pattern

    roll = rnd.random()
    if roll < 0.7:
        return single()
    several = [single() for _ in range(rnd.randint(1, 3))]
    return several if roll < 0.9 else {"not": [rnd.choice(PATTERNS[attribute]) for _ in several]}


def set_numbers(rnd, limit):
    """Draw all numbers of a limit's algorithm anew."""
    algorithm = limit["algorithm"]
    if algorithm == "concurrency":
        limit["slots"] = rnd.choice((1, 2, 3, 10, 100, COUNT_MAX))
        limit["ttl"] = rnd.choice(((1, "ms"), (1, "s"), (60, "s"), (7, "m"), (366, "d")))
    elif algorithm == "quota":
        limit["quota"] = rnd.choice((1, 10, 10, 1000, COUNT_MAX)), rnd.choice(UNITS)
        limit["time_zone"] = rnd.choice(ZONES)
    else:
        rate = any_rate(rnd)
        if algorithm == "sliding_log":
            rate = (min(rate[0], LOG_MAX), *rate[1:])
        limit["rate"] = rate
        if algorithm.endswith("bucket") or algorithm == "gcra":
            limit["burst"] = any_capacity(rnd, rate[0])


def any_limit(rnd, name, algorithm, plain):
    limit = {"name": name, "algorithm": algorithm, "key": [], "when": {}, "mode": "enforce"}
    set_numbers(rnd, limit)
    if rnd.random() < 0.8:
        limit["key"] = rnd.sample(sorted(VALUES), rnd.choice((1, 1, 1, 2)))
    if not plain:
        limit["when"] = {attribute: any_pattern(rnd, attribute) for attribute in VALUES if rnd.random() < 0.2}
        limit["mode"] = rnd.choice(("enforce", "enforce", "enforce", "shadow"))
    return limit


def changed(rnd, limit):
    """What a reload may do to a limit: its capacity, all its numbers, its shape, or nothing."""
    roll = rnd.random()
    if roll < 0.4:
        return changed_capacity(rnd, limit)
    limit = dict(limit)
    if roll < 0.6:
        set_numbers(rnd, limit)
    elif roll < 0.65:
        limit["key"] = rnd.sample(sorted(VALUES), 1)
    elif roll < 0.7:
        limit["mode"] = rnd.choice(("enforce", "shadow"))
    elif roll < 0.75:
        return any_limit(rnd, limit["name"], rnd.choice(ALGORITHMS), False)
    return limit


def changed_capacity(rnd, limit):
    limit, algorithm = dict(limit), limit["algorithm"]
    if algorithm == "concurrency":
        limit["slots"] = any_capacity(rnd, limit["slots"])
    elif algorithm == "quota":
        limit["quota"] = any_capacity(rnd, limit["quota"][0]), limit["quota"][1]
    elif "burst" in limit:
        limit["burst"] = any_capacity(rnd, limit["burst"])
    else:
        capacity = any_capacity(rnd, limit["rate"][0])
        limit["rate"] = (min(capacity, LOG_MAX) if algorithm == "sliding_log" else capacity, *limit["rate"][1:])
    return limit


def count_text(count):
    for suffix, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("M", 10**6), ("k", 10**3)):
        if count % factor == 0:
            return f"{count // factor}{suffix}"
    return str(count)


def rate_text(rate):
    count, periods, unit = rate
    if periods == 1 and unit != "ms":
        return f"{count_text(count)}/{unit}"
    return f"{count_text(count)} per {periods}{unit}"


def yaml_lines(limit):
    """One limit as a list entry in block style. Values are JSON, which YAML reads; a default is left out."""
    fields = {name: limit[name] for name in ("name", "key", "when", "algorithm", "mode")}
    if "rate" in limit:
        fields["rate"] = rate_text(limit["rate"])
        if limit.get("burst", limit["rate"][0]) != limit["rate"][0]:
            fields["burst"] = limit["burst"]
    if "quota" in limit:
        fields["quota"] = "{}/{}".format(*limit["quota"])
        fields["time_zone"] = limit["time_zone"]
    if "slots" in limit:
        fields["slots"] = limit["slots"]
        fields["ttl"] = "{}{}".format(*limit["ttl"])
    defaults = {"key": [], "when": {}, "mode": "enforce", "time_zone": "UTC"}
    kept = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()
            if name not in defaults or value != defaults[name]]
    return ["  - " + kept[0]] + ["    " + line for line in kept[1:]]


def yaml_text(limits):
    return "\n".join(["limits:"] + [line for limit in limits for line in yaml_lines(limit)]) + "\n"


def rule_of(limit):
    algorithm = limit["algorithm"]
    if algorithm == "concurrency":
        return model.Rule(algorithm, limit["slots"], ttl_ns=limit["ttl"][0] * NS[limit["ttl"][1]])
    if algorithm == "quota":
        count, unit = limit["quota"]
        return model.Rule(algorithm, count, calendar=model.Calendar.of(unit, limit["time_zone"]))
    count, periods, unit = limit["rate"]
    return model.Rule(algorithm, limit.get("burst", count), count, periods * NS[unit])


def model_of(limit):
    return model.Limit(limit["name"], rule_of(limit), limit["key"], limit["when"], limit["mode"] == "shadow")
