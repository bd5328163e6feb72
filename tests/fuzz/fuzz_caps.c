/* Letters about global caps: whatever comes, a node that reads it stays within its own numbers. The first byte says
 * what kind of limit the counter has; the rest is one letter, read twice. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "region/caps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define LIMIT 3U

struct host {
    struct hr_share share;
    struct hr_escrow escrow;
};

static struct hr_share *share_of(void *context, struct hr_id128 id, uint32_t limit, hr_ns now)
{
    struct host *host = context;
    (void)id;
    (void)limit;
    hr_share_init(&host->share, now);
    return &host->share;
}

static struct hr_escrow *escrow_of(void *context, struct hr_id128 id, uint32_t limit, hr_ns now)
{
    (void)id;
    (void)limit;
    (void)now;
    return &((struct host *)context)->escrow;
}

static struct hr_cover_when when_of(void *context, struct hr_id128 id, uint32_t limit, hr_ns now)
{
    (void)context;
    (void)id;
    (void)limit;
    return (struct hr_cover_when){.label = 4, .age_ns = now % HR_NS_PER_S, .length_ns = HR_NS_PER_S};
}

static struct hr_cap_limit limit_of(uint8_t kind)
{
    static const uint32_t even[] = {1, 1}, uneven[] = {1, 3};
    struct hr_lend_numbers numbers = {1000, (uint64_t)HR_NS_PER_S, kind % 2 == 0 ? 1000 : 2, 200, 0};
    struct hr_cap_limit limit = {.number = LIMIT, .is_cover = kind % 4 > 1};
    const uint32_t *weights = kind % 8 == 5 ? uneven : even;
    if (kind % 8 == 5) { /* few tokens, and slow */
        numbers.rate = 1;
        numbers.burst = 7;
    }
    hr_lend_rule_init(&limit.lend, &numbers, 2, weights);
    limit.cover = (struct hr_cover_rule){
        .total = 1000, .reserve_permille = 200, .has_windows = true, .count = 2, .weights = {1, 1}};
    return limit;
}

static void expect(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void feed(struct hr_caps *caps, struct hr_outbox *outbox, struct hr_span letter, hr_ns now)
{
    struct hr_letter out;
    for (int i = 0; i < 2; i++) {
        if (hr_caps_receive(caps, 2, letter, now) == HR_OK) {
            hr_caps_tick(caps, now + i, outbox);
        }
    }
    hr_caps_tick(caps, now + HR_NS_PER_S, outbox);
    while (hr_outbox_next(outbox, &out)) {
        struct hr_cap_reader reader;
        struct hr_cap_header header;
        expect(hr_cap_read_header(out.body, &reader, &header) == HR_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct hr_caps_config config = {.region_count = 2,
                                                 .counters_max = 4,
                                                 .links_max = 1,
                                                 .limits_max = 1,
                                                 .tick = 100 * HR_NS_PER_MS,
                                                 .lease = 5 * HR_NS_PER_S,
                                                 .incarnation = 1};
    struct host host = {.escrow = {.label = INT64_MIN}};
    struct hr_caps_host calls = {&host, share_of, escrow_of, when_of};
    struct hr_bump measure = {0}, bump = {0};
    struct hr_outbox outbox;
    hr_ns now = 100 * HR_NS_PER_S;
    if (bytes == 0) {
        return 0;
    }
    struct hr_cap_limit limit = limit_of(data[0]);
    (void)hr_caps_init(&config, &calls, &measure, now);
    hr_outbox_init(&outbox, 1 << 16, &measure);
    bump.at = calloc(1, measure.taken);
    expect(bump.at != NULL);
    struct hr_caps *caps = hr_caps_init(&config, &calls, &bump, now);
    hr_outbox_init(&outbox, 1 << 16, &bump);
    hr_caps_own(caps, 0, now, true, 0);
    expect(hr_caps_set_owner(caps, 1, 0, 2) == HR_OK && hr_caps_configure(caps, 1, &limit, 1, now) == HR_OK);
    expect(hr_caps_touch(caps, (struct hr_id128){1, 1}, LIMIT, now) == HR_OK);
    feed(caps, &outbox, (struct hr_span){(const char *)data + 1, bytes - 1}, now + HR_NS_PER_S);
    expect(limit.is_cover || (host.share.level >= 0 && host.share.level <= host.share.price.cap &&
                              host.share.price.cap <= 2 * limit.lend.depth));
    free(bump.at);
    return 0;
}
