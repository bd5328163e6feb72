/* Limits file: limits.yaml (contract, section 2) to an array of valid limits. Strict: an unknown key, a duplicate name
 * or an impossible value is a problem with file, line and column; nothing half-loaded is ever returned.
 *
 * Thread: any, one call at a time. Memory: heap, freed by hr_limits_file_free. Reads the file and the machine's
 * zoneinfo. */
#ifndef HR_NODE_LIMITS_YAML_H
#define HR_NODE_LIMITS_YAML_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "limiter/limit.h"
#include "node/doc_yaml.h"
#include "node/problem.h"

#define HR_LIMITS_FILE_BYTES_MAX HR_DOC_BYTES_MAX

struct hr_limits_file {
    uint32_t limit_count;
    const struct hr_limit *limits; /* all that they point to is owned by this */
};

/* NULL on failure, with *ret_problem filled in. */
struct hr_limits_file *hr_limits_file_load(const char *path, struct hr_problem *ret_problem);

/* The same over bytes in memory; `path` is what problems call it. */
struct hr_limits_file *hr_limits_file_parse(struct hr_span text, const char *path, struct hr_problem *ret_problem);

/* NULL is allowed. */
void hr_limits_file_free(struct hr_limits_file *file);

#endif
