/* Feeds arbitrary letters to a map of facts. It must stay sorted, and within its memory. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gossip/facts.h"

#define FACTS_MAX 16
#define ARENA_BYTES 4096
#define OUTBOX_BYTES (1U << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require_sound(const struct hr_facts *facts)
{
    if (facts->count > facts->count_max || facts->arena_used > facts->arena_bytes) {
        abort();
    }
    for (uint32_t i = 0; i < facts->count; i++) {
        const struct hr_fact *fact = &facts->all[i];
        if ((i > 0 && fact[-1].hash >= fact->hash) ||
            fact->at + fact->name_bytes + fact->value_bytes > facts->arena_used) {
            abort();
        }
    }
}

/* The input is letters, each behind its length in two bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint64_t memory[(4U << 20) / 8];
    struct hr_bump bump = {.at = (uint8_t *)memory};
    struct hr_facts facts;
    struct hr_outbox outbox;
    struct hr_letter letter;
    hr_facts_init(&facts, FACTS_MAX, ARENA_BYTES, 1, 1, &bump);
    hr_outbox_init(&outbox, OUTBOX_BYTES, &bump);
    if (bump.taken > sizeof(memory)) {
        abort();
    }
    while (bytes >= 2) {
        size_t length = data[0] | (size_t)data[1] << 8;
        length = length < bytes - 2 ? length : bytes - 2;
        hr_facts_receive(&facts, 2, (struct hr_span){(const char *)data + 2, length}, &outbox);
        require_sound(&facts);
        data += 2 + length;
        bytes -= 2 + length;
    }
    while (hr_outbox_next(&outbox, &letter)) {
        hr_facts_receive(&facts, 2, letter.body, &outbox); /* its own letters make sense to it */
    }
    require_sound(&facts);
    return 0;
}
