#include "chaos/universe.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "chaos/dice.h"

#define SET_ALIGNMENT 16
#define VALUES_MAX 64      /* of one attribute, that limits ask for; more are left out */
#define VALUE_BYTES_MAX 80 /* of each */
#define ATTRIBUTES_MAX 24  /* of a request */
#define SHAPE_TEXT_BYTES (ATTRIBUTES_MAX * VALUE_BYTES_MAX)
#define SHAPE_PACKED_BYTES (SHAPE_TEXT_BYTES + ATTRIBUTES_MAX * 72 + 64)

struct attribute {
    struct hr_span name;
    uint32_t value_count; /* 0: the attribute only tells counters apart */
    char values[VALUES_MAX][VALUE_BYTES_MAX];
};

struct maker {
    struct hr_universe *universe;
    struct hr_rng rng;
    uint32_t attribute_count;
    struct attribute attributes[ATTRIBUTES_MAX];
    uint32_t keys;
    uint64_t *weights;      /* cumulative, of the keys */
    struct hr_id128 *names; /* of the counters */
    uint32_t *index;        /* hash table of counters, by name, each plus one */
    uint32_t index_mask;
    uint32_t counters_room;
    size_t text_used;
};

/* --- what the limits ask for --- */

static struct attribute *attribute_of(struct maker *maker, struct hr_span name)
{
    for (uint32_t i = 0; i < maker->attribute_count; i++) {
        if (hr_span_equal(maker->attributes[i].name, name)) {
            return &maker->attributes[i];
        }
    }
    if (maker->attribute_count == ATTRIBUTES_MAX) {
        return NULL; /* limits that need it are asked by no request; few files speak of so many */
    }
    struct attribute *attribute = &maker->attributes[maker->attribute_count++];
    attribute->name = name;
    return attribute;
}

/* A value that the pattern matches: a star stands for one letter, a network for its first address. */
static void write_value(const struct hr_pattern *pattern, char ret_value[VALUE_BYTES_MAX])
{
    if (pattern->kind == HR_MATCH_CIDR) {
        int family = pattern->cidr.family_bytes == 4 ? AF_INET : AF_INET6;
        (void)inet_ntop(family, pattern->cidr.address, ret_value, VALUE_BYTES_MAX); /* the room is enough for both */
        return;
    }
    size_t bytes = pattern->text.bytes < VALUE_BYTES_MAX - 1 ? pattern->text.bytes : VALUE_BYTES_MAX - 1;
    for (size_t i = 0; i < bytes; i++) {
        bool is_star = pattern->kind == HR_MATCH_GLOB && pattern->text.at[i] == '*';
        ret_value[i] = is_star ? 'x' : pattern->text.at[i];
    }
    ret_value[bytes] = '\0';
}

static void note_condition(struct maker *maker, const struct hr_condition *condition)
{
    struct attribute *attribute = attribute_of(maker, condition->attribute);
    for (uint32_t i = 0; attribute != NULL && i < condition->pattern_count; i++) {
        if (attribute->value_count < VALUES_MAX) {
            write_value(&condition->patterns[i], attribute->values[attribute->value_count++]);
        }
    }
}

static void note_limits(struct maker *maker)
{
    const struct hr_limits_file *limits = maker->universe->limits;
    for (uint32_t i = 0; i < limits->limit_count; i++) {
        for (uint32_t k = 0; k < limits->limits[i].key_count; k++) {
            (void)attribute_of(maker, limits->limits[i].key[k]);
        }
        for (uint32_t k = 0; k < limits->limits[i].when_count; k++) {
            note_condition(maker, &limits->limits[i].when[k]);
        }
    }
    if (maker->attribute_count == 0) {
        (void)attribute_of(maker, HR_SPAN("any")); /* a request has one attribute at least */
    }
}

/* --- requests --- */

static uint32_t draw_key(struct maker *maker)
{
    uint64_t wanted = hr_rng_below(&maker->rng, maker->weights[maker->keys - 1]);
    uint32_t low = 0, high = maker->keys - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (maker->weights[middle] > wanted) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low + 1;
}

/* Mostly a value that some limit asks for; one in four times another, so that what limits exclude is asked too. */
static struct hr_span draw_value(struct maker *maker, const struct attribute *attribute)
{
    char *at = maker->universe->text + maker->text_used;
    int bytes;
    if (attribute->value_count > 0 && hr_rng_chance(&maker->rng, 3, 4)) {
        bytes =
            snprintf(at, VALUE_BYTES_MAX, "%s", attribute->values[hr_rng_below(&maker->rng, attribute->value_count)]);
    } else {
        bytes = snprintf(at, VALUE_BYTES_MAX, "k%u", draw_key(maker));
    }
    maker->text_used += (size_t)bytes;
    return (struct hr_span){at, (size_t)bytes};
}

static uint64_t draw_cost(struct hr_rng *rng)
{
    return hr_rng_chance(rng, 7, 8) ? 1 : hr_rng_below(rng, 11);
}

static void draw_params(struct maker *maker, struct hr_params *params)
{
    *params = (struct hr_params){.present = HR_PARAM_BIT(HR_PARAM_ATTRIBUTES) | HR_PARAM_BIT(HR_PARAM_COST) |
                                            HR_PARAM_BIT(HR_PARAM_DETAIL)};
    for (uint32_t i = 0; i < maker->attribute_count; i++) {
        bool is_last_chance = i + 1 == maker->attribute_count && params->attribute_count == 0;
        if (is_last_chance || hr_rng_chance(&maker->rng, 31, 32)) {
            params->attributes[params->attribute_count++] =
                (struct hr_attribute){maker->attributes[i].name, draw_value(maker, &maker->attributes[i])};
        }
    }
    params->cost = draw_cost(&maker->rng);
}

static struct hr_span pack_params(struct maker *maker, const struct hr_params *params)
{
    struct hr_packer packer = {.at = maker->universe->text + maker->text_used, .room = SHAPE_PACKED_BYTES};
    hr_params_encode(params, &packer);
    maker->text_used += packer.wanted;
    return hr_packer_bytes(&packer);
}

/* --- their counters --- */

/* Length-prefixed values under the limit's number: no two counters have one name. */
static struct hr_id128 name_counter(const struct hr_universe *universe, const struct hr_match *match, uint32_t limit)
{
    static const struct hr_hash_key key = {{'u'}};
    uint8_t bytes[ATTRIBUTES_MAX * (VALUE_BYTES_MAX + 1) + sizeof(limit)];
    size_t used = sizeof(limit);
    memcpy(bytes, &limit, sizeof(limit));
    for (uint32_t i = 0; i < universe->limits->limits[limit].key_count; i++) {
        const struct hr_span *value = hr_match_key_value(&universe->set, match, limit, i);
        bytes[used++] = (uint8_t)value->bytes;
        memcpy(bytes + used, value->at, value->bytes);
        used += value->bytes;
    }
    return hr_keyed_hash(&key, bytes, used);
}

static uint32_t number_counter(struct maker *maker, const struct hr_match *match, uint32_t limit)
{
    struct hr_universe *universe = maker->universe;
    struct hr_id128 name = name_counter(universe, match, limit);
    uint32_t at = (uint32_t)name.lo & maker->index_mask;
    for (; maker->index[at] != 0; at = (at + 1) & maker->index_mask) {
        if (hr_id128_equal(maker->names[maker->index[at] - 1], name)) {
            return maker->index[at] - 1;
        }
    }
    uint32_t counter = universe->counter_count++;
    maker->index[at] = universe->counter_count;
    maker->names[counter] = name;
    universe->counter_limits[counter] = limit;
    return counter;
}

static bool find_touches(struct maker *maker, struct hr_shape *shape)
{
    struct hr_universe *universe = maker->universe;
    struct hr_match match;
    const struct hr_request request = hr_params_request(shape->unpacked, 0);
    if (hr_limit_set_match(&universe->set, &request, &match) != HR_OK) {
        return false;
    }
    shape->touches = calloc(match.count > 0 ? match.count : 1, sizeof(*shape->touches));
    for (uint32_t i = 0; shape->touches != NULL && i < match.count; i++) {
        const struct hr_limit *limit = &universe->limits->limits[match.limits[i]];
        if (limit->mode == HR_ENFORCE) {
            shape->touches[shape->touch_count++] =
                (struct hr_sim_touch){match.limits[i], number_counter(maker, &match, match.limits[i])};
            shape->holds |= limit->rule.algorithm == HR_CONCURRENCY;
        }
    }
    return shape->touches != NULL;
}

static bool make_shape(struct maker *maker, struct hr_shape *shape)
{
    draw_params(maker, shape->unpacked);
    shape->cost = shape->unpacked->cost;
    if (!find_touches(maker, shape)) {
        return false;
    }
    shape->unpacked->detail = shape->holds;
    shape->params = pack_params(maker, shape->unpacked);
    return true;
}

/* Of each limit the counter that most shapes touch. */
static bool find_watched(struct hr_universe *universe)
{
    uint32_t *uses = calloc(universe->counter_count + 1, sizeof(*uses));
    if (uses == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < universe->limits->limit_count; i++) {
        universe->watched[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < universe->shape_count; i++) {
        for (uint32_t k = 0; k < universe->shapes[i].touch_count; k++) {
            const struct hr_sim_touch *touch = &universe->shapes[i].touches[k];
            uint32_t best = universe->watched[touch->limit];
            uses[touch->counter]++;
            if (best == UINT32_MAX || uses[touch->counter] > uses[best]) {
                universe->watched[touch->limit] = touch->counter;
            }
        }
    }
    free(uses);
    return true;
}

/* --- all together --- */

static bool build_set(struct hr_universe *universe)
{
    const struct hr_limits_file *limits = universe->limits;
    size_t bytes = hr_limit_set_bytes(limits->limits, limits->limit_count);
    bytes = (bytes / SET_ALIGNMENT + 1) * SET_ALIGNMENT; /* aligned_alloc wants a multiple, and more than none */
    universe->set_memory = aligned_alloc(SET_ALIGNMENT, bytes);
    return universe->set_memory != NULL && hr_limit_set_build(&universe->set, limits->limits, limits->limit_count,
                                                              universe->set_memory, bytes) == HR_OK;
}

static uint32_t counters_room(const struct hr_universe *universe)
{
    uint32_t limits = universe->limits->limit_count;
    uint32_t each = limits < HR_TOUCHED_MAX ? limits : HR_TOUCHED_MAX;
    return HR_SHAPES_MAX * (each > 0 ? each : 1);
}

static bool make_room(struct maker *maker)
{
    struct hr_universe *universe = maker->universe;
    maker->counters_room = counters_room(universe);
    maker->index_mask = 1;
    while (maker->index_mask < 2 * maker->counters_room) {
        maker->index_mask <<= 1;
    }
    maker->index = calloc(maker->index_mask, sizeof(*maker->index));
    maker->index_mask--;
    maker->names = calloc(maker->counters_room, sizeof(*maker->names));
    maker->weights = calloc(maker->keys, sizeof(*maker->weights));
    universe->counter_limits = calloc(maker->counters_room, sizeof(*universe->counter_limits));
    universe->watched = calloc(universe->limits->limit_count + 1, sizeof(*universe->watched));
    universe->shapes = calloc(HR_SHAPES_MAX, sizeof(*universe->shapes));
    universe->unpacked = calloc(HR_SHAPES_MAX, sizeof(*universe->unpacked));
    universe->text = malloc((size_t)HR_SHAPES_MAX * (SHAPE_TEXT_BYTES + SHAPE_PACKED_BYTES));
    return maker->index != NULL && maker->names != NULL && maker->weights != NULL && universe->counter_limits != NULL &&
           universe->watched != NULL && universe->shapes != NULL && universe->unpacked != NULL &&
           universe->text != NULL;
}

static bool make(struct maker *maker)
{
    struct hr_universe *universe = maker->universe;
    if (!make_room(maker) || !build_set(universe)) {
        return false;
    }
    uint64_t sum = 0;
    for (uint32_t i = 0; i < maker->keys; i++) {
        sum += (UINT64_C(1) << 32) / (i + 1);
        maker->weights[i] = sum;
    }
    note_limits(maker);
    for (; universe->shape_count < HR_SHAPES_MAX; universe->shape_count++) {
        universe->shapes[universe->shape_count].unpacked = &universe->unpacked[universe->shape_count];
        if (!make_shape(maker, &universe->shapes[universe->shape_count])) {
            return false;
        }
    }
    return find_watched(universe);
}

struct hr_universe *hr_universe_new(const struct hr_limits_file *limits, uint32_t keys, uint64_t seed,
                                    struct hr_problem *ret_problem)
{
    struct hr_universe *universe = calloc(1, sizeof(*universe));
    struct maker *maker = calloc(1, sizeof(*maker));
    bool is_made = false;
    if (universe != NULL && maker != NULL) {
        universe->limits = limits;
        maker->universe = universe;
        maker->rng = hr_dice_fork(seed, 2);
        maker->keys = keys;
        is_made = make(maker);
    }
    if (maker != NULL) {
        free(maker->index);
        free(maker->names);
        free(maker->weights);
        free(maker);
    }
    if (!is_made) {
        hr_problem_what(ret_problem,
                        "no requests can be made for these limits: no memory, or a request that touches "
                        "more than %d of them",
                        HR_TOUCHED_MAX);
        hr_universe_free(universe);
        return NULL;
    }
    return universe;
}

void hr_universe_free(struct hr_universe *universe)
{
    if (universe == NULL) {
        return;
    }
    for (uint32_t i = 0; universe->shapes != NULL && i < HR_SHAPES_MAX; i++) {
        free(universe->shapes[i].touches);
    }
    free(universe->shapes);
    free(universe->unpacked);
    free(universe->counter_limits);
    free(universe->watched);
    free(universe->text);
    free(universe->set_memory);
    free(universe);
}
