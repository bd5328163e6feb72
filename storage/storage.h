/* Storage: what survives this process, and what every store must do.
 *
 * A store holds records: a key of 1 to 64 bytes, whose first says the kind, and a sealed value (record.h). They change
 * only in batches (batch.h), each under a ticket that the caller chose, and a store owes every ticket that it took one
 * result:
 *
 *   1. All or nothing. After any end of the process or the machine, a batch is there whole or not at all.
 *   2. HR_OK means durable: it is on the disk, and any later load sees it, also after a power cut.
 *   3. Any other result means not known to be durable: as a rule the batch is not there; after HR_E_IO it may be,
 * whole. Committing it again is always safe. The store stays usable, and later tickets are tried afresh. HR_E_FULL the
 * disk is full, or the store is as large as it may become: deletes may make room HR_E_IO       the disk failed, or
 * memory ran out HR_E_CORRUPT  the store's own structure is damaged
 *   4. In order. Batches take effect, and tickets are answered, in the order of the commits.
 *   5. Group commit. Batches that wait at the same time may share one transaction. Where that fails, each is tried
 * alone: none fails for another's sake.
 *   6. Bounded. At most HR_STORE_TICKETS_MAX tickets and HR_STORE_QUEUE_BYTES wait; a commit beyond that is refused at
 * once.
 *   7. A record whose checksum is wrong is skipped, counted and never believed; one from a newer version stops the
 * load.
 *
 * Thread: commit may be called from any; load, settle and close from one at a time, and never from inside a callback.
 * The done callback comes on a thread of the store's choosing, with one or more results, and must be quick: the store
 * waits. Implementations: storage_lmdb.h, storage_memory.h. */
#ifndef HR_STORAGE_STORAGE_H
#define HR_STORAGE_STORAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "storage/batch.h"
#include "storage/record.h"

#define HR_STORE_TICKETS_MAX 1024
#define HR_STORE_QUEUE_BYTES (8U << 20) /* also the largest batch */

struct hr_store;

struct hr_store_result {
    uint64_t ticket;
    enum hr_err err;
    uint64_t took_ns; /* how long the transaction took, with those it shared it with */
};

typedef void hr_store_done(void *user, const struct hr_store_result *results, size_t count);

/* Looks at one record, which is borrowed for the call. HR_OK: go on. HR_E_CORRUPT: it makes no sense, count it as bad
 * and go on. Anything else ends the load with that error. */
typedef enum hr_err hr_store_visit(void *user, const struct hr_record *record);

struct hr_store_loaded {
    uint64_t good, bad; /* records */
    uint64_t bad_bytes; /* of those */
};

/* Queues a copy of the batch; of one that is lent, where it is. On error nothing was queued and the ticket gets no
 * result. HR_E_FULL: too much waits, try again after the next result. HR_E_RANGE: larger than the queue ever is. */
HR_MUST enum hr_err hr_store_commit(struct hr_store *store, uint64_t ticket, const struct hr_store_batch *batch);

/* Visits every committed record of the kind, in the order of keys. *ret_loaded is written in any case.
 * HR_E_INVALID: a record from a newer version. HR_E_IO, HR_E_CORRUPT: the store could not be read to its end. */
HR_MUST enum hr_err hr_store_load(struct hr_store *store, enum hr_record_kind kind, hr_store_visit *visit, void *user,
                                  struct hr_store_loaded *ret_loaded);

/* Returns when every ticket given so far has its result. */
void hr_store_settle(struct hr_store *store);

/* Settles, then frees the store. NULL is fine. */
void hr_store_close(struct hr_store *store);

/* For implementations: the first member of each. */
struct hr_store_ops {
    enum hr_err (*commit)(struct hr_store *store, uint64_t ticket, const struct hr_store_batch *batch);
    enum hr_err (*load)(struct hr_store *store, enum hr_record_kind kind, hr_store_visit *visit, void *user,
                        struct hr_store_loaded *loaded);
    void (*settle)(struct hr_store *store);
    void (*close)(struct hr_store *store);
};

struct hr_store {
    const struct hr_store_ops *ops;
};

/* For implementations: rule 7 for one record, the visit included. HR_OK: go on. */
HR_MUST enum hr_err hr_store_offer(struct hr_span key, struct hr_span value, hr_store_visit *visit, void *user,
                                   struct hr_store_loaded *loaded);

#endif
