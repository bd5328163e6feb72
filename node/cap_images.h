/* Cap images: what the log knows of counts over all regions (region/cover.h), as it is to outlive this node: of the
 * partitions that it answers for, as it was written to the store; of those that it is the standby of, as their owner
 * wrote it; and what comes with a partition that is handed over.
 *
 * A partition's images may be believed only where they are whole: all that its owner wrote is among them. Else whatever
 * was spent in a window that is not here may be forgotten, and the region forfeits it instead (region/caps.h).
 *
 * Thread: the owner's. Pure. Memory: handed in, about 400 bytes an image. */
#ifndef HR_NODE_CAP_IMAGES_H
#define HR_NODE_CAP_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/span.h"
#include "region/caps.h"
#include "region/partition.h"

/* What is known of a partition's images. What was spent before `forgot_at` may be lost all the same; where it is not
 * known yet whether anything was (the region may be new), the partition is virgin. */
enum hr_cap_trust {
    HR_CAP_TRUST_NONE,
    HR_CAP_TRUST_COPY, /* whole: they came from the node that had it */
    HR_CAP_TRUST_OWN,  /* whole, as long as nobody else has had the partition since `epoch` */
};

struct hr_cap_mark {
    uint8_t trust;  /* enum hr_cap_trust */
    bool is_coming; /* a whole copy is on its way here */
    bool is_virgin;
    bool is_founded;      /* nobody had it before this node, in this life */
    uint32_t epoch;       /* OWN: of the partition's seat (region/charter.h) */
    uint64_t log;         /* the life of windows that no image tells of */
    int64_t forgot_at_ns; /* Unix time; 0: nothing is lost */
};

struct hr_cap_kept {
    struct hr_caps_write write;
    uint32_t next;    /* of its chain, or of the free ones */
    bool is_unsaved;  /* the store does not have it, and should */
    bool is_over;     /* it says nothing any more, and is to be deleted */
    bool is_restored; /* region/caps.h has taken it up in this tenure, or gave it */
};

struct hr_cap_images {
    struct hr_cap_kept *all; /* [0] is not used */
    uint32_t count_max, fresh, free_head, used;
    bool has_work; /* some may be unsaved, or over */
    uint32_t *heads;
    uint32_t head_mask;
    struct hr_cap_mark marks[HR_PARTITIONS];
};

void hr_cap_images_init(struct hr_cap_images *images, uint32_t count_max, struct hr_bump *bump);

/* Keeps an image in place of the one of the same counter and window. NULL: no room; the partition is not whole then. */
struct hr_cap_kept *hr_cap_images_put(struct hr_cap_images *images, const struct hr_caps_write *write);

/* One of the counter's images that was not taken up yet; NULL: none. */
struct hr_cap_kept *hr_cap_images_next_unrestored(struct hr_cap_images *images, struct hr_id128 id, uint32_t limit);

/* The images of a partition, from *cursor (0 at first) on; NULL: no more. O(images). */
struct hr_cap_kept *hr_cap_images_next(struct hr_cap_images *images, uint32_t partition, uint32_t *cursor);

/* Those of a partition are over, or to be saved; one is freed. */
void hr_cap_images_end(struct hr_cap_images *images, uint32_t partition);
void hr_cap_images_save(struct hr_cap_images *images, uint32_t partition);
void hr_cap_images_free(struct hr_cap_images *images, struct hr_cap_kept *kept);

/* Bytes of an image, little-endian: HR_CAP_IMAGE_TAG 1, id 16, limit 4, window 1, label 8, life 8, lost 8, charged 8,
 * count 1, then for each region life 8, out 8, out_base 8, in_base 8. */
#define HR_CAP_IMAGE_TAG 'I'
#define HR_CAP_IMAGE_BYTES_MAX (55U + 32U * HR_REGIONS_MAX)
size_t hr_cap_image_encode(const struct hr_caps_write *write, uint8_t out[HR_CAP_IMAGE_BYTES_MAX]);

/* HR_E_CORRUPT: too short or too long, or a number is out of its range. */
HR_MUST enum hr_err hr_cap_image_decode(struct hr_span bytes, struct hr_caps_write *ret_write);

#endif
