/* Limiter fixture: a limiter with its memory, limits written in a line each, and requests as text, for tests.
 *
 * Every set of limits is built in memory of its own, which is freed as soon as the next set is loaded: a limiter that
 * still looked into the old one would be caught by the address sanitizer. */
#ifndef HR_TESTS_LIB_LIMITER_FIXTURE_H
#define HR_TESTS_LIB_LIMITER_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/units.h"
#include "limiter/limiter.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* 2023-11-14 22:13:20 UTC, a whole multiple of 100 s. */
#define FIXTURE_START_S INT64_C(1700000000)

#define MS(n) ((n)*HR_NS_PER_MS)
#define SECONDS(n) ((n)*HR_NS_PER_S)
#define DAYS(n) SECONDS((n)*HR_S_PER_DAY)

struct fixture_limit {
    const char *name;
    const char *key;  /* "user plan": attribute names; NULL: one counter for all */
    const char *when; /* "route=payments.* plan=!free": all must hold; NULL: always */
    struct hr_rule rule;
    enum hr_mode mode;
    enum hr_durability durability;
};

struct fixture {
    struct hr_limiter *limiter;
    void *memory;
    struct hr_limiter_sizes sizes;
    struct fixture_set *set;     /* in force */
    struct hr_now now;           /* of the next call: tests move it */
    uint64_t serial;             /* of the last request */
    struct hr_decision decision; /* the last */
};

/* The numbers of a rule. The bucket's burst is apart from its N; period and ttl are in nanoseconds. */
struct hr_rule bucket(enum hr_algorithm algorithm, uint64_t rate, int64_t period_ns, uint64_t burst);
struct hr_rule window(enum hr_algorithm algorithm, uint64_t n, int64_t period_ns); /* also a sliding log */
struct hr_rule quota(uint64_t n, enum hr_calendar_unit unit, const struct hr_zone *zone);
struct hr_rule slots(uint64_t n, int64_t ttl_ns);

/* A rule of capacity n of each algorithm, with a period or ttl of 100 s, or a day. */
struct hr_rule any_rule(enum hr_algorithm algorithm, uint64_t n);
#define ALGORITHM_COUNT (HR_CONCURRENCY + 1)

/* Opens a limiter of these sizes with no limits, at FIXTURE_START_S on both clocks. */
void fixture_open(struct fixture *fixture, struct hr_limiter_sizes sizes);
/* Of sizes that are ample for small tests. */
void fixture_open_ample(struct fixture *fixture);
void fixture_close(struct fixture *fixture);

/* Puts limits in force; fails the test where that fails, or gives the error back. */
void fixture_load(struct fixture *fixture, const struct fixture_limit *limits, size_t count);
enum hr_err fixture_try_load(struct fixture *fixture, const struct fixture_limit *limits, size_t count);

/* Asks with attributes as text, "user=ann plan=pro", under a serial of its own. True: allowed. Fails the test on an
 * error; fixture_try gives the error back. */
bool fixture_take(struct fixture *fixture, const char *attributes, uint64_t cost);
bool fixture_peek(struct fixture *fixture, const char *attributes, uint64_t cost);
enum hr_err fixture_try(struct fixture *fixture, const char *attributes, uint64_t cost);

/* The last decision's row of that limit; fails the test where there is none. */
const struct hr_row *fixture_row(const struct fixture *fixture, const char *name);
/* What that limit has left for a request with these attributes: a peek's word. */
uint64_t fixture_remaining(struct fixture *fixture, const char *attributes, const char *name);
/* The name of the limit that decided; "" where none did. */
const char *fixture_decided_by(const struct fixture *fixture);

/* Lets both clocks run on. */
void fixture_pass(struct fixture *fixture, int64_t ns);
/* Sweeps every cell at least once, at the present. */
void fixture_sweep(struct fixture *fixture);

uint32_t fixture_counters(const struct fixture *fixture);

/* Splits "a=x b=y" at spaces and the first '='; the spans point into text. At most HR_ATTRIBUTES_MAX. */
struct fixture_request {
    struct hr_request request;
    struct hr_attribute attributes[HR_ATTRIBUTES_MAX];
};
void fixture_request(const char *text, uint64_t cost, struct fixture_request *ret_request);

#endif
