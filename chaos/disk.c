#include "chaos/disk.h"

#include <stdlib.h>
#include <string.h>

#include "chaos/dice.h"

#define SYNC_MIN_NS HR_NS_PER_MS
#define SYNC_MAX_NS (8 * HR_NS_PER_MS)

void hr_sim_disk_init(struct hr_sim_disk *disk, uint64_t seed)
{
    *disk = (struct hr_sim_disk){.state = {SYNC_MIN_NS, SYNC_MAX_NS, false, false}, .rng = hr_dice_fork(seed, 3)};
}

void hr_sim_disk_deinit(struct hr_sim_disk *disk)
{
    for (uint32_t i = 0; i < HR_SIM_BATCHES_MAX; i++) {
        free(disk->waiting[i].batch.memory);
    }
    hr_platter_deinit(&disk->platter);
    *disk = (struct hr_sim_disk){0};
}

/* The copy's memory is kept from one batch to the next. */
static enum hr_err copy(struct hr_store_batch *to, const struct hr_store_batch *from)
{
    if (to->bytes_max < from->bytes) {
        uint8_t *memory = realloc(to->memory, from->bytes);
        if (memory == NULL) {
            return HR_E_MEMORY;
        }
        to->memory = memory;
        to->bytes_max = from->bytes;
    }
    memcpy(to->memory, from->memory, from->bytes);
    to->bytes = from->bytes;
    to->count = from->count;
    to->put_count = from->put_count;
    return HR_OK;
}

enum hr_err hr_sim_disk_commit(struct hr_sim_disk *disk, uint64_t ticket, const struct hr_store_batch *batch,
                               hr_ns *ret_took_ns)
{
    if (disk->count == HR_SIM_BATCHES_MAX) {
        return HR_E_FULL;
    }
    struct hr_sim_batch *waiting = &disk->waiting[(disk->first + disk->count) % HR_SIM_BATCHES_MAX];
    enum hr_err err = copy(&waiting->batch, batch);
    if (err == HR_OK) {
        waiting->ticket = ticket;
        disk->count++;
        *ret_took_ns = hr_dice_between(&disk->rng, disk->state.sync_min_ns, disk->state.sync_max_ns);
    }
    return err;
}

static struct hr_store_result sync_one(struct hr_sim_disk *disk)
{
    const struct hr_sim_batch *waiting = &disk->waiting[disk->first];
    struct hr_store_result result = {.ticket = waiting->ticket};
    disk->first = (disk->first + 1) % HR_SIM_BATCHES_MAX;
    disk->count--;
    if (disk->state.is_failing) {
        result.err = HR_E_IO;
    } else if (disk->state.is_full && waiting->batch.put_count > 0) {
        result.err = HR_E_FULL;
    } else {
        result.err = hr_platter_apply(&disk->platter, &waiting->batch);
    }
    return result;
}

bool hr_sim_disk_sync(struct hr_sim_disk *disk, struct hr_store_result *ret_result)
{
    if (disk->count == 0) {
        return false;
    }
    *ret_result = sync_one(disk);
    return true;
}

void hr_sim_disk_crash(struct hr_sim_disk *disk)
{
    while (disk->count > 0 && hr_rng_chance(&disk->rng, 1, 2)) {
        (void)sync_one(disk); /* nobody is left to be told */
    }
    disk->lost += disk->count;
    disk->first = disk->count = 0;
}
