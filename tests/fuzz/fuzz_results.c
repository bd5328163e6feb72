/* Feeds arbitrary bytes to the reader of what `headroom-chaos` has printed as JSON. What it has kept must be within its
 * bounds, whether or not it took the line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/results_jansson.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_scenario(const struct hr_results_scenario *scenario)
{
    require(memchr(scenario->name, '\0', sizeof(scenario->name)) != NULL);
    require(scenario->check_count <= HR_RESULTS_CHECKS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct hr_results results = {0};
    enum hr_err err = hr_results_add(&results, (struct hr_span){(const char *)data, bytes});
    require(err == HR_OK || err == HR_E_INVALID);
    require(err != HR_OK || results.sims + results.scenario_count == 1);
    require(results.failure_count <= results.sims_failed && results.sims_failed <= results.sims);
    for (uint32_t i = 0; i < results.scenario_count; i++) {
        check_scenario(&results.scenarios[i]);
    }
    (void)hr_results_held(&results);
    hr_results_deinit(&results);
    return 0;
}
