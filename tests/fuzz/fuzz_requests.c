/* Feeds arbitrary bytes to the decoder of request lines. What it accepts must be within the contract's bounds, and
 * what it refuses must come with words. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "node/command/requests_jansson.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define NUMBER 8

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_request(const struct hr_request *request)
{
    require(request->attribute_count >= 1 && request->attribute_count <= HR_ATTRIBUTES_MAX);
    require(request->cost <= HR_COST_MAX);
    require(request->serial == NUMBER);
    for (uint32_t i = 0; i < request->attribute_count; i++) {
        require(hr_attribute_name_is_valid(request->attributes[i].name));
        require(hr_attribute_value_is_valid(request->attributes[i].value));
        for (uint32_t j = 0; j < i; j++) {
            require(!hr_span_equal(request->attributes[i].name, request->attributes[j].name));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct hr_request_decoder *decoder;
    if (decoder == NULL) {
        decoder = hr_request_decoder_new();
        require(decoder != NULL);
    }
    struct hr_request_line line;
    struct hr_problem problem = {"", ""};
    struct hr_span text = {(const char *)data, bytes};
    if (hr_request_decode(decoder, text, NUMBER, &line, &problem) != HR_OK) {
        require(problem.what[0] != '\0');
        return 0;
    }
    require(line.at_us >= 0 && line.at_us <= HR_TIME_NS_MAX / HR_NS_PER_US);
    require(line.release_line < NUMBER);
    if (line.release_line == 0) {
        check_request(&line.request);
    }
    return 0;
}
