#include "node/crew_uv.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "node/ring.h"

static_assert(HR_CORE_LETTER_BYTES_MAX <= HR_CREW_RING_BYTES / 2 - 16, "a letter fits a ring");

/* What one worker keeps for itself. */
struct seat {
    alignas(HR_RING_LINE_BYTES) uint32_t from; /* whose ring it reads next */
};

struct hr_crew {
    uint32_t count;
    struct hr_ring *rings; /* [from * count + to] */
    uint8_t *memory;       /* of all rings */
    struct seat *seats;
    _Atomic bool is_draining;
    _Atomic uint32_t reached[HR_CREW_STAGES];
    _Atomic bool wants_stop; /* is_stopped, for those who look without the lock */
    uv_mutex_t lock;
    uv_cond_t changed;
    uint32_t joined; /* under the lock, as all below */
    uint32_t parked; /* who stand still */
    bool is_stopped;
    uv_async_t *wakes[HR_WORKERS_MAX]; /* NULL: has not joined, or has left. Letters read it without the lock */
};

/* --- memory --- */

static void free_memory(struct hr_crew *crew)
{
    free(crew->rings);
    free(crew->memory);
    free(crew->seats);
    free(crew);
}

static struct hr_ring *ring_of(const struct hr_crew *crew, uint32_t from, uint32_t to)
{
    return &crew->rings[from * crew->count + to];
}

static bool take_memory(struct hr_crew *crew)
{
    size_t rings = (size_t)crew->count * crew->count;
    crew->rings = aligned_alloc(HR_RING_LINE_BYTES, rings * sizeof(*crew->rings));
    crew->memory = malloc(rings * HR_CREW_RING_BYTES);
    crew->seats = aligned_alloc(HR_RING_LINE_BYTES, crew->count * sizeof(*crew->seats));
    if (crew->rings == NULL || crew->memory == NULL || crew->seats == NULL) {
        return false;
    }
    for (size_t i = 0; i < rings; i++) {
        hr_ring_init(&crew->rings[i], crew->memory + i * HR_CREW_RING_BYTES, HR_CREW_RING_BYTES);
    }
    for (uint32_t i = 0; i < crew->count; i++) {
        crew->seats[i].from = 0;
    }
    return true;
}

struct hr_crew *hr_crew_new(uint32_t count)
{
    assert(count >= 2 && count <= HR_WORKERS_MAX);
    struct hr_crew *crew = calloc(1, sizeof(*crew));
    if (crew == NULL) {
        return NULL;
    }
    crew->count = count;
    if (!take_memory(crew) || uv_mutex_init(&crew->lock) != 0) {
        free_memory(crew);
        return NULL;
    }
    if (uv_cond_init(&crew->changed) != 0) {
        uv_mutex_destroy(&crew->lock);
        free_memory(crew);
        return NULL;
    }
    return crew;
}

void hr_crew_free(struct hr_crew *crew)
{
    if (crew != NULL) {
        uv_cond_destroy(&crew->changed);
        uv_mutex_destroy(&crew->lock);
        free_memory(crew);
    }
}

void hr_crew_join(struct hr_crew *crew, uint32_t number, uv_async_t *wake)
{
    uv_mutex_lock(&crew->lock);
    crew->wakes[number] = wake;
    crew->joined++;
    uv_mutex_unlock(&crew->lock);
}

void hr_crew_leave(struct hr_crew *crew, uint32_t number)
{
    uv_mutex_lock(&crew->lock);
    crew->wakes[number] = NULL;
    crew->joined--;
    uv_cond_broadcast(&crew->changed);
    uv_mutex_unlock(&crew->lock);
}

/* --- letters --- */

bool hr_crew_has_room(struct hr_crew *crew, uint32_t from)
{
    for (uint32_t to = 0; to < crew->count; to++) {
        if (to != from && !hr_ring_has_room(ring_of(crew, from, to), HR_CORE_LETTER_BYTES_MAX)) {
            return false;
        }
    }
    return true;
}

void hr_crew_put(struct hr_crew *crew, uint32_t from, const struct hr_core_letter *letter)
{
    bool is_put = hr_ring_put(ring_of(crew, from, letter->to), (uint8_t)letter->kind, letter->body);
    assert(is_put); /* room was seen to */
    (void)is_put;
}

/* Nobody leaves before all are silent (HR_CREW_SILENT), so whoever is written to can be woken without the lock. The
 * fence: before version 1.53 libuv looks whether a wake is on its way already by a load that may overtake the store of
 * what was published, and would then leave the wake out while the other side has just looked in vain. */
void hr_crew_publish(struct hr_crew *crew, uint32_t from)
{
    for (uint32_t to = 0; to < crew->count; to++) {
        if (to != from && hr_ring_publish(ring_of(crew, from, to)) && crew->wakes[to] != NULL) {
            __sync_synchronize();
            (void)uv_async_send(crew->wakes[to]); /* fails only for what is no async handle */
        }
    }
}

bool hr_crew_next(struct hr_crew *crew, uint32_t to, uint32_t *ret_from, enum hr_letter_kind *ret_kind,
                  struct hr_span *ret_body)
{
    struct seat *seat = &crew->seats[to];
    uint8_t kind;
    for (uint32_t tried = 0; tried < crew->count; tried++) {
        if (hr_ring_next(ring_of(crew, seat->from, to), &kind, ret_body)) {
            *ret_from = seat->from;
            *ret_kind = (enum hr_letter_kind)kind;
            return true;
        }
        seat->from = (seat->from + 1) % crew->count;
    }
    return false;
}

/* --- all together --- */

/* Requires the lock. */
static void stand_still(struct hr_crew *crew)
{
    crew->parked++;
    uv_cond_broadcast(&crew->changed);
    while (crew->is_stopped) {
        uv_cond_wait(&crew->changed, &crew->lock);
    }
    crew->parked--;
}

/* Requires the lock: who has joined has not left, and so its handle is not closing. */
static void wake_all(const struct hr_crew *crew)
{
    for (uint32_t i = 0; i < crew->count; i++) {
        if (crew->wakes[i] != NULL) {
            (void)uv_async_send(crew->wakes[i]); /* fails only for what is no async handle */
        }
    }
}

void hr_crew_stop(struct hr_crew *crew, uint32_t number)
{
    uv_mutex_lock(&crew->lock);
    while (crew->is_stopped) {
        stand_still(crew);
    }
    crew->is_stopped = true;
    atomic_store(&crew->wants_stop, true);
    wake_all(crew);
    while (crew->parked + (crew->wakes[number] != NULL ? 1 : 0) < crew->joined) {
        uv_cond_wait(&crew->changed, &crew->lock);
    }
    uv_mutex_unlock(&crew->lock);
}

void hr_crew_go(struct hr_crew *crew)
{
    uv_mutex_lock(&crew->lock);
    crew->is_stopped = false;
    atomic_store(&crew->wants_stop, false);
    uv_cond_broadcast(&crew->changed);
    uv_mutex_unlock(&crew->lock);
}

void hr_crew_yield(struct hr_crew *crew)
{
    if (!atomic_load_explicit(&crew->wants_stop, memory_order_relaxed)) {
        return;
    }
    uv_mutex_lock(&crew->lock);
    if (crew->is_stopped) {
        stand_still(crew);
    }
    uv_mutex_unlock(&crew->lock);
}

void hr_crew_drain(struct hr_crew *crew)
{
    if (atomic_exchange(&crew->is_draining, true)) {
        return;
    }
    uv_mutex_lock(&crew->lock);
    wake_all(crew);
    uv_mutex_unlock(&crew->lock);
}

bool hr_crew_is_draining(const struct hr_crew *crew)
{
    return atomic_load_explicit(&crew->is_draining, memory_order_relaxed);
}

void hr_crew_reach(struct hr_crew *crew, enum hr_crew_stage stage)
{
    (void)atomic_fetch_add(&crew->reached[stage], 1);
}

bool hr_crew_have_reached(const struct hr_crew *crew, enum hr_crew_stage stage)
{
    return atomic_load(&crew->reached[stage]) == crew->count;
}
