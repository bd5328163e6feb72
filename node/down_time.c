#include "node/down_time.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "storage/le.h"
#include "storage/record.h"

#define BOOT_ID_BYTES 36
#define PAYLOAD_BYTES (BOOT_ID_BYTES + 8)

static struct hr_store_key own_key(void)
{
    return (struct hr_store_key){.bytes = 6, .at = {HR_RECORD_META, 'c', 'l', 'o', 'c', 'k'}};
}

static int64_t since_boot_ns(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_BOOTTIME, &at); /* cannot fail on Linux */
    return at.tv_sec * HR_NS_PER_S + at.tv_nsec;
}

/* All zero where the machine does not tell: no two boots are the same then. */
static void read_boot_id(char ret_id[BOOT_ID_BYTES])
{
    memset(ret_id, 0, BOOT_ID_BYTES);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, ret_id, BOOT_ID_BYTES) != BOOT_ID_BYTES) {
            memset(ret_id, 0, BOOT_ID_BYTES);
        }
        (void)close(fd);
    }
}

static enum hr_err visit(void *user, const struct hr_record *record)
{
    struct hr_down_time *down = user;
    struct hr_store_key key = own_key();
    if (!hr_span_equal(record->key, hr_store_key_span(&key))) {
        return HR_OK;
    }
    struct hr_le_reader reader = hr_le_reader_of(record->payload);
    struct hr_span old_id = hr_le_read_bytes(&reader, BOOT_ID_BYTES);
    int64_t steady_less_boot_ns = hr_le_read_i64(&reader);
    if (!hr_le_is_at_end(&reader)) {
        return HR_E_CORRUPT;
    }
    char id[BOOT_ID_BYTES];
    read_boot_id(id);
    down->is_same_boot = id[0] != '\0' && memcmp(id, old_id.at, BOOT_ID_BYTES) == 0;
    down->old_now = hr_clamp_time(hr_clamp_time(steady_less_boot_ns) + down->since_boot_ns);
    return HR_OK;
}

bool hr_down_time_read(struct hr_store *store, struct hr_clock *clock, struct hr_down_time *ret_down,
                       struct hr_problem *ret_problem)
{
    struct hr_store_loaded loaded;
    *ret_down = (struct hr_down_time){.since_boot_ns = since_boot_ns()};
    enum hr_err err = hr_store_load(store, HR_RECORD_META, visit, ret_down, &loaded);
    if (err != HR_OK) {
        hr_problem_what(ret_problem, "cannot read the store: %s", hr_err_text(err));
        hr_problem_where(ret_problem, "the record of its clock");
        return false;
    }
    struct hr_now now = hr_clock_now(clock);
    if (ret_down->is_same_boot) {
        clock->anchor_ns += ret_down->old_now - now.steady;
    } else {
        ret_down->old_now = now.wall.ns;
    }
    return true;
}

enum hr_err hr_down_time_put(const struct hr_clock *clock, struct hr_store_batch *batch)
{
    uint8_t payload[PAYLOAD_BYTES];
    char id[BOOT_ID_BYTES];
    struct hr_le_writer writer = hr_le_writer_of(payload, sizeof(payload));
    read_boot_id(id);
    hr_le_write_bytes(&writer, id, sizeof(id));
    hr_le_write_i64(&writer, hr_clock_now(clock).steady - since_boot_ns());
    struct hr_store_key key = own_key();
    return hr_batch_put(batch, &key, (struct hr_span){(const char *)payload, writer.used});
}

int64_t hr_down_time_since(const struct hr_down_time *down, hr_ns saved_at)
{
    int64_t passed = hr_clamp_time(down->old_now - hr_clamp_time(saved_at));
    return !down->is_same_boot && passed < down->since_boot_ns ? down->since_boot_ns : passed;
}
