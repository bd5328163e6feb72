#include "node/time_text.h"

#include <stdio.h>

#include "base/units.h"
#include "limiter/civil.h"

#define US_MAX (HR_TIME_NS_MAX / HR_NS_PER_US)
#define US_PER_S INT64_C(1000000)

/* What is left to read. Each take_ function moves on by what it took, or is false. */
struct cursor {
    struct hr_span rest;
};

static bool take_char(struct cursor *c, char wanted)
{
    if (c->rest.bytes == 0 || c->rest.at[0] != wanted) {
        return false;
    }
    c->rest.at++;
    c->rest.bytes--;
    return true;
}

static bool take_digit(struct cursor *c, int64_t *ret_digit)
{
    if (c->rest.bytes == 0 || c->rest.at[0] < '0' || c->rest.at[0] > '9') {
        return false;
    }
    *ret_digit = c->rest.at[0] - '0';
    c->rest.at++;
    c->rest.bytes--;
    return true;
}

/* Exactly that many digits, with a value of min to max. */
static bool take_fixed(struct cursor *c, int count, int64_t min, int64_t max, int64_t *ret_value)
{
    int64_t value = 0;
    for (int i = 0; i < count; i++) {
        int64_t digit = 0;
        if (!take_digit(c, &digit)) {
            return false;
        }
        value = value * 10 + digit;
    }
    *ret_value = value;
    return value >= min && value <= max;
}

/* One digit or more, up to max. */
static bool take_whole(struct cursor *c, int64_t max, int64_t *ret_value)
{
    int64_t digit = 0;
    if (!take_digit(c, &digit)) {
        return false;
    }
    int64_t value = digit;
    while (take_digit(c, &digit)) {
        value = value * 10 + digit;
        if (value > max) {
            return false;
        }
    }
    *ret_value = value;
    return true;
}

/* ".5" of a unit, as microseconds; nothing there is 0. False: a dot without digits, or no whole number of microseconds.
 */
static bool take_fraction(struct cursor *c, int64_t unit_us, int64_t *ret_us)
{
    *ret_us = 0;
    if (!take_char(c, '.')) {
        return true;
    }
    int64_t digit = 0, digits = 0, scale = 1;
    bool any = false;
    while (take_digit(c, &digit)) {
        any = true;
        if (scale < US_PER_S) {
            digits = digits * 10 + digit;
            scale *= 10;
        } else if (digit != 0) {
            return false;
        }
    }
    *ret_us = digits * unit_us / scale;
    return any && digits * unit_us % scale == 0;
}

static int64_t unit_us_of(struct hr_span name)
{
    static const struct {
        struct hr_span name;
        int64_t us;
    } units[] = {
        {{"us", 2}, 1},
        {{"ms", 2}, 1000},
        {{"s", 1}, US_PER_S},
        {{"m", 1}, 60 * US_PER_S},
        {{"h", 1}, 3600 * US_PER_S},
        {{"d", 1}, HR_S_PER_DAY * US_PER_S},
    };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (hr_span_equal(units[i].name, name)) {
            return units[i].us;
        }
    }
    return 0;
}

/* The unit stands behind the number, but the number is read in it. */
static struct hr_span unit_of(struct hr_span text)
{
    size_t first = text.bytes;
    while (first > 0 && text.at[first - 1] >= 'a' && text.at[first - 1] <= 'z') {
        first--;
    }
    return (struct hr_span){text.at + first, text.bytes - first};
}

bool hr_duration_parse(struct hr_span text, int64_t *ret_us)
{
    struct hr_span unit = unit_of(text);
    int64_t unit_us = unit_us_of(unit);
    if (unit_us == 0) {
        return false;
    }
    struct cursor c = {{text.at, text.bytes - unit.bytes}};
    int64_t whole = 0, fraction_us = 0;
    if (!take_whole(&c, US_MAX / unit_us, &whole) || !take_fraction(&c, unit_us, &fraction_us) || c.rest.bytes != 0) {
        return false;
    }
    int64_t us = whole * unit_us + fraction_us;
    if (us > US_MAX) {
        return false;
    }
    *ret_us = us;
    return true;
}

/* "2024-02-29" as days since 1970-01-01. */
static bool take_date(struct cursor *c, int64_t *ret_day)
{
    int64_t year = 0, month = 0, day = 0;
    if (!take_fixed(c, 4, 1, 9999, &year) || !take_char(c, '-') || !take_fixed(c, 2, 1, 12, &month) ||
        !take_char(c, '-')) {
        return false;
    }
    int64_t first = hr_civil_month_begin(year, (int)month);
    int64_t length = hr_civil_month_begin(year, (int)month + 1) - first;
    if (!take_fixed(c, 2, 1, length, &day)) {
        return false;
    }
    *ret_day = first + day - 1;
    return true;
}

/* "12:34:56.789" as microseconds of the day. */
static bool take_time(struct cursor *c, int64_t *ret_us)
{
    int64_t hour = 0, minute = 0, second = 0, fraction_us = 0;
    if (!take_fixed(c, 2, 0, 23, &hour) || !take_char(c, ':') || !take_fixed(c, 2, 0, 59, &minute) ||
        !take_char(c, ':') || !take_fixed(c, 2, 0, 59, &second) || !take_fraction(c, US_PER_S, &fraction_us)) {
        return false;
    }
    *ret_us = (hour * 3600 + minute * 60 + second) * US_PER_S + fraction_us;
    return true;
}

/* "Z" or "+01:00": how far local time is ahead of UTC. */
static bool take_offset(struct cursor *c, int64_t *ret_us)
{
    *ret_us = 0;
    if (take_char(c, 'Z')) {
        return true;
    }
    int64_t hour = 0, minute = 0;
    int64_t sign = take_char(c, '-') ? -1 : 1;
    if ((sign > 0 && !take_char(c, '+')) || !take_fixed(c, 2, 0, 23, &hour) || !take_char(c, ':') ||
        !take_fixed(c, 2, 0, 59, &minute)) {
        return false;
    }
    *ret_us = sign * (hour * 60 + minute) * 60 * US_PER_S;
    return true;
}

bool hr_instant_parse(struct hr_span text, int64_t *ret_unix_us)
{
    struct cursor c = {text};
    int64_t day = 0, time_us = 0, offset_us = 0;
    if (!take_date(&c, &day) || !take_char(&c, 'T') || !take_time(&c, &time_us) || !take_offset(&c, &offset_us) ||
        c.rest.bytes != 0) {
        return false;
    }
    int64_t us = day * HR_S_PER_DAY * US_PER_S + time_us - offset_us;
    if (us < 0 || us > US_MAX) {
        return false;
    }
    *ret_unix_us = us;
    return true;
}

/* Seconds with as many decimals as they need. */
static void seconds_text(int64_t ms, char ret_text[HR_WAIT_TEXT_BYTES])
{
    int decimals = 3;
    int64_t fraction = ms % 1000;
    while (decimals > 0 && fraction % 10 == 0) {
        fraction /= 10;
        decimals--;
    }
    if (decimals == 0) {
        (void)snprintf(ret_text, HR_WAIT_TEXT_BYTES, "%llds", (long long)(ms / 1000));
        return;
    }
    (void)snprintf(ret_text, HR_WAIT_TEXT_BYTES, "%lld.%0*llds", (long long)(ms / 1000), decimals, (long long)fraction);
}

static void two_units_text(int64_t ms, char ret_text[HR_WAIT_TEXT_BYTES])
{
    static const struct {
        int64_t ms;
        const char *name;
    } units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}};
    size_t big = 0;
    while (ms < units[big].ms) {
        big++; /* stops at minutes at the latest: the caller has a minute or more */
    }
    int64_t small_count = ms / units[big + 1].ms + (ms % units[big + 1].ms != 0);
    int64_t per_big = units[big].ms / units[big + 1].ms;
    if (small_count % per_big == 0) {
        (void)snprintf(ret_text, HR_WAIT_TEXT_BYTES, "%lld%s", (long long)(small_count / per_big), units[big].name);
        return;
    }
    (void)snprintf(ret_text, HR_WAIT_TEXT_BYTES, "%lld%s %lld%s", (long long)(small_count / per_big), units[big].name,
                   (long long)(small_count % per_big), units[big + 1].name);
}

void hr_wait_text(int64_t wait_ms, char ret_text[HR_WAIT_TEXT_BYTES])
{
    if (wait_ms == HR_NEVER_MS) {
        (void)snprintf(ret_text, HR_WAIT_TEXT_BYTES, "never");
    } else if (wait_ms == 0) {
        (void)snprintf(ret_text, HR_WAIT_TEXT_BYTES, "0");
    } else if (wait_ms < 1000) {
        (void)snprintf(ret_text, HR_WAIT_TEXT_BYTES, "%lldms", (long long)wait_ms);
    } else if (wait_ms < 60000) {
        seconds_text(wait_ms, ret_text);
    } else {
        two_units_text(wait_ms, ret_text);
    }
}
