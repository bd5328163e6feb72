/* The scenarios whose figures are published, and random fault schedules. */
#ifndef HR_CHAOS_CAP_TABLE_H
#define HR_CHAOS_CAP_TABLE_H

#include "chaos/cap_sim/cap_world.h"

/* What a scenario is held to; 0: nothing. */
struct cap_goal {
    uint32_t utilisation_permyriad;
    hr_ns settle;
    uint32_t record_bytes_per_s;
};

struct cap_row {
    struct cap_scenario scenario;
    struct cap_goal goal;
};

uint32_t cap_table_count(void);
void cap_table_row(uint32_t place, struct cap_row *ret_row);

/* A schedule of faults, loads and numbers for the seed. */
void cap_schedule(uint64_t seed, bool is_cover, struct cap_scenario *ret_scenario);

#endif
