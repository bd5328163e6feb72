#include "node/waiting.h"

#include <stdalign.h>
#include <string.h>

void hr_waiting_init(struct hr_waiting *waiting, uint32_t count_max, size_t bytes_max, struct hr_bump *bump)
{
    *waiting = (struct hr_waiting){.request_count = count_max + 1, .request_fresh = 1, .block_fresh = 1};
    waiting->blocks_left = (uint32_t)(bytes_max / sizeof(struct hr_block));
    waiting->block_count = waiting->blocks_left + 1;
    waiting->requests = hr_bump_take(bump, waiting->request_count, sizeof(struct hr_waiting_request),
                                     alignof(struct hr_waiting_request));
    waiting->blocks = hr_bump_take(bump, waiting->block_count, sizeof(struct hr_block), alignof(struct hr_block));
}

/* --- texts --- */

static uint32_t blocks_for(size_t bytes)
{
    return (uint32_t)((bytes + HR_WAITING_BLOCK_BYTES - 1) / HR_WAITING_BLOCK_BYTES);
}

/* Requires: there is one. */
static uint32_t take_block(struct hr_waiting *waiting)
{
    uint32_t index = waiting->block_free;
    if (index != 0) {
        waiting->block_free = waiting->blocks[index].next;
    } else {
        index = waiting->block_fresh++;
    }
    waiting->blocks_left--;
    return index;
}

static void free_text(struct hr_waiting *waiting, struct hr_text *text)
{
    while (text->first != 0) {
        uint32_t index = text->first;
        text->first = waiting->blocks[index].next;
        waiting->blocks[index].next = waiting->block_free;
        waiting->block_free = index;
        waiting->blocks_left++;
    }
    text->bytes = 0;
}

/* Requires room. */
static struct hr_text keep_text(struct hr_waiting *waiting, struct hr_span span)
{
    struct hr_text text = {.bytes = (uint32_t)span.bytes};
    uint32_t *link = &text.first;
    while (span.bytes > 0) {
        size_t bytes = span.bytes < HR_WAITING_BLOCK_BYTES ? span.bytes : HR_WAITING_BLOCK_BYTES;
        *link = take_block(waiting);
        memcpy(waiting->blocks[*link].bytes, span.at, bytes);
        span = (struct hr_span){span.at + bytes, span.bytes - bytes};
        link = &waiting->blocks[*link].next;
        *link = 0;
    }
    return text;
}

void hr_waiting_copy(const struct hr_waiting *waiting, struct hr_text text, char *ret_bytes)
{
    uint32_t index = text.first;
    for (size_t left = text.bytes; left > 0; index = waiting->blocks[index].next) {
        size_t bytes = left < HR_WAITING_BLOCK_BYTES ? left : HR_WAITING_BLOCK_BYTES;
        memcpy(ret_bytes, waiting->blocks[index].bytes, bytes);
        ret_bytes += bytes;
        left -= bytes;
    }
}

/* --- queues --- */

static void append(struct hr_waiting *waiting, struct hr_waiting_queue *queue, uint32_t index)
{
    waiting->requests[index].next = 0;
    if (queue->tail == 0) {
        queue->head = index;
    } else {
        waiting->requests[queue->tail].next = index;
    }
    queue->tail = index;
}

static uint32_t take_first(struct hr_waiting *waiting, struct hr_waiting_queue *queue)
{
    uint32_t index = queue->head;
    if (index != 0) {
        queue->head = waiting->requests[index].next;
        queue->tail = queue->head == 0 ? 0 : queue->tail;
    }
    return index;
}

static uint32_t take_request(struct hr_waiting *waiting)
{
    uint32_t index = waiting->request_free;
    if (index != 0) {
        waiting->request_free = waiting->requests[index].next;
    } else if (waiting->request_fresh < waiting->request_count) {
        index = waiting->request_fresh++;
    }
    return index;
}

bool hr_waiting_add(struct hr_waiting *waiting, const struct hr_call *call, struct hr_span answer,
                    const struct hr_progress *progress, hr_ns now)
{
    if (blocks_for(call->params.bytes) + blocks_for(answer.bytes) > waiting->blocks_left) {
        return false;
    }
    uint32_t index = take_request(waiting);
    if (index == 0) {
        return false;
    }
    struct hr_waiting_request *request = &waiting->requests[index];
    *request = (struct hr_waiting_request){.since = now, .call = *call, .progress = *progress};
    request->params = keep_text(waiting, call->params);
    request->answer = keep_text(waiting, answer);
    append(waiting, &waiting->waiting, index);
    return true;
}

void hr_waiting_wake(struct hr_waiting *waiting)
{
    struct hr_waiting_queue *from = &waiting->waiting, *to = &waiting->ready;
    if (from->head == 0) {
        return;
    }
    if (to->tail == 0) {
        to->head = from->head;
    } else {
        waiting->requests[to->tail].next = from->head;
    }
    to->tail = from->tail;
    *from = (struct hr_waiting_queue){0, 0};
}

void hr_waiting_wake_older(struct hr_waiting *waiting, hr_ns since)
{
    while (waiting->waiting.head != 0 && waiting->requests[waiting->waiting.head].since < since) {
        append(waiting, &waiting->ready, take_first(waiting, &waiting->waiting));
    }
}

uint32_t hr_waiting_next_ready(struct hr_waiting *waiting)
{
    return take_first(waiting, &waiting->ready);
}

void hr_waiting_drop(struct hr_waiting *waiting, uint32_t index)
{
    struct hr_waiting_request *request = &waiting->requests[index];
    free_text(waiting, &request->params);
    free_text(waiting, &request->answer);
    request->next = waiting->request_free;
    waiting->request_free = index;
}

bool hr_waiting_put_back(struct hr_waiting *waiting, uint32_t index, struct hr_span answer,
                         const struct hr_progress *progress)
{
    struct hr_waiting_request *request = &waiting->requests[index];
    free_text(waiting, &request->answer);
    if (blocks_for(answer.bytes) > waiting->blocks_left) {
        return false;
    }
    request->answer = keep_text(waiting, answer);
    request->progress = *progress;
    append(waiting, &waiting->waiting, index);
    return true;
}
