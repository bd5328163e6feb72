#include "limiter/limit.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/utf8.h"

const char *hr_algorithm_name(enum hr_algorithm algorithm)
{
    static const char *const names[] = {
#define X(value, name) [value] = (name),
        HR_ALGORITHM_LIST(X)
#undef X
    };
    return (size_t)algorithm < sizeof(names) / sizeof(names[0]) ? names[algorithm] : "unknown";
}

static const char *period_fault(uint64_t period_ns)
{
    return period_ns >= 1 && period_ns <= (uint64_t)HR_PERIOD_NS_MAX
               ? NULL
               : "the period must be above 0 and at most 366 days";
}

static const char *bucket_fault(const struct hr_rule *rule)
{
    if (rule->rate < 1 || rule->rate > HR_COST_MAX) {
        return "the rate must be a whole number from 1 to 2^53 - 1";
    }
    return period_fault(rule->period_ns);
}

static const char *log_fault(const struct hr_rule *rule)
{
    if (rule->capacity > HR_LOG_LIMIT_MAX) {
        return "a sliding_log remembers each request: its rate may be at most 100000 per period";
    }
    return period_fault(rule->period_ns);
}

static const char *ttl_fault(const struct hr_rule *rule)
{
    return rule->ttl_ns >= (uint64_t)HR_NS_PER_MS && rule->ttl_ns <= (uint64_t)HR_PERIOD_NS_MAX
               ? NULL
               : "the ttl must be from 1ms to 366 days";
}

static const char *unit_fault(const struct hr_rule *rule)
{
    return (unsigned)rule->unit <= HR_YEAR ? NULL : "a quota's period must be hour, day, week, month or year";
}

const char *hr_rule_fault(const struct hr_rule *rule)
{
    if (rule->capacity < 1 || rule->capacity > HR_COST_MAX) {
        return "the limit must be a whole number from 1 to 2^53 - 1";
    }
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        return bucket_fault(rule);
    case HR_FIXED_WINDOW:
    case HR_SLIDING_WINDOW:
        return period_fault(rule->period_ns);
    case HR_SLIDING_LOG:
        return log_fault(rule);
    case HR_QUOTA:
        return unit_fault(rule);
    case HR_CONCURRENCY:
        return ttl_fault(rule);
    }
    return "the algorithm is unknown";
}

/* Which names each byte may be a part of. */
enum { LIMIT = 1, ATTRIBUTE = 2, BOTH = LIMIT | ATTRIBUTE };

static const uint8_t name_bytes[256] = {
    ['-'] = BOTH, ['.'] = ATTRIBUTE, ['_'] = ATTRIBUTE, ['a'] = BOTH, ['b'] = BOTH, ['c'] = BOTH, ['d'] = BOTH,
    ['e'] = BOTH, ['f'] = BOTH,      ['g'] = BOTH,      ['h'] = BOTH, ['i'] = BOTH, ['j'] = BOTH, ['k'] = BOTH,
    ['l'] = BOTH, ['m'] = BOTH,      ['n'] = BOTH,      ['o'] = BOTH, ['p'] = BOTH, ['q'] = BOTH, ['r'] = BOTH,
    ['s'] = BOTH, ['t'] = BOTH,      ['u'] = BOTH,      ['v'] = BOTH, ['w'] = BOTH, ['x'] = BOTH, ['y'] = BOTH,
    ['z'] = BOTH, ['0'] = BOTH,      ['1'] = BOTH,      ['2'] = BOTH, ['3'] = BOTH, ['4'] = BOTH, ['5'] = BOTH,
    ['6'] = BOTH, ['7'] = BOTH,      ['8'] = BOTH,      ['9'] = BOTH};

static bool is_name(struct hr_span name, size_t bytes_max, uint8_t kind)
{
    uint8_t kinds = kind;
    if (name.bytes < 1 || name.bytes > bytes_max) {
        return false;
    }
    for (size_t i = 0; i < name.bytes; i++) {
        kinds &= name_bytes[(uint8_t)name.at[i]];
    }
    return kinds != 0;
}

bool hr_limit_name_is_valid(struct hr_span name)
{
    return is_name(name, HR_LIMIT_NAME_BYTES_MAX, LIMIT);
}

bool hr_attribute_name_is_valid(struct hr_span name)
{
    return is_name(name, HR_ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE);
}

bool hr_attribute_value_is_valid(struct hr_span value)
{
    if (value.bytes > HR_ATTRIBUTE_VALUE_BYTES_MAX) {
        return false;
    }
    return hr_utf8_is_plain(value) ||
           (hr_utf8_is_valid(value) && (value.bytes == 0 || memchr(value.at, '\0', value.bytes) == NULL));
}

/* One to three digits without a leading zero, up to bits_max. */
static bool read_prefix(struct hr_span text, unsigned bits_max, uint8_t *ret_bits)
{
    unsigned bits = 0;
    if (text.bytes < 1 || text.bytes > 3 || (text.bytes > 1 && text.at[0] == '0')) {
        return false;
    }
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return false;
        }
        bits = bits * 10 + (unsigned)(text.at[i] - '0');
    }
    *ret_bits = (uint8_t)bits;
    return bits <= bits_max;
}

static bool read_address(struct hr_span text, struct hr_cidr *cidr)
{
    char copy[INET6_ADDRSTRLEN];
    if (text.bytes == 0 || text.bytes >= sizeof(copy) || memchr(text.at, '\0', text.bytes) != NULL) {
        return false;
    }
    memcpy(copy, text.at, text.bytes);
    copy[text.bytes] = '\0';
    cidr->family_bytes = memchr(copy, ':', text.bytes) == NULL ? 4 : 16;
    return inet_pton(cidr->family_bytes == 4 ? AF_INET : AF_INET6, copy, cidr->address) == 1;
}

/* An IPv4 network written as IPv6 (RFC 4291, 2.5.5.2) is that IPv4 network, as addresses are when they are matched. */
static void unmap(struct hr_cidr *cidr)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (cidr->family_bytes != 16 || cidr->prefix_bits < 96 || memcmp(cidr->address, mapped, sizeof(mapped)) != 0) {
        return;
    }
    memmove(cidr->address, cidr->address + sizeof(mapped), 4);
    memset(cidr->address + 4, 0, sizeof(cidr->address) - 4);
    cidr->family_bytes = 4;
    cidr->prefix_bits = (uint8_t)(cidr->prefix_bits - 96);
}

static bool has_host_bits(const struct hr_cidr *cidr)
{
    for (unsigned bit = cidr->prefix_bits; bit < cidr->family_bytes * 8U; bit++) {
        if ((cidr->address[bit / 8] >> (7 - bit % 8) & 1) != 0) {
            return true;
        }
    }
    return false;
}

enum hr_err hr_cidr_parse(struct hr_span text, struct hr_cidr *ret_cidr)
{
    struct hr_cidr cidr = {0};
    const char *slash = text.bytes == 0 ? NULL : memchr(text.at, '/', text.bytes);
    if (slash == NULL) {
        return HR_E_INVALID;
    }
    struct hr_span address = {text.at, (size_t)(slash - text.at)};
    struct hr_span prefix = {slash + 1, text.bytes - address.bytes - 1};
    if (!read_address(address, &cidr) || !read_prefix(prefix, cidr.family_bytes * 8U, &cidr.prefix_bits)) {
        return HR_E_INVALID;
    }
    if (has_host_bits(&cidr)) {
        return HR_E_RANGE;
    }
    unmap(&cidr);
    *ret_cidr = cidr;
    return HR_OK;
}
