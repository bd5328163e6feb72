/* Crew: the workers of one node, each on a thread of its own: letters between them, and the few moments at which they
 * act as one.
 *
 * Letters go through a ring from each worker to each other (ring.h), and a worker is woken once for all that another's
 * turn had to tell it. What concerns the whole node and is rare (its limits, its status, its metrics) is done by one
 * worker while all others stand still between two turns: then it may read and change what is theirs.
 *
 * Thread: as each function says; "the worker's" is the thread of the worker whose number it is given. Memory: heap. */
#ifndef HR_NODE_CREW_UV_H
#define HR_NODE_CREW_UV_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/span.h"
#include "node/config_yaml.h" /* HR_WORKERS_MAX */
#include "node/core.h"

/* Of one ring; a node has one for each ordered pair of workers, and touches little of it while there is little to say.
 */
#define HR_CREW_RING_BYTES (1U << 20)

struct hr_crew;

/* NULL: no memory. count: 2 to HR_WORKERS_MAX. */
HR_MUST struct hr_crew *hr_crew_new(uint32_t count);

/* Requires: all have left. NULL is fine. */
void hr_crew_free(struct hr_crew *crew);

/* Before the loop of `wake` runs, and from its thread before the handle is closed. `wake` is borrowed in between. */
void hr_crew_join(struct hr_crew *crew, uint32_t number, uv_async_t *wake);
void hr_crew_leave(struct hr_crew *crew, uint32_t number);

/* --- letters; the worker's thread --- */

/* Is there room for one more letter of any length, to whomever? It comes as the others go on. */
bool hr_crew_has_room(struct hr_crew *crew, uint32_t from);

/* Requires room. It is on its way when it is published. */
void hr_crew_put(struct hr_crew *crew, uint32_t from, const struct hr_core_letter *letter);

/* Sends what was put, and wakes whom it is for. */
void hr_crew_publish(struct hr_crew *crew, uint32_t from);

/* The next letter for a worker; good until the next call. False: there is none at present. */
bool hr_crew_next(struct hr_crew *crew, uint32_t to, uint32_t *ret_from, enum hr_letter_kind *ret_kind,
                  struct hr_span *ret_body);

/* --- all together --- */

/* Returns when all others stand still; they do until go. The worker's thread: itself it may have to stand still before,
 * where another was first. Not to be nested. */
void hr_crew_stop(struct hr_crew *crew, uint32_t number);
void hr_crew_go(struct hr_crew *crew);

/* To be called in each turn: stands still where another wants it. The worker's thread. */
void hr_crew_yield(struct hr_crew *crew);

/* Tells all workers to drain. Any thread. */
void hr_crew_drain(struct hr_crew *crew);
bool hr_crew_is_draining(const struct hr_crew *crew);

/* How far a drain has come: a worker has answered its clients, and asks the others nothing more; it writes no letter
 * any more. Each worker says so once; one that could not be opened, never. */
enum hr_crew_stage { HR_CREW_ANSWERED, HR_CREW_SILENT, HR_CREW_STAGES };
void hr_crew_reach(struct hr_crew *crew, enum hr_crew_stage stage);
bool hr_crew_have_reached(const struct hr_crew *crew, enum hr_crew_stage stage);

#endif
