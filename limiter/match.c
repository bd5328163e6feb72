#include "limiter/match.h"

#include <arpa/inet.h>

bool hr_glob_matches(struct hr_span pattern, struct hr_span value)
{
    size_t p = 0, v = 0;
    size_t after_star = SIZE_MAX, retry_from = 0; /* where to go on when the last star must take one more byte */
    while (v < value.bytes) {
        if (p < pattern.bytes && pattern.at[p] == '*') {
            after_star = ++p;
            retry_from = v;
        } else if (p < pattern.bytes && pattern.at[p] == value.at[v]) {
            p++;
            v++;
        } else if (after_star != SIZE_MAX) {
            p = after_star;
            v = ++retry_from;
        } else {
            return false;
        }
    }
    while (p < pattern.bytes && pattern.at[p] == '*') {
        p++;
    }
    return p == pattern.bytes;
}

/* Reads an address. False: value is none. */
static bool read_address(struct hr_span value, struct hr_cidr *ret_address)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* RFC 4291, 2.5.5.2 */
    char text[INET6_ADDRSTRLEN];
    if (value.bytes >= sizeof(text)) {
        return false;
    }
    memcpy(text, value.at, value.bytes);
    text[value.bytes] = '\0';
    struct hr_cidr address = {.family_bytes = 4};
    if (inet_pton(AF_INET, text, address.address) != 1) {
        address.family_bytes = 16;
        if (inet_pton(AF_INET6, text, address.address) != 1) {
            return false;
        }
    }
    if (address.family_bytes == 16 && memcmp(address.address, mapped, sizeof(mapped)) == 0) {
        memmove(address.address, address.address + sizeof(mapped), 4);
        address.family_bytes = 4;
    }
    *ret_address = address;
    return true;
}

bool hr_cidr_matches(const struct hr_cidr *cidr, struct hr_span value)
{
    struct hr_cidr address;
    if (value.bytes == 0 || !read_address(value, &address) || address.family_bytes != cidr->family_bytes) {
        return false;
    }
    size_t whole = cidr->prefix_bits / 8U;
    unsigned rest = cidr->prefix_bits % 8U;
    if (memcmp(address.address, cidr->address, whole) != 0) {
        return false;
    }
    return rest == 0 || (address.address[whole] ^ cidr->address[whole]) >> (8 - rest) == 0;
}

static bool pattern_matches(const struct hr_pattern *pattern, struct hr_span value)
{
    switch (pattern->kind) {
    case HR_MATCH_EXACT:
        return hr_span_equal(pattern->text, value);
    case HR_MATCH_GLOB:
        return hr_glob_matches(pattern->text, value);
    case HR_MATCH_CIDR:
        return hr_cidr_matches(&pattern->cidr, value);
    }
    return false;
}

bool hr_condition_holds(const struct hr_condition *condition, const struct hr_span *value)
{
    bool any = false;
    for (uint32_t i = 0; i < condition->pattern_count && !any; i++) {
        const struct hr_pattern *pattern = &condition->patterns[i];
        any = (value != NULL && pattern_matches(pattern, *value)) != pattern->negated;
    }
    return any != condition->negated;
}
