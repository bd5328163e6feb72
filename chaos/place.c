#include "chaos/place.h"

#include <stdio.h>

const char *hr_sim_region_name(uint32_t index)
{
    static const char *const names[HR_SIM_REGIONS_MAX] = {"eu", "us", "ap", "sa", "af", "me", "oc", "ca"};
    return names[index];
}

void hr_sim_place_print(struct hr_sim_place place, struct hr_sim_shape shape, char ret_text[HR_SIM_PLACE_BYTES_MAX])
{
    if (place.kind == HR_SIM_PLACE_ALL) {
        (void)snprintf(ret_text, HR_SIM_PLACE_BYTES_MAX, "all");
    } else if (place.kind == HR_SIM_PLACE_REGION) {
        (void)snprintf(ret_text, HR_SIM_PLACE_BYTES_MAX, "%s", hr_sim_region_name(place.index));
    } else {
        (void)snprintf(ret_text, HR_SIM_PLACE_BYTES_MAX, "%s-%u", hr_sim_region_name(place.index / shape.nodes),
                       place.index % shape.nodes + 1);
    }
}

static bool is_named(struct hr_sim_place place, struct hr_sim_shape shape, struct hr_span text)
{
    char name[HR_SIM_PLACE_BYTES_MAX];
    hr_sim_place_print(place, shape, name);
    return hr_span_equal(hr_span_of(name), text);
}

bool hr_sim_place_parse(struct hr_span text, struct hr_sim_shape shape, struct hr_sim_place *ret_place)
{
    *ret_place = (struct hr_sim_place){HR_SIM_PLACE_ALL, 0};
    if (is_named(*ret_place, shape, text)) {
        return true;
    }
    for (uint32_t region = 0; region < shape.regions; region++) {
        *ret_place = (struct hr_sim_place){HR_SIM_PLACE_REGION, region};
        if (is_named(*ret_place, shape, text)) {
            return true;
        }
    }
    for (uint32_t node = 0; node < shape.regions * shape.nodes; node++) {
        *ret_place = (struct hr_sim_place){HR_SIM_PLACE_NODE, node};
        if (is_named(*ret_place, shape, text)) {
            return true;
        }
    }
    return false;
}
