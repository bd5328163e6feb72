/* Route sim: several routers with their holds and limiters, on one virtual network, under a virtual clock. Who owns
 * which partition is a script; each node's shard is its limiter alone. What happens follows from the seed.
 *
 * For tests. Memory: the heap's. */
#ifndef HR_TESTS_LIB_ROUTE_SIM_H
#define HR_TESTS_LIB_ROUTE_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "limiter/limiter.h"
#include "region/holds.h"
#include "region/router.h"
#include "rpc/told.h"

#define SIM_NODES_MAX 6
#define SIM_LIMITS_MAX 16
#define SIM_REQUESTS_MAX 8192

struct sim_net {
    hr_ns delay_min, delay_max;
    uint32_t loss_percent, double_percent;
};

/* What a client asked, and was told. */
struct sim_request {
    bool is_asked, is_answered, is_fault;
    uint32_t answers; /* how often it was answered */
    uint64_t cost;
    uint32_t node;
    char attributes[256];
    enum hr_code code;
    struct hr_told_decision decision; /* without rows */
    struct hr_told_row rows[SIM_LIMITS_MAX];
    char decided_by[HR_LIMIT_NAME_BYTES_MAX + 1];
    bool flag;       /* of a release, a renew or a refund */
    char text[4096]; /* of a check_many: the result */
    size_t text_bytes;
    hr_ns asked_at, answered_at;
};

struct sim;

/* `limits`: what every node has. Each has the seed's own member ids and secret. */
struct sim *sim_open(uint64_t seed, uint32_t nodes, const struct hr_limit *limits, uint32_t limit_count,
                     struct sim_net net);
void sim_close(struct sim *sim);

struct hr_now sim_now(const struct sim *sim);
struct hr_rng *sim_rng(struct sim *sim);

/* Partitions are spread over all nodes at first. */
void sim_own(struct sim *sim, uint32_t partition, uint32_t node);
void sim_set_moving(struct sim *sim, uint32_t partition, bool is_moving);
void sim_set_nobody(struct sim *sim, uint32_t partition, bool is_nobody);
uint32_t sim_owner(const struct sim *sim, uint32_t partition);

/* Asks a node; returns the request's number. Attributes as text, "k0=a k1=b". */
uint32_t sim_check(struct sim *sim, uint32_t node, const char *attributes, uint64_t cost, bool peek);
uint32_t sim_refund(struct sim *sim, uint32_t node, const char *attributes, uint64_t cost);
uint32_t sim_lease(struct sim *sim, uint32_t node, enum hr_method method, struct hr_id128 lease);
uint32_t sim_throttle(struct sim *sim, uint32_t node, const char *key);
/* Several checks of cost 1 in one request, their attributes each. */
uint32_t sim_check_many(struct sim *sim, uint32_t node, const char *const *attributes, uint32_t count);
const struct sim_request *sim_request(const struct sim *sim, uint32_t number);
uint32_t sim_request_count(const struct sim *sim);

void sim_run(struct sim *sim, hr_ns ns);

/* A node that is down hears and says nothing, and what it knew is gone when it is up again; its limiter too. */
void sim_crash(struct sim *sim, uint32_t node);
void sim_restart(struct sim *sim, uint32_t node);
bool sim_is_up(const struct sim *sim, uint32_t node);
void sim_cut(struct sim *sim, uint32_t from, uint32_t to, bool is_cut);
void sim_set_net(struct sim *sim, struct sim_net net);

/* What the owner has left of the counter that this limit has for these attributes. */
uint64_t sim_remaining(struct sim *sim, uint32_t limit, const char *attributes);
uint32_t sim_partition(struct sim *sim, uint32_t limit, const char *attributes);

const struct hr_holds *sim_holds(const struct sim *sim, uint32_t node);
const struct hr_router *sim_router(const struct sim *sim, uint32_t node);
struct hr_limiter *sim_limiter(const struct sim *sim, uint32_t node);

#endif
