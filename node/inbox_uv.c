#include "node/inbox_uv.h"

#include <stdlib.h>
#include <string.h>

enum hr_err hr_inbox_open(struct hr_inbox *inbox, size_t bytes_max)
{
    *inbox = (struct hr_inbox){.bytes_max = bytes_max};
    uint8_t *memory = malloc(2 * bytes_max);
    if (memory == NULL || uv_mutex_init(&inbox->lock) != 0) {
        free(memory);
        return HR_E_MEMORY;
    }
    inbox->filling = memory;
    inbox->taken = memory + bytes_max;
    return HR_OK;
}

void hr_inbox_close(struct hr_inbox *inbox)
{
    uv_mutex_destroy(&inbox->lock);
    free(inbox->filling < inbox->taken ? inbox->filling : inbox->taken);
}

bool hr_inbox_put(struct hr_inbox *inbox, struct hr_span packet)
{
    const uint32_t bytes = (uint32_t)packet.bytes;
    uv_mutex_lock(&inbox->lock);
    bool was_empty = inbox->filling_bytes == 0;
    bool has_room = packet.bytes <= UINT32_MAX && inbox->bytes_max - inbox->filling_bytes >= sizeof(bytes) &&
                    inbox->bytes_max - inbox->filling_bytes - sizeof(bytes) >= packet.bytes;
    if (has_room) {
        memcpy(inbox->filling + inbox->filling_bytes, &bytes, sizeof(bytes));
        memcpy(inbox->filling + inbox->filling_bytes + sizeof(bytes), packet.at, packet.bytes);
        inbox->filling_bytes += sizeof(bytes) + packet.bytes;
    } else {
        inbox->dropped++;
    }
    uv_mutex_unlock(&inbox->lock);
    return was_empty && has_room;
}

/* Takes all that has come; what comes from here on fills the other half. */
static void swap_halves(struct hr_inbox *inbox)
{
    uv_mutex_lock(&inbox->lock);
    uint8_t *emptied = inbox->taken;
    inbox->taken = inbox->filling;
    inbox->taken_bytes = inbox->filling_bytes;
    inbox->taken_at = 0;
    inbox->filling = emptied;
    inbox->filling_bytes = 0;
    uv_mutex_unlock(&inbox->lock);
}

bool hr_inbox_next(struct hr_inbox *inbox, struct hr_span *ret_packet)
{
    uint32_t bytes;
    if (inbox->taken_at == inbox->taken_bytes) {
        swap_halves(inbox);
    }
    if (inbox->taken_at == inbox->taken_bytes) {
        return false;
    }
    memcpy(&bytes, inbox->taken + inbox->taken_at, sizeof(bytes));
    *ret_packet = (struct hr_span){(const char *)inbox->taken + inbox->taken_at + sizeof(bytes), bytes};
    inbox->taken_at += sizeof(bytes) + bytes;
    return true;
}

uint64_t hr_inbox_dropped(struct hr_inbox *inbox)
{
    uv_mutex_lock(&inbox->lock);
    uint64_t dropped = inbox->dropped;
    uv_mutex_unlock(&inbox->lock);
    return dropped;
}
