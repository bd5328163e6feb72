/* Feeds arbitrary bytes to the TZif decoder. A zone that it accepts must give offsets and periods that tile time. */
#include <stdint.h>
#include <stdlib.h>

#include "limiter/calendar.h"
#include "limiter/zone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_offset(const struct hr_zone *zone, int64_t at_s)
{
    struct hr_zone_offset offset = hr_zone_offset_at(zone, at_s);
    require(offset.offset_s > -HR_ZONE_OFFSET_S_MAX && offset.offset_s < HR_ZONE_OFFSET_S_MAX);
    require(offset.since_s <= at_s && at_s < offset.until_s);
    require(offset.until_s == INT64_MAX || hr_zone_offset_at(zone, offset.until_s - 1).offset_s == offset.offset_s);
    require(offset.since_s == INT64_MIN || hr_zone_offset_at(zone, offset.since_s).offset_s == offset.offset_s);
}

static void check_period(const struct hr_zone *zone, enum hr_calendar_unit unit, int64_t at_s)
{
    struct hr_period here = hr_period_at(zone, unit, at_s);
    require(here.begin_s <= at_s && at_s < here.end_s);
    struct hr_period again = hr_period_numbered(zone, unit, here.number);
    require(again.begin_s == here.begin_s && again.end_s == here.end_s);
    struct hr_period next = hr_period_at(zone, unit, here.end_s);
    require(next.begin_s == here.end_s && next.number > here.number);
    require(hr_period_at(zone, unit, here.begin_s).number == here.number);
    require(hr_period_at(zone, unit, here.end_s - 1).number == here.number);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct hr_zone zone;
    static const int64_t instants_s[] = {0, 1710054000, 1730613600, 4107474000, 8999999999};
    if (hr_zone_parse((struct hr_span){(const char *)data, bytes}, &zone) != HR_OK) {
        return 0;
    }
    for (size_t i = 0; i < sizeof instants_s / sizeof instants_s[0]; i++) {
        check_offset(&zone, instants_s[i]);
        for (enum hr_calendar_unit unit = HR_HOUR; unit <= HR_YEAR; unit++) {
            check_period(&zone, unit, instants_s[i]);
        }
    }
    for (size_t i = 0; i < zone.transition_count; i++) { /* where things change */
        if (zone.at_s[i] >= 0 && zone.at_s[i] < 9000000000) {
            check_offset(&zone, zone.at_s[i]);
            check_period(&zone, HR_HOUR, zone.at_s[i]);
            check_period(&zone, HR_DAY, zone.at_s[i]);
        }
    }
    return 0;
}
