#include "chaos/queue.h"

#include <stdlib.h>

#define ROOM_FIRST 256

static bool is_before(const struct hr_sim_event *a, const struct hr_sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static bool grow(struct hr_queue *queue)
{
    uint32_t room = queue->room == 0 ? ROOM_FIRST : queue->room * 2;
    struct hr_sim_event *heap = reallocarray(queue->heap, room, sizeof(*heap));
    if (heap == NULL) {
        return false;
    }
    queue->heap = heap;
    queue->room = room;
    return true;
}

enum hr_err hr_queue_put(struct hr_queue *queue, struct hr_sim_event event)
{
    if (queue->count == queue->room && (queue->room > UINT32_MAX / 2 || !grow(queue))) {
        return HR_E_MEMORY;
    }
    event.order = queue->order++;
    uint32_t at = queue->count++;
    while (at > 0 && is_before(&event, &queue->heap[(at - 1) / 2])) {
        queue->heap[at] = queue->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->heap[at] = event;
    return HR_OK;
}

/* Finds the place of `last` from the top down, moving the earlier child up at each level. */
static void sift_down(struct hr_queue *queue, struct hr_sim_event last)
{
    uint32_t at = 0;
    for (uint32_t child = 1; child < queue->count; child = 2 * at + 1) {
        if (child + 1 < queue->count && is_before(&queue->heap[child + 1], &queue->heap[child])) {
            child++;
        }
        if (!is_before(&queue->heap[child], &last)) {
            break;
        }
        queue->heap[at] = queue->heap[child];
        at = child;
    }
    queue->heap[at] = last;
}

bool hr_queue_take(struct hr_queue *queue, struct hr_sim_event *ret_event)
{
    if (queue->count == 0) {
        return false;
    }
    *ret_event = queue->heap[0];
    queue->count--;
    if (queue->count > 0) {
        sift_down(queue, queue->heap[queue->count]);
    }
    return true;
}

void hr_queue_deinit(struct hr_queue *queue)
{
    free(queue->heap);
    *queue = (struct hr_queue){0};
}
