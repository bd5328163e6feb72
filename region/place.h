/* Place: where a counter is answered for, now, and what is known of that member's clock. The router asks for it by
 * partition; tenure.h knows, and in tests a script does.
 *
 * Thread: the owner's. Pure. */
#ifndef HR_REGION_PLACE_H
#define HR_REGION_PLACE_H

#include <stdint.h>

#include "base/hash.h"
#include "base/units.h"

/* The partition of a counter, and of a lease that it gave: the first 12 bits of the id. */
static inline uint32_t hr_place_partition(struct hr_id128 id)
{
    return (uint32_t)(id.hi >> 52);
}

enum hr_place_kind {
    HR_PLACE_HERE,   /* this node answers */
    HR_PLACE_MOVING, /* it is changing hands: keep the request for a moment, and ask again */
    HR_PLACE_AT,     /* another member does */
    HR_PLACE_NOBODY, /* nobody can be asked */
};

struct hr_place {
    enum hr_place_kind kind;
    uint64_t member; /* its id, where the kind is HR_PLACE_AT */
};

/* Of another member's steady clock: it showed `stamp` before this node's own showed `at`. Below 0: nothing is known. */
struct hr_heard {
    hr_ns stamp, at;
};

/* Two clocks' rates differ by less than one part of so many: each may be 1000 ppm off, either way. */
#define HR_CLOCKS_APART 500

/* How old a letter is at most. Its sender had had this node's `stamp` for `ago_ns` when it wrote it; in the rest of the
 * time since the stamp, on this node's clock, the letter may have been on its way. Below 0: that cannot be. */
static inline hr_ns hr_heard_age(hr_ns stamp, hr_ns ago_ns, hr_ns now)
{
    hr_ns since = now - stamp;
    return since < 0 ? -1 : since - ago_ns + since / HR_CLOCKS_APART;
}

/* Who tells. `of` is a function of the partition and the time, cheap enough for every request; `heard` is asked for
 * each letter. */
struct hr_places {
    struct hr_place (*of)(const void *teller, uint32_t partition, hr_ns now);
    struct hr_heard (*heard)(const void *teller, uint64_t member, hr_ns now);
    const void *teller;
};

static inline struct hr_place hr_place_of(const struct hr_places *places, struct hr_id128 id, hr_ns now)
{
    return places->of(places->teller, hr_place_partition(id), now);
}

#endif
