/* Secret: what all nodes of a cluster share and nobody else knows. Every keyed hash of the cluster comes from it, so
 * that counters have the same identity on every node, and nobody outside can foresee one.
 *
 * A secret file holds 16 to 4,096 bytes of any kind, not counting one end of line behind them. It must be hard to
 * guess: the output of a generator, not a password. Users other than its owner and group may not read or change it.
 *
 * Thread: any. Reads and writes files. */
#ifndef HR_NODE_SECRET_H
#define HR_NODE_SECRET_H

#include <stdbool.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/span.h"
#include "node/problem.h"

#define HR_SECRET_BYTES_MIN 16
#define HR_SECRET_BYTES_MAX 4096

/* The key that a secret stands for: its BLAKE2b hash of 128 bits (RFC 7693). Pure. */
struct hr_hash_key hr_secret_key(struct hr_span secret);

/* The key of a secret file. False: it cannot be read, is too short or too long, or is open to others; *ret_problem says
 * which. No message ever holds a byte of it. */
HR_MUST bool hr_secret_read(const char *path, struct hr_hash_key *ret_key, struct hr_problem *ret_problem);

/* The key of FOLDER/secret, a secret file that is made of 32 random bytes, in hex, where there is none yet; it is on
 * disk before this returns. Of several that make it at once one wins, and all get its key. Copied to another node it
 * serves as that node's secret_file. The folder exists. */
HR_MUST bool hr_secret_keep(const char *folder, struct hr_hash_key *ret_key, struct hr_problem *ret_problem);

#endif
