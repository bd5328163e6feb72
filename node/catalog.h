/* Catalog: the limits in force on a node: those of its limits file, and over them those that were put or deleted at run
 * time.
 *
 * A limit that was put takes the place of the file's limit of that name, or comes behind all; one that was deleted
 * hides it. Whatever is wrong with a new file or a new limit, the old set stays in force, whole. Changes are prepared
 * first and take effect by commit, so that the shards and the store can be told in between.
 *
 * Thread: one at a time (the node's control plane). Memory: heap. Reads files. */
#ifndef HR_NODE_CATALOG_H
#define HR_NODE_CATALOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "limiter/limit_set.h"
#include "node/problem.h"

struct hr_catalog;

/* limits_path NULL: no limits file. The text is copied. NULL, with the problem filled in: the file is wrong, or memory
 * ran out. */
struct hr_catalog *hr_catalog_new(const char *limits_path, struct hr_problem *ret_problem);
void hr_catalog_free(struct hr_catalog *catalog);

/* The set in force; borrowed until the commit after next. */
const struct hr_limit_set *hr_catalog_set(const struct hr_catalog *catalog);

/* Each prepares a new set: the limits file read anew; a limit put, as JSON (hr_value_to_json); a limit deleted. Limits
 * that stand in no file come in the order of their ordinals, which are unique. NULL: nothing was prepared, and
 * *ret_problem says why. A prepared set that is not committed is dropped by the next one. */
const struct hr_limit_set *hr_catalog_prepare_reload(struct hr_catalog *catalog, struct hr_problem *ret_problem);
const struct hr_limit_set *hr_catalog_prepare_put(struct hr_catalog *catalog, uint64_t ordinal, struct hr_span json,
                                                  struct hr_problem *ret_problem);
const struct hr_limit_set *hr_catalog_prepare_delete(struct hr_catalog *catalog, uint64_t ordinal, struct hr_span name,
                                                     struct hr_problem *ret_problem);

/* Puts the prepared set in force. The one before stays until the next commit. */
void hr_catalog_commit(struct hr_catalog *catalog);

/* The name that a put's JSON gives: to be asked between prepare_put and commit. */
struct hr_span hr_catalog_put_name(const struct hr_catalog *catalog);

/* Does the limits file that is in force have a limit of this name, whatever was changed since? */
bool hr_catalog_is_in_file(const struct hr_catalog *catalog, struct hr_span name);

/* At start: a change as the store has it: the JSON of a limit that was put, or nothing for one that was deleted. False,
 * with the problem filled in: it no longer reads, and is left out. When all are there, prepare_restored prepares the
 * set of them all, once. */
bool hr_catalog_restore(struct hr_catalog *catalog, uint64_t ordinal, struct hr_span name, struct hr_span json,
                        struct hr_problem *ret_problem);
const struct hr_limit_set *hr_catalog_prepare_restored(struct hr_catalog *catalog, struct hr_problem *ret_problem);

#endif
