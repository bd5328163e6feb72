/* Feeds arbitrary bytes to the reader of limits files. What it accepts must be limits that the limiter can take as
 * valid; what it refuses must come with a reason and a place. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node/limits_yaml.h"

#define INPUT_BYTES_MAX 4096 /* the grammar has no more to show in longer files */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_pattern(const struct hr_pattern *pattern)
{
    bool has_star = pattern->text.bytes > 0 && memchr(pattern->text.at, '*', pattern->text.bytes) != NULL;
    if (pattern->kind == HR_MATCH_CIDR) {
        require(pattern->cidr.family_bytes == 4 || pattern->cidr.family_bytes == 16);
        require(pattern->cidr.prefix_bits <= pattern->cidr.family_bytes * 8);
        return;
    }
    require(hr_attribute_value_is_valid(pattern->text));
    require(has_star == (pattern->kind == HR_MATCH_GLOB));
}

static void check_condition(const struct hr_condition *condition)
{
    require(hr_attribute_name_is_valid(condition->attribute));
    require(condition->pattern_count >= 1 && condition->pattern_count <= HR_PATTERNS_MAX);
    for (uint32_t i = 0; i < condition->pattern_count; i++) {
        check_pattern(&condition->patterns[i]);
    }
}

static void check_limit(const struct hr_limit *limit)
{
    require(hr_limit_name_is_valid(limit->name));
    require(hr_rule_fault(&limit->rule) == NULL);
    require(limit->key_count <= HR_ATTRIBUTES_MAX && limit->when_count <= HR_CONDITIONS_MAX);
    for (uint32_t i = 0; i < limit->key_count; i++) {
        require(hr_attribute_name_is_valid(limit->key[i]));
    }
    for (uint32_t i = 0; i < limit->when_count; i++) {
        check_condition(&limit->when[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct hr_problem problem = {0};
    size_t used = bytes > INPUT_BYTES_MAX ? INPUT_BYTES_MAX : bytes;
    struct hr_limits_file *file = hr_limits_file_parse((struct hr_span){(const char *)data, used}, "f", &problem);
    if (file == NULL) {
        require(problem.what[0] != '\0' && strncmp(problem.where, "f:", 2) == 0);
        return 0;
    }
    require(file->limit_count <= HR_LIMITS_MAX);
    for (uint32_t i = 0; i < file->limit_count; i++) {
        check_limit(&file->limits[i]);
    }
    hr_limits_file_free(file);
    return 0;
}
