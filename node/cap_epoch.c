#include <string.h>

#include "node/cap_keeper_state.h"
#include "storage/le.h"

#define FACT_EPOCH HR_SPAN(".caps")

static uint32_t number_after(uint32_t epoch, uint64_t hash)
{
    uint32_t mask = (UINT32_C(1) << HR_CAP_EPOCH_HASH_BITS) - 1;
    return ((epoch >> HR_CAP_EPOCH_HASH_BITS) + 1) << HR_CAP_EPOCH_HASH_BITS | ((uint32_t)hash & mask);
}

void hr_cap_epoch_load(struct hr_cap_keeper *keeper, const struct hr_limit_set *set)
{
    /* Limits beyond the most there may be have no share anywhere, which is safe; config check says so. */
    (void)hr_cap_rules_of(keeper->config.limiter, set, &keeper->config.regions, keeper->config.saves, &keeper->local);
    uint64_t hash = hr_cap_rules_hash(&keeper->local);
    keeper->has_changed |= keeper->is_loaded && hash != keeper->local_hash;
    keeper->local_hash = hash;
    keeper->is_loaded = true;
}

/* The epoch as the cluster has it; number 0: nobody has said anything yet, or what makes no sense. */
static uint32_t read_fact(const struct hr_cap_keeper *keeper, uint64_t *ret_hash)
{
    struct hr_span value;
    *ret_hash = 0;
    if (!hr_facts_find(keeper->config.facts, FACT_EPOCH, &value)) {
        return 0;
    }
    struct hr_le_reader reader = hr_le_reader_of(value);
    uint32_t number = hr_le_read_u32(&reader);
    *ret_hash = hr_le_read_u64(&reader);
    return hr_le_is_at_end(&reader) ? number : 0;
}

static void write_fact(struct hr_cap_keeper *keeper)
{
    uint8_t bytes[12];
    struct hr_le_writer writer = hr_le_writer_of(bytes, sizeof(bytes));
    struct hr_facts *facts = keeper->config.facts;
    hr_le_write_u32(&writer, keeper->current.number);
    hr_le_write_u64(&writer, keeper->current.hash);
    enum hr_err err =
        hr_facts_write(facts, FACT_EPOCH, (struct hr_span){(const char *)bytes, writer.used},
                       hr_facts_next_version(facts, keeper->now), keeper->config.members, keeper->config.outbox);
    (void)err; /* without room it is tried again at the next tick */
}

static bool configure(struct hr_cap_keeper *keeper, const struct hr_cap_epoch *epoch)
{
    for (uint32_t i = 0; i < epoch->rules.count; i++) {
        hr_cap_rule_fill(&epoch->rules, &epoch->rules.at[i], &keeper->limits[i]);
    }
    return hr_caps_configure(keeper->caps, epoch->number, keeper->limits, epoch->rules.count, keeper->now.steady) ==
           HR_OK;
}

void hr_cap_epoch_written(struct hr_cap_keeper *keeper)
{
    keeper->next_is_unsaved = keeper->next_is_writing = false;
    if (configure(keeper, &keeper->next)) {
        keeper->current = keeper->next;
    }
    keeper->next.number = 0;
}

/* Nobody is told of an epoch before the store knows of it: after a crash this node must come back no higher than it has
 * said that it came down to. */
static void begin(struct hr_cap_keeper *keeper, uint32_t number)
{
    keeper->next.number = number;
    keeper->next.hash = keeper->local_hash;
    keeper->next.rules = keeper->local;
    keeper->has_changed = false;
    keeper->next_is_unsaved = true;
    if (!keeper->config.saves) {
        hr_cap_epoch_written(keeper);
    }
}

/* At start: what the store tells of, in both steps; or an epoch of its own, the first of all, if there is nothing. Its
 * number is the same at all nodes with the same limits. */
static void begin_all(struct hr_cap_keeper *keeper)
{
    keeper->is_begun = true;
    if (keeper->adopted.number == 0) { /* the first of all is adopted as it begins */
        keeper->adopted = keeper->current;
    }
    if (keeper->adopted.number != 0) {
        bool is_in_force = configure(keeper, &keeper->adopted);
        bool is_amid = keeper->current.number > keeper->adopted.number;
        if (!is_in_force || (is_amid && !configure(keeper, &keeper->current)) || !is_amid) {
            keeper->current = keeper->adopted;
        }
        keeper->has_changed = keeper->current.hash != keeper->local_hash;
        return;
    }
    begin(keeper, number_after(0, keeper->local_hash));
}

/* Says what is agreed on, or follows it, or proposes what this node's limits have become. One step at a time: the next
 * epoch waits until all regions have adopted the one before. */
static void follow(struct hr_cap_keeper *keeper)
{
    uint64_t hash;
    uint32_t number = read_fact(keeper, &hash);
    bool is_mine = hash == keeper->local_hash;
    if (number < keeper->current.number) {
        write_fact(keeper);
        return;
    }
    if (!hr_caps_is_adopted(keeper->caps, keeper->now.steady)) {
        return;
    }
    if (number > keeper->current.number && is_mine) {
        begin(keeper, number);
    } else if (keeper->has_changed && keeper->local_hash != keeper->current.hash) {
        begin(keeper, number_after(number, keeper->local_hash));
    }
}

void hr_cap_epoch_tick(struct hr_cap_keeper *keeper)
{
    if (!keeper->is_loaded) {
        return;
    }
    if (!keeper->is_begun) {
        begin_all(keeper);
    }
    if (keeper->next.number != 0 || keeper->current.number == 0) {
        return; /* the store is being told */
    }
    follow(keeper);
    bool is_adopted = hr_caps_is_adopted(keeper->caps, keeper->now.steady);
    if (is_adopted && keeper->adopted.number != keeper->current.number && !keeper->adopted_is_writing) {
        keeper->adopted = keeper->current;
        keeper->adopted_is_unsaved = keeper->config.saves;
    }
}
