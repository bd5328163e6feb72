/* Place: where a counter is answered for, now. The router asks for it by partition; tenure.h knows, and in tests a
 * script does.
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

/* Who tells. `of` is a function of the partition and the time, cheap enough for every request. */
struct hr_places {
    struct hr_place (*of)(const void *teller, uint32_t partition, hr_ns now);
    const void *teller;
};

static inline struct hr_place hr_place_of(const struct hr_places *places, struct hr_id128 id, hr_ns now)
{
    return places->of(places->teller, hr_place_partition(id), now);
}

#endif
