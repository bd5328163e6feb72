#include "node/amount_text.h"

#include <string.h>

#include "base/units.h"

struct unit {
    const char *name;
    uint64_t times;
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define PPM_PER_PERCENT 10000

static const struct unit amount_units[] = {
    {"", 1},
    {"k", UINT64_C(1000)},
    {"M", UINT64_C(1000000)},
    {"G", UINT64_C(1000000000)},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
};

static const struct unit period_units[] = {
    {"ms", (uint64_t)HR_NS_PER_MS},      {"s", (uint64_t)HR_NS_PER_S},         {"m", (uint64_t)HR_NS_PER_S * 60},
    {"h", (uint64_t)HR_NS_PER_S * 3600}, {"d", (uint64_t)HR_NS_PER_S * 86400},
};

static struct hr_span trim(struct hr_span text)
{
    while (text.bytes > 0 && text.at[0] == ' ') {
        text.at++;
        text.bytes--;
    }
    while (text.bytes > 0 && text.at[text.bytes - 1] == ' ') {
        text.bytes--;
    }
    return text;
}

static const struct unit *find_unit(const struct unit *units, size_t count, struct hr_span name)
{
    for (size_t i = 0; i < count; i++) {
        if (hr_span_equal(hr_span_of(units[i].name), name)) {
            return &units[i];
        }
    }
    return NULL;
}

/* Digits with no leading zero, which some would read as octal; more than fit saturate at UINT64_MAX. */
static size_t read_digits(struct hr_span text, uint64_t *ret_number)
{
    size_t used = 0;
    uint64_t number = 0;
    while (used < text.bytes && text.at[used] >= '0' && text.at[used] <= '9') {
        uint64_t digit = (uint64_t)(text.at[used++] - '0');
        number = number > (UINT64_MAX - digit) / 10 ? UINT64_MAX : number * 10 + digit;
    }
    *ret_number = number;
    return used > 1 && text.at[0] == '0' ? 0 : used;
}

/* A number and one of the units, up to max in all. */
static enum hr_err read_quantity(struct hr_span text, const struct unit *units, size_t unit_count, uint64_t max,
                                 uint64_t *ret_quantity)
{
    uint64_t number;
    text = trim(text);
    size_t used = read_digits(text, &number);
    if (used == 0) {
        return HR_E_INVALID;
    }
    const struct unit *unit = find_unit(units, unit_count, trim((struct hr_span){text.at + used, text.bytes - used}));
    if (unit == NULL) {
        return HR_E_INVALID;
    }
    if (number == 0 || number > max / unit->times) {
        return HR_E_RANGE;
    }
    *ret_quantity = number * unit->times;
    return HR_OK;
}

enum hr_err hr_amount_parse(struct hr_span text, uint64_t *ret_amount)
{
    return read_quantity(text, amount_units, COUNT_OF(amount_units), HR_COST_MAX, ret_amount);
}

enum hr_err hr_period_parse(struct hr_span text, uint64_t *ret_period_ns)
{
    return read_quantity(text, period_units, COUNT_OF(period_units), (uint64_t)HR_PERIOD_NS_MAX, ret_period_ns);
}

/* The one to four digits behind the point of a percentage, in millionths of the whole: "5" is 5,000. */
static bool read_decimals(struct hr_span text, uint64_t *ret_ppm)
{
    uint64_t ppm = 0, worth = PPM_PER_PERCENT;
    if (text.bytes < 1 || text.bytes > 4) {
        return false;
    }
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return false;
        }
        worth /= 10;
        ppm += worth * (uint64_t)(text.at[i] - '0');
    }
    *ret_ppm = ppm;
    return true;
}

enum hr_err hr_percent_parse(struct hr_span text, uint32_t *ret_ppm)
{
    uint64_t percent, decimals = 0;
    text = trim(text);
    if (text.bytes == 0 || text.at[text.bytes - 1] != '%') {
        return HR_E_INVALID;
    }
    text = trim((struct hr_span){text.at, text.bytes - 1});
    size_t used = read_digits(text, &percent);
    bool has_point = used > 0 && used < text.bytes && text.at[used] == '.';
    if (used == 0 || (used < text.bytes && !has_point) ||
        (has_point && !read_decimals((struct hr_span){text.at + used + 1, text.bytes - used - 1}, &decimals))) {
        return HR_E_INVALID;
    }
    if (percent > 100 || (percent == 100 && decimals > 0)) {
        return HR_E_RANGE;
    }
    *ret_ppm = (uint32_t)(percent * PPM_PER_PERCENT + decimals);
    return HR_OK;
}

/* Splits text around the first `mark`. */
static bool split(struct hr_span text, struct hr_span mark, struct hr_span *ret_before, struct hr_span *ret_after)
{
    const char *at = text.bytes == 0 ? NULL : memmem(text.at, text.bytes, mark.at, mark.bytes);
    if (at == NULL) {
        return false;
    }
    *ret_before = (struct hr_span){text.at, (size_t)(at - text.at)};
    *ret_after = (struct hr_span){at + mark.bytes, text.bytes - ret_before->bytes - mark.bytes};
    return true;
}

/* After a slash stands a bare unit of a second or more. */
static enum hr_err read_unit_period(struct hr_span name, uint64_t *ret_period_ns)
{
    const struct unit *unit = find_unit(period_units, COUNT_OF(period_units), trim(name));
    if (unit == NULL || unit->times < (uint64_t)HR_NS_PER_S) {
        return HR_E_INVALID;
    }
    *ret_period_ns = unit->times;
    return HR_OK;
}

enum hr_err hr_rate_parse(struct hr_span text, struct hr_rate *ret_rate)
{
    struct hr_span amount, period;
    struct hr_rate rate;
    enum hr_err period_err;
    if (split(text, HR_SPAN("/"), &amount, &period)) {
        period_err = read_unit_period(period, &rate.period_ns);
    } else if (split(text, HR_SPAN(" per "), &amount, &period)) {
        period_err = hr_period_parse(period, &rate.period_ns);
    } else {
        return HR_E_INVALID;
    }
    enum hr_err amount_err = hr_amount_parse(amount, &rate.amount);
    if (period_err == HR_E_INVALID || amount_err == HR_E_INVALID) {
        return HR_E_INVALID;
    }
    if (period_err != HR_OK || amount_err != HR_OK) {
        return HR_E_RANGE;
    }
    *ret_rate = rate;
    return HR_OK;
}

enum hr_err hr_quota_parse(struct hr_span text, struct hr_quota_text *ret_quota)
{
    static const struct unit calendar_units[] = {
        {"hour", HR_HOUR}, {"day", HR_DAY}, {"week", HR_WEEK}, {"month", HR_MONTH}, {"year", HR_YEAR},
    };
    struct hr_span amount, period;
    uint64_t number;
    if (!split(text, HR_SPAN("/"), &amount, &period)) {
        return HR_E_INVALID;
    }
    const struct unit *unit = find_unit(calendar_units, COUNT_OF(calendar_units), trim(period));
    if (unit == NULL) {
        return HR_E_INVALID;
    }
    enum hr_err err = hr_amount_parse(amount, &number);
    if (err == HR_OK) {
        *ret_quota = (struct hr_quota_text){number, (enum hr_calendar_unit)unit->times};
    }
    return err;
}
