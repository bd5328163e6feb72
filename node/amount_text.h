/* Amounts as people write them in a limits file: numbers, percentages, periods, rates and quotas. Whole numbers only,
 * but for percentages; one space or more may stand between a number and what follows it.
 *
 * All: HR_E_INVALID: it is not written like that. HR_E_RANGE: it is, but a number is 0 (a percentage may be) or too
 * large.
 * Thread: any. Memory: none. */
#ifndef HR_NODE_AMOUNT_TEXT_H
#define HR_NODE_AMOUNT_TEXT_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "limiter/calendar.h"

/* "100", "10k", "2 MiB": k, M and G are powers of 1000, KiB, MiB and GiB of 1024. 1 to HR_COST_MAX. */
HR_MUST enum hr_err hr_amount_parse(struct hr_span text, uint64_t *ret_amount);

/* "20%", "2.5%", "0.0001%": at most four decimals, 0% to 100%. In millionths. */
HR_MUST enum hr_err hr_percent_parse(struct hr_span text, uint32_t *ret_ppm);

/* "250ms", "60s", "1m", "1h", "30d". 1 ms to HR_PERIOD_NS_MAX. */
HR_MUST enum hr_err hr_period_parse(struct hr_span text, uint64_t *ret_period_ns);

struct hr_rate {
    uint64_t amount;
    uint64_t period_ns;
};

/* An amount per period: "50/s", "50/m", "50/h", "50/d", "50 per 10s". */
HR_MUST enum hr_err hr_rate_parse(struct hr_span text, struct hr_rate *ret_rate);

struct hr_quota_text {
    uint64_t amount;
    enum hr_calendar_unit unit;
};

/* An amount per calendar period: "1M/hour", "/day", "/week", "/month", "/year". */
HR_MUST enum hr_err hr_quota_parse(struct hr_span text, struct hr_quota_text *ret_quota);

#endif
