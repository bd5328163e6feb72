/* Reads bytes as rules of global caps and as an image of a count. What is read is written again as the same bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node/cap_images.h"
#include "node/cap_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct hr_cap_rules rules;
    static uint8_t again[HR_CAP_RULES_BYTES_MAX];
    static struct hr_cap_limit limit;
    struct hr_caps_write write;
    struct hr_span input = {(const char *)data, bytes};
    if (hr_cap_rules_decode(input, &rules) == HR_OK) {
        require(hr_cap_rules_encode(&rules, again) == bytes && memcmp(again, data, bytes) == 0);
        for (uint32_t i = 0; i < rules.count; i++) {
            hr_cap_rule_fill(&rules, &rules.at[i], &limit);
            require((limit.number & ~UINT32_C(1)) == rules.at[i].number);
        }
    }
    if (hr_cap_image_decode(input, &write) == HR_OK) {
        require(hr_cap_image_encode(&write, again) == bytes && memcmp(again, data, bytes) == 0);
    }
    return 0;
}
