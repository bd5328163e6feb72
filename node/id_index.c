#include "node/id_index.h"

#include <stdalign.h>

void hr_id_index_init(struct hr_id_index *index, uint32_t count_max, struct hr_bump *bump)
{
    uint64_t places = 2;
    while (places < (uint64_t)count_max * 2) {
        places *= 2;
    }
    index->mask = places - 1;
    index->places = hr_bump_take(bump, places, sizeof(struct hr_id_place), alignof(struct hr_id_place));
    if (index->places != NULL) {
        hr_id_index_clear(index);
    }
}

void hr_id_index_clear(struct hr_id_index *index)
{
    for (uint64_t at = 0; at <= index->mask; at++) {
        index->places[at].slot = HR_SLOT_NONE;
    }
}

/* Where id stands, or the empty place where it would. */
static struct hr_id_place *place_of(const struct hr_id_index *index, struct hr_id128 id)
{
    uint64_t at = id.lo & index->mask;
    while (index->places[at].slot != HR_SLOT_NONE && !hr_id128_equal(index->places[at].id, id)) {
        at = (at + 1) & index->mask;
    }
    return &index->places[at];
}

uint32_t hr_id_index_find(const struct hr_id_index *index, struct hr_id128 id)
{
    return (uint32_t)place_of(index, id)->slot;
}

void hr_id_index_insert(struct hr_id_index *index, struct hr_id128 id, uint32_t slot)
{
    *place_of(index, id) = (struct hr_id_place){id, slot};
}

void hr_id_index_erase(struct hr_id_index *index, struct hr_id128 id)
{
    struct hr_id_place *places = index->places;
    uint64_t hole = (uint64_t)(place_of(index, id) - places);
    for (uint64_t at = (hole + 1) & index->mask; places[at].slot != HR_SLOT_NONE; at = (at + 1) & index->mask) {
        uint64_t from_home = (at - (places[at].id.lo & index->mask)) & index->mask;
        uint64_t from_hole = (at - hole) & index->mask;
        if (from_home >= from_hole) { /* a search for it passes the hole */
            places[hole] = places[at];
            hole = at;
        }
    }
    places[hole].slot = HR_SLOT_NONE;
}
