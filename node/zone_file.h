/* Zone files: IANA time zones by name from the machine's zoneinfo, $TZDIR or /usr/share/zoneinfo.
 *
 * A name is [A-Za-z0-9_+/-], relative and without `..`, so that none leads out of that folder.
 * Thread: any, one call at a time for each list. Memory: heap, owned by the list. */
#ifndef HR_NODE_ZONE_FILE_H
#define HR_NODE_ZONE_FILE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/span.h"
#include "limiter/zone.h"

#define HR_ZONE_NAME_BYTES_MAX 64

/* The zones of one limits file: each is read once. Zero-filled is empty. */
struct hr_zone_list {
    struct hr_zone_entry *first;
};

/* UTC is NULL, which every use of a zone takes for UTC. HR_E_NOT_FOUND: no zone of that name. HR_E_MEMORY. Any other:
 * its file is damaged or cannot be read. *ret_zone lives as long as the list. */
HR_MUST enum hr_err hr_zone_list_find(struct hr_zone_list *list, struct hr_span name, const struct hr_zone **ret_zone);

void hr_zone_list_free(struct hr_zone_list *list);

#endif
