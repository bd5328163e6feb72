/* Record: the bytes under which one thing is kept.
 *
 * A key is one byte that says the kind, then up to 63 bytes that say which. A value is
 *
 *     0  version   u8   HR_RECORD_VERSION
 *     1  kind      u8   the key's first byte again
 *     2  reserved  u16  zero
 *     4  checksum  u64  XXH3 of bytes 0 to 3 and the payload, seeded with XXH3 of the key
 *    12  payload        up to 64 KiB, laid out by its kind (images.h, identity.h)
 *
 * in little-endian. The seed ties a value to its key: a value that turns up under another key, or whose key was
 * damaged, is found out like any other damage. Later versions keep these twelve bytes where they are, and the checksum,
 * so that damage and a newer version can always be told apart.
 *
 * Thread: any. Pure. Memory: the caller's. */
#ifndef HR_STORAGE_RECORD_H
#define HR_STORAGE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/span.h"

#define HR_RECORD_VERSION 1
#define HR_RECORD_HEAD_BYTES 12
#define HR_RECORD_PAYLOAD_BYTES_MAX 65536
#define HR_RECORD_BYTES_MAX (HR_RECORD_HEAD_BYTES + HR_RECORD_PAYLOAD_BYTES_MAX)
#define HR_STORE_KEY_BYTES_MAX 64

/* On disk: never renumbered. */
enum hr_record_kind {
    HR_RECORD_META = 1,    /* about the store itself */
    HR_RECORD_LIMIT = 2,   /* a limit that was put at run time, by the limit's id */
    HR_RECORD_COUNTER = 3, /* a segment of the log of counters, by its number */
    HR_RECORD_LEASE = 4,   /* by the lease's id */
    HR_RECORD_REPLY = 5,   /* the first answer to a request, by the id that makes its retry safe */
    HR_RECORD_TENURE = 6,  /* what a node of a region has agreed to (region/tenure.h) */
    HR_RECORD_CAP = 7,     /* what a node knows of global caps (node/cap_keeper.h) */
};

struct hr_store_key {
    uint8_t bytes;                      /* in use, 1 or more */
    uint8_t at[HR_STORE_KEY_BYTES_MAX]; /* the kind, then which */
};

/* HR_E_RANGE: more than 63 bytes. */
HR_MUST enum hr_err hr_store_key_make(enum hr_record_kind kind, struct hr_span which, struct hr_store_key *ret_key);

/* The key of what goes by a 128-bit id. The id is big-endian here, so that keys are ordered as ids are. */
struct hr_store_key hr_store_key_of_id(enum hr_record_kind kind, struct hr_id128 id);

static inline struct hr_span hr_store_key_span(const struct hr_store_key *key)
{
    return (struct hr_span){(const char *)key->at, key->bytes};
}

struct hr_record {
    enum hr_record_kind kind;
    struct hr_span key; /* the kind's byte included */
    struct hr_span payload;
};

/* Writes the value of a record, HR_RECORD_HEAD_BYTES + payload.bytes long, at `out`, which has that room and does not
 * overlap the payload. Requires: payload.bytes is at most HR_RECORD_PAYLOAD_BYTES_MAX. */
void hr_record_encode(const struct hr_store_key *key, struct hr_span payload, uint8_t *out);

/* Takes a key and its value apart; the record points into both.
 * HR_E_CORRUPT: damaged, never to be believed. HR_E_INVALID: whole, but from a newer version. */
HR_MUST enum hr_err hr_record_decode(struct hr_span key, struct hr_span value, struct hr_record *ret_record);

#endif
