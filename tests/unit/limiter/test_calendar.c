/* Calendar periods: known ones in the zones with the strangest rules, every second around their changes by the
 * definition, and the tiling of time in all zones at random instants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/units.h"
#include "limiter/calendar.h"
#include "limiter/civil.h"
#include "tests/lib/zoneinfo.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HOUR_S 3600
#define INSTANT_S_MAX INT64_C(9000000000)
#define MONTH(year, month) ((year)*INT64_C(12) + (month)-1)

static struct hr_zone zone;

static const struct {
    const char *name;
    enum hr_calendar_unit unit;
    struct hr_period period;
} known_periods[] = {
    {"UTC", HR_DAY, {0, 0, 86400}},
    {"UTC", HR_DAY, {19782, 1709164800, 1709251200}},              /* 2024-02-29 */
    {"America/New_York", HR_DAY, {19792, 1710046800, 1710129600}}, /* 23 hours */
    {"America/New_York", HR_DAY, {20030, 1730606400, 1730696400}}, /* 25 hours */
    {"America/New_York", HR_DAY, {27464, 2372907600, 2372990400}}, /* 2045-03-12, 23 hours */
    {"America/New_York", HR_DAY, {47540, 4107474000, 4107560400}}, /* 2100-02-28 */
    {"Europe/Berlin", HR_DAY, {19813, 1711839600, 1711922400}},
    {"Europe/Berlin", HR_DAY, {20023, 1729980000, 1730070000}},
    {"Europe/Dublin", HR_DAY, {20023, 1729983600, 1730073600}},
    {"Europe/Dublin", HR_DAY, {84094, 7265721600, 7265804400}}, /* 2200-03-30, 23 hours */
    {"Asia/Kolkata", HR_DAY, {19782, 1709145000, 1709231400}},
    {"Australia/Lord_Howe", HR_DAY, {19820, 1712408400, 1712496600}}, /* 24.5 hours */
    {"Australia/Lord_Howe", HR_DAY, {20002, 1728135000, 1728219600}}, /* 23.5 hours */
    {"America/Sao_Paulo", HR_DAY, {17454, 1508036400, 1508119200}},   /* begins at 01:00 */
    {"America/Sao_Paulo", HR_DAY, {17579, 1518832800, 1518922800}},   /* 23:00 comes twice */
    {"America/St_Johns", HR_DAY, {14682, 1268537400, 1268620200}},    /* 00:01 to 01:01 */
    {"America/St_Johns", HR_DAY, {14919, 1289010600, 1289097000}},    /* ends at its first midnight, */
    {"America/St_Johns", HR_DAY, {14920, 1289097000, 1289187000}},    /* though 00:01 goes back to 23:01 */
    {"Pacific/Apia", HR_DAY, {15337, 1325152800, 1325239200}},        /* 2011-12-29 */
    {"Pacific/Apia", HR_DAY, {15339, 1325239200, 1325325600}},        /* 2011-12-31 follows */
    {"America/Havana", HR_DAY, {19428, 1678597200, 1678680000}},      /* begins at 01:00 */
    {"America/Havana", HR_DAY, {19666, 1699156800, 1699246800}},      /* midnight comes twice */
    {"Africa/Casablanca", HR_DAY, {19792, 1710025200, 1710115200}},
    {"Africa/Casablanca", HR_DAY, {19827, 1713052800, 1713135600}},
    {"Asia/Tehran", HR_DAY, {19073, 1647894600, 1647977400}},
    {"Asia/Tehran", HR_DAY, {19256, 1663702200, 1663792200}},
    {"Asia/Tehran", HR_DAY, {19804, 1711053000, 1711139400}},
    {"Antarctica/Troll", HR_DAY, {19813, 1711843200, 1711922400}}, /* 22 hours */
    {"Antarctica/Troll", HR_DAY, {20023, 1729980000, 1730073600}}, /* 26 hours */

    {"UTC", HR_WEEK, {0, -259200, 345600}},                        /* Monday 1969-12-29 */
    {"America/New_York", HR_WEEK, {2861, 1730088000, 1730696400}}, /* an hour more than seven days */
    {"Europe/Berlin", HR_WEEK, {2870, 1735513200, 1736118000}},    /* from 2024 into 2025 */

    {"UTC", HR_MONTH, {MONTH(1970, 1), 0, 2678400}},
    {"UTC", HR_MONTH, {MONTH(2100, 2), 4105123200, 4107542400}},              /* no leap year */
    {"America/New_York", HR_MONTH, {MONTH(2024, 2), 1706763600, 1709269200}}, /* a leap year */
    {"America/New_York", HR_MONTH, {MONTH(2050, 11), 2550888000, 2553483600}},
    {"Europe/Berlin", HR_MONTH, {MONTH(2024, 10), 1727733600, 1730415600}},
    {"Asia/Kolkata", HR_MONTH, {MONTH(2024, 12), 1732991400, 1735669800}},
    {"Pacific/Apia", HR_MONTH, {MONTH(2011, 12), 1322733600, 1325325600}}, /* 30 days */

    {"UTC", HR_YEAR, {1970, 0, 31536000}},
    {"America/New_York", HR_YEAR, {1969, -31518000, 18000}}, /* where time begins in UTC, it is still 1969 */
    {"America/New_York", HR_YEAR, {2024, 1704085200, 1735707600}},
    {"Asia/Kolkata", HR_YEAR, {2024, 1704047400, 1735669800}},
    {"Pacific/Apia", HR_YEAR, {2011, 1293876000, 1325325600}},

    {"UTC", HR_HOUR, {1709164800, 1709164800, 1709168400}},
    {"Asia/Kolkata", HR_HOUR, {1709145000, 1709145000, 1709148600}},
    {"America/New_York", HR_HOUR, {1710050400, 1710050400, 1710054000}},    /* 01:00; 02:00 does not come */
    {"America/New_York", HR_HOUR, {1710054000, 1710054000, 1710057600}},    /* 03:00 */
    {"America/New_York", HR_HOUR, {1730610000, 1730610000, 1730613600}},    /* 01:00 */
    {"America/New_York", HR_HOUR, {1730613600, 1730613600, 1730617200}},    /* 01:00 again */
    {"Australia/Lord_Howe", HR_HOUR, {1712412000, 1712412000, 1712417400}}, /* 01:30 comes twice: an hour and a half */
    {"Australia/Lord_Howe", HR_HOUR, {1712417400, 1712417400, 1712421000}}, /* 02:00 */
    {"Australia/Lord_Howe", HR_HOUR, {1728142200, 1728142200, 1728144000}}, /* 02:30 to 03:00 */
    {"America/St_Johns", HR_HOUR, {1268537400, 1268537400, 1268537460}},    /* 00:00, the one minute of it */
    {"America/St_Johns", HR_HOUR, {1268537460, 1268537460, 1268541000}},    /* 01:01 */
    {"America/St_Johns", HR_HOUR, {1289097000, 1289097000, 1289097060}},    /* 00:00, one minute */
    {"America/St_Johns", HR_HOUR, {1289097060, 1289097060, 1289100600}},    /* 23:01 */
    {"America/St_Johns", HR_HOUR, {1289100600, 1289100600, 1289104200}},    /* 00:00 again */
    {"Pacific/Apia", HR_HOUR, {1325239200, 1325239200, 1325242800}},
};

static void expect_period(size_t row, struct hr_period got, struct hr_period want)
{
    if (got.number != want.number || got.begin_s != want.begin_s || got.end_s != want.end_s) {
        fail_msg("row %zu: number %lld from %lld to %lld", row, (long long)got.number, (long long)got.begin_s,
                 (long long)got.end_s);
    }
}

static void known_periods_have_their_known_extents(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(known_periods); i++) {
        struct hr_period want = known_periods[i].period;
        enum hr_calendar_unit unit = known_periods[i].unit;
        zoneinfo_load(known_periods[i].name, &zone);
        expect_period(i, hr_period_at(&zone, unit, want.begin_s), want);
        expect_period(i, hr_period_at(&zone, unit, want.begin_s + (want.end_s - want.begin_s) / 2), want);
        expect_period(i, hr_period_at(&zone, unit, want.end_s - 1), want);
        expect_period(i, hr_period_numbered(&zone, unit, want.number), want);
    }
}

static void a_skipped_date_is_a_period_of_no_length(void **state)
{
    (void)state;
    zoneinfo_load("Pacific/Apia", &zone);
    expect_period(0, hr_period_numbered(&zone, HR_DAY, 15338), (struct hr_period){15338, 1325239200, 1325239200});
}

static void no_zone_is_utc(void **state)
{
    (void)state;
    zoneinfo_load("UTC", &zone);
    struct hr_rng rng = {2};
    for (size_t i = 0; i < 1000; i++) {
        int64_t at_s = (int64_t)hr_rng_below(&rng, (uint64_t)INSTANT_S_MAX);
        enum hr_calendar_unit unit = (enum hr_calendar_unit)(i % 5);
        expect_period(i, hr_period_at(NULL, unit, at_s), hr_period_at(&zone, unit, at_s));
    }
}

/* ---- By the definition, second by second ---- */

static int64_t local(int64_t at_s)
{
    return at_s + hr_zone_offset_at(&zone, at_s).offset_s;
}

/* A day has begun once the local clock has shown its midnight or later, whatever it shows after that. */
static void check_days_around(const char *name, int64_t change_s)
{
    int64_t latest_s = INT64_MIN;
    int64_t from_s = change_s - 3 * HR_S_PER_DAY;
    for (int64_t at_s = from_s; at_s < change_s + 2 * HR_S_PER_DAY; at_s++) {
        int64_t now_s = local(at_s);
        int64_t before_s = latest_s;
        latest_s = now_s > latest_s ? now_s : latest_s;
        bool begins = hr_floor_div(latest_s, HR_S_PER_DAY) != hr_floor_div(before_s, HR_S_PER_DAY);
        if (at_s == from_s || (!begins && at_s % 61 != 0)) {
            continue;
        }
        struct hr_period day = hr_period_at(&zone, HR_DAY, at_s);
        if (day.number != hr_floor_div(latest_s, HR_S_PER_DAY) || begins != (day.begin_s == at_s)) {
            fail_msg("%s: not the day at %lld", name, (long long)at_s);
        }
    }
}

static void check_hours_around(const char *name, int64_t change_s)
{
    int64_t from_s = change_s - 3 * HOUR_S;
    for (int64_t at_s = from_s; at_s < change_s + 3 * HOUR_S; at_s++) {
        int64_t now_s = local(at_s);
        bool begins =
            hr_floor_mod(now_s, HOUR_S) == 0 || hr_floor_div(now_s, HOUR_S) != hr_floor_div(local(at_s - 1), HOUR_S);
        struct hr_period hour = hr_period_at(&zone, HR_HOUR, at_s);
        struct hr_period before = hr_period_at(&zone, HR_HOUR, at_s - 1);
        if (begins != (hour.begin_s == at_s) || begins != (before.end_s == at_s)) {
            fail_msg("%s: not the hour at %lld", name, (long long)at_s);
        }
    }
}

static const struct {
    const char *name;
    int64_t change_s;
} changes[] = {
    {"America/New_York", 1710054000},    {"America/New_York", 1730613600},    {"Europe/Dublin", 1729990800},
    {"Australia/Lord_Howe", 1712415600}, {"Australia/Lord_Howe", 1728142200}, {"America/Sao_Paulo", 1508036400},
    {"America/Sao_Paulo", 1518919200},   {"America/St_Johns", 1268537460},    {"America/St_Johns", 1289097060},
    {"Pacific/Apia", 1325239200},        {"America/Havana", 1678597200},      {"America/Havana", 1699160400},
    {"Asia/Tehran", 1663788600},         {"Antarctica/Troll", 1711846800},    {"America/New_York", 2372914800},
    {"Africa/Monrovia", 63593070}, /* to UTC from an offset of 44 minutes and a half */
};

static void days_and_hours_begin_where_the_definition_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        zoneinfo_load(changes[i].name, &zone);
        int64_t change_s = changes[i].change_s;
        assert_int_equal(hr_zone_offset_at(&zone, change_s).since_s, change_s);
        check_days_around(changes[i].name, change_s);
        check_hours_around(changes[i].name, change_s);
    }
}

/* ---- In all zones ---- */

static struct hr_rng property_rng;

static bool same_period(struct hr_period a, struct hr_period b)
{
    return a.number == b.number && a.begin_s == b.begin_s && a.end_s == b.end_s;
}

static bool tiles(const struct hr_zone *checked, enum hr_calendar_unit unit, int64_t at_s)
{
    struct hr_period here = hr_period_at(checked, unit, at_s);
    struct hr_period next = hr_period_at(checked, unit, here.end_s);
    return here.begin_s <= at_s && at_s < here.end_s && same_period(hr_period_at(checked, unit, here.begin_s), here) &&
           same_period(hr_period_at(checked, unit, here.end_s - 1), here) &&
           same_period(hr_period_numbered(checked, unit, here.number), here) && next.begin_s == here.end_s &&
           next.number > here.number;
}

static void check_tiling(const char *name, const struct hr_zone *checked)
{
    for (int i = 0; i < 300; i++) {
        int64_t at_s = (int64_t)hr_rng_below(&property_rng, (uint64_t)INSTANT_S_MAX);
        if (i % 3 == 0 && checked->transition_count > 0) { /* close to a transition */
            at_s = checked->at_s[hr_rng_below(&property_rng, checked->transition_count)] - 90000 + at_s % 180000;
        }
        if (at_s < 0) {
            continue;
        }
        for (enum hr_calendar_unit unit = HR_HOUR; unit <= HR_YEAR; unit++) {
            if (!tiles(checked, unit, at_s)) {
                fail_msg("%s: unit %d does not tile at %lld", name, (int)unit, (long long)at_s);
            }
        }
    }
}

static void periods_tile_time_in_every_zone(void **state)
{
    (void)state;
    property_rng = (struct hr_rng){20240229};
    print_message("seed %llu\n", (unsigned long long)property_rng.state);
    assert_true(zoneinfo_each(check_tiling) > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_periods_have_their_known_extents),
        cmocka_unit_test(a_skipped_date_is_a_period_of_no_length),
        cmocka_unit_test(no_zone_is_utc),
        cmocka_unit_test(days_and_hours_begin_where_the_definition_says),
        cmocka_unit_test(periods_tile_time_in_every_zone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
