#include "limiter/journal.h"

static uint32_t places(uint32_t counters_max)
{
    uint32_t count = counters_max / HR_JOURNAL_COUNTERS_PER_PLACE;
    count = count < HR_JOURNAL_PLACES_MIN ? HR_JOURNAL_PLACES_MIN : count;
    count = count > HR_JOURNAL_PLACES_MAX ? HR_JOURNAL_PLACES_MAX : count;
    return count > counters_max ? counters_max : count;
}

void hr_journal_init(struct hr_journal *journal, uint32_t counters_max, struct hr_bump *bump)
{
    journal->count_max = places(counters_max);
    journal->noted = hr_bump_take(bump, journal->count_max, sizeof(*journal->noted), 64);
    journal->taken = journal->count = 0;
    journal->round = 1;
}

struct hr_noted *hr_journal_next(struct hr_journal *journal)
{
    while (journal->taken < journal->count) {
        struct hr_noted *noted = &journal->noted[journal->taken++];
        if (noted->version != 0) {
            return noted;
        }
    }
    if (journal->count > 0) {
        journal->taken = journal->count = 0;
        journal->round++;
    }
    return NULL;
}
