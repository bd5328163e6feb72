/* Limit set: random sets and requests against a matcher that looks at every limit, the bounds, and how few limits a
 * match has to look at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/limit_set.h"
#include "limiter/match.h"
#include "tests/lib/limiter_fixture.h"

#define PARTS_MAX 3
#define PATTERNS_OF_PART_MAX 3

struct drawn_limit {
    struct hr_span key[PARTS_MAX];
    struct hr_condition when[PARTS_MAX];
    struct hr_pattern patterns[PARTS_MAX][PATTERNS_OF_PART_MAX];
};

static const char *const names[] = {"user", "plan", "route", "ip", "tier", "region"};
static const char *const values[] = {"", "a", "b", "ab", "abc", "x.y", "10.1.2.3", "c"};
static const char *const globs[] = {"*", "a*", "*b", "x.*", "a*c"};

static struct hr_span draw_name(struct hr_rng *rng)
{
    return hr_span_of(names[hr_rng_below(rng, COUNT(names))]);
}

static struct hr_pattern draw_pattern(struct hr_rng *rng, bool exact_only)
{
    struct hr_pattern pattern = {.kind = HR_MATCH_EXACT, .text = hr_span_of(values[hr_rng_below(rng, COUNT(values))])};
    if (exact_only || hr_rng_chance(rng, 1, 2)) {
        return pattern;
    }
    pattern.negated = hr_rng_chance(rng, 1, 4);
    if (hr_rng_chance(rng, 1, 4)) {
        pattern.kind = HR_MATCH_CIDR;
        pattern.cidr = (struct hr_cidr){.family_bytes = 4, .prefix_bits = 8, .address = {10}};
    } else if (hr_rng_chance(rng, 1, 2)) {
        pattern.kind = HR_MATCH_GLOB;
        pattern.text = hr_span_of(globs[hr_rng_below(rng, COUNT(globs))]);
    }
    return pattern;
}

static void draw_limit(struct hr_rng *rng, struct drawn_limit *drawn, struct hr_limit *limit)
{
    *limit = (struct hr_limit){.name = HR_SPAN("l"), .key = drawn->key, .when = drawn->when};
    uint32_t keys = (uint32_t)hr_rng_below(rng, PARTS_MAX), from = (uint32_t)hr_rng_below(rng, COUNT(names));
    for (; limit->key_count < keys; limit->key_count++) {
        drawn->key[limit->key_count] = hr_span_of(names[(from + limit->key_count) % COUNT(names)]);
    }
    limit->when_count = (uint32_t)hr_rng_below(rng, PARTS_MAX + 1);
    for (uint32_t i = 0; i < limit->when_count; i++) {
        bool exact_only = hr_rng_chance(rng, 1, 2);
        drawn->when[i] = (struct hr_condition){
            .attribute = draw_name(rng),
            .negated = hr_rng_chance(rng, 1, 4),
            .pattern_count = 1 + (uint32_t)hr_rng_below(rng, PATTERNS_OF_PART_MAX),
            .patterns = drawn->patterns[i],
        };
        for (uint32_t k = 0; k < drawn->when[i].pattern_count; k++) {
            drawn->patterns[i][k] = draw_pattern(rng, exact_only);
        }
    }
}

/* Unique names; one of them may be known to no limit. */
static void draw_request(struct hr_rng *rng, struct hr_attribute *attributes, struct hr_request *request)
{
    *request = (struct hr_request){.attributes = attributes};
    for (size_t i = 0; i < COUNT(names); i++) {
        if (hr_rng_chance(rng, 1, 2)) {
            struct hr_span value = hr_span_of(values[hr_rng_below(rng, COUNT(values))]);
            attributes[request->attribute_count++] = (struct hr_attribute){hr_span_of(names[i]), value};
        }
    }
    attributes[request->attribute_count++] = (struct hr_attribute){HR_SPAN("unknown"), HR_SPAN("a")};
    for (uint32_t i = request->attribute_count - 1; i > 0; i--) {
        uint32_t other = (uint32_t)hr_rng_below(rng, i + 1);
        struct hr_attribute swap = attributes[i];
        attributes[i] = attributes[other];
        attributes[other] = swap;
    }
}

static const struct hr_span *value_in(const struct hr_request *request, struct hr_span name)
{
    for (uint32_t i = 0; i < request->attribute_count; i++) {
        if (hr_span_equal(request->attributes[i].name, name)) {
            return &request->attributes[i].value;
        }
    }
    return NULL;
}

static bool touches(const struct hr_limit *limit, const struct hr_request *request)
{
    bool all = true;
    for (uint32_t i = 0; i < limit->key_count; i++) {
        all = all && value_in(request, limit->key[i]) != NULL;
    }
    for (uint32_t i = 0; i < limit->when_count; i++) {
        all = all && hr_condition_holds(&limit->when[i], value_in(request, limit->when[i].attribute));
    }
    return all;
}

/* The set over these limits in memory of its own, which set.names begins. */
static void build(const struct hr_limit *limits, uint32_t count, struct hr_limit_set *ret_set)
{
    size_t bytes = hr_limit_set_bytes(limits, count);
    void *memory = malloc(bytes);
    assert_non_null(memory);
    memset(memory, 0xa5, bytes); /* build does not count on zeroes */
    assert_int_equal(hr_limit_set_build(ret_set, limits, count, memory, bytes), HR_OK);
    assert_ptr_equal(ret_set->names, memory);
}

static void expect_same(const struct hr_limit_set *set, const struct hr_request *request, uint64_t seed)
{
    struct hr_match match;
    enum hr_err err = hr_limit_set_match(set, request, &match);
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->limit_count; i++) {
        if (!touches(&set->limits[i], request)) {
            continue;
        }
        if (err == HR_OK && (count >= match.count || match.limits[count] != i)) {
            fail_msg("seed %llu: limit %u is missing or out of order", (unsigned long long)seed, i);
        }
        for (uint32_t k = 0; err == HR_OK && k < set->limits[i].key_count; k++) {
            const struct hr_span *value = value_in(request, set->limits[i].key[k]);
            assert_ptr_equal(hr_match_key_value(set, &match, i, k), value);
        }
        count++;
    }
    assert_int_equal(err, count > HR_TOUCHED_MAX ? HR_E_TOO_MANY : HR_OK);
    assert_true(err != HR_OK || match.count == count);
}

static void a_match_finds_what_looking_at_every_limit_finds_in_the_files_order(void **state)
{
    (void)state;
    static struct drawn_limit drawn[300];
    static struct hr_limit limits[300];
    print_message("seeds 0 to 299\n");
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct hr_rng rng = {seed};
        uint32_t count = (uint32_t)hr_rng_below(&rng, seed % 10 == 0 ? COUNT(limits) : 20);
        for (uint32_t i = 0; i < count; i++) {
            draw_limit(&rng, &drawn[i], &limits[i]);
        }
        struct hr_limit_set set;
        build(limits, count, &set);
        for (int i = 0; i < 100; i++) {
            struct hr_attribute attributes[COUNT(names) + 1];
            struct hr_request request;
            draw_request(&rng, attributes, &request);
            expect_same(&set, &request, seed);
        }
        free(set.names);
    }
}

/* Limits keyed by names, and asking for values, of every length, each pair of which differs in one byte alone. */
static void names_and_values_that_differ_in_one_byte_are_told_apart(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes <= HR_ATTRIBUTE_NAME_BYTES_MAX; bytes++) {
        static char texts[HR_ATTRIBUTE_NAME_BYTES_MAX + 1][HR_ATTRIBUTE_NAME_BYTES_MAX];
        static struct hr_pattern patterns[COUNT(texts)];
        static struct hr_condition when[COUNT(texts)];
        static struct hr_span spans[COUNT(texts)];
        static struct hr_limit limits[2 * COUNT(texts)];
        memset(texts, 'a', sizeof(texts));
        for (size_t i = 0; i <= bytes; i++) {
            texts[i][i % HR_ATTRIBUTE_NAME_BYTES_MAX] = i < bytes ? 'b' : 'a'; /* the last is all a */
            spans[i] = (struct hr_span){texts[i], bytes};
            patterns[i] = (struct hr_pattern){.kind = HR_MATCH_EXACT, .text = spans[i]};
            when[i] = (struct hr_condition){HR_SPAN("value"), false, 1, &patterns[i]};
            limits[2 * i] = (struct hr_limit){.name = HR_SPAN("l"), .key = &spans[i], .key_count = 1};
            limits[2 * i + 1] = (struct hr_limit){.name = HR_SPAN("l"), .when = &when[i], .when_count = 1};
        }
        struct hr_limit_set set;
        build(limits, 2 * (uint32_t)(bytes + 1), &set);
        for (size_t i = 0; i <= bytes; i++) {
            const struct hr_attribute attributes[] = {{spans[i], HR_SPAN("")}, {HR_SPAN("value"), spans[i]}};
            const struct hr_request request = {.attributes = attributes, .attribute_count = 2};
            struct hr_match match;
            assert_int_equal(hr_limit_set_match(&set, &request, &match), HR_OK);
            assert_int_equal(match.count, 2);
            assert_int_equal(match.limits[0], 2 * i);
            assert_int_equal(match.limits[1], 2 * i + 1);
        }
        free(set.names);
    }
}

static void as_many_limits_as_may_be_touched_are_touched_and_one_more_is_an_error(void **state)
{
    (void)state;
    static struct hr_limit limits[HR_TOUCHED_MAX + 1];
    const struct hr_attribute attribute = {HR_SPAN("user"), HR_SPAN("ann")};
    const struct hr_request request = {.attributes = &attribute, .attribute_count = 1};
    for (uint32_t i = 0; i < COUNT(limits); i++) {
        limits[i] = (struct hr_limit){.name = HR_SPAN("l"), .key = &attribute.name, .key_count = i % 2};
    }
    for (uint32_t count = HR_TOUCHED_MAX; count <= COUNT(limits); count++) {
        struct hr_limit_set set;
        struct hr_match match;
        build(limits, count, &set);
        enum hr_err err = hr_limit_set_match(&set, &request, &match);
        assert_int_equal(err, count > HR_TOUCHED_MAX ? HR_E_TOO_MANY : HR_OK);
        free(set.names);
    }
}

static void too_many_limits_and_too_little_memory_are_errors(void **state)
{
    (void)state;
    static struct hr_limit limits[HR_LIMITS_MAX + 1];
    struct hr_limit_set set;
    size_t bytes = hr_limit_set_bytes(limits, 2);
    void *memory = malloc(bytes);
    assert_non_null(memory);
    assert_int_equal(hr_limit_set_build(&set, limits, HR_LIMITS_MAX + 1, memory, SIZE_MAX), HR_E_TOO_MANY);
    assert_int_equal(hr_limit_set_build(&set, limits, 2, memory, bytes - 1), HR_E_MEMORY);
    assert_int_equal(hr_limit_set_build(&set, limits, 2, memory, bytes), HR_OK);
    free(memory);
    build(limits, HR_LIMITS_MAX, &set);
    free(set.names);
}

static void an_empty_set_touches_nothing(void **state)
{
    (void)state;
    const struct hr_attribute attribute = {HR_SPAN("user"), HR_SPAN("")};
    const struct hr_request request = {.attributes = &attribute, .attribute_count = 1};
    struct hr_limit_set set;
    struct hr_match match;
    build(NULL, 0, &set);
    assert_int_equal(hr_limit_set_match(&set, &request, &match), HR_OK);
    assert_int_equal(match.count, 0);
    free(set.names);
}

/* ---- How many limits a match looks at ---- */

#define MANY 1000

struct many {
    char texts[MANY][16];
    struct hr_pattern patterns[MANY][2];
    struct hr_condition when[MANY][2];
    struct hr_limit limits[MANY];
};

/* The limits that hold for "always", for each attribute's name and for its value: what a match looks at. */
static uint32_t candidates(const struct hr_limit_set *set, const struct hr_request *request)
{
    uint32_t count = set->always.count;
    for (uint32_t at = 0; at <= set->name_mask; at++) {
        const struct hr_set_entry *name = &set->names[at];
        const struct hr_span *value = name->used ? value_in(request, name->text) : NULL;
        count += value == NULL ? 0 : name->posting.count;
        for (uint32_t i = 0; value != NULL && i <= set->value_mask; i++) {
            const struct hr_set_entry *entry = &set->values[i];
            bool is_its = entry->used && entry->scope == name->number && hr_span_equal(entry->text, *value);
            count += is_its ? entry->posting.count : 0;
        }
    }
    return count;
}

/* Limit i: keyed by user, for one tenant (exact) and, as the fashion has it, a glob of routes. */
static void fill_many(struct many *many, bool with_glob)
{
    static const struct hr_span user = {"user", 4};
    for (uint32_t i = 0; i < MANY; i++) {
        (void)snprintf(many->texts[i], sizeof(many->texts[i]), "t%u", i);
        many->patterns[i][0] = (struct hr_pattern){.kind = HR_MATCH_EXACT, .text = hr_span_of(many->texts[i])};
        many->patterns[i][1] = (struct hr_pattern){.kind = HR_MATCH_GLOB, .text = HR_SPAN("pay*")};
        many->when[i][0] = (struct hr_condition){HR_SPAN("tenant"), false, 1, &many->patterns[i][0]};
        many->when[i][1] = (struct hr_condition){HR_SPAN("route"), false, 1, &many->patterns[i][1]};
        many->limits[i] = (struct hr_limit){.name = hr_span_of(many->texts[i]),
                                            .key = &user,
                                            .key_count = 1,
                                            .when = many->when[i],
                                            .when_count = with_glob ? 2 : 1};
    }
}

static void a_thousand_exact_limits_cost_a_match_no_more_than_ten(void **state)
{
    (void)state;
    static struct many many;
    for (int with_glob = 0; with_glob <= 1; with_glob++) {
        fill_many(&many, with_glob == 1);
        static const uint32_t sizes[] = {10, MANY};
        for (size_t i = 0; i < COUNT(sizes); i++) {
            struct hr_limit_set set;
            struct hr_match match;
            struct fixture_request request;
            build(many.limits, sizes[i], &set);
            fixture_request("user=ann tenant=t7 route=payments", 1, &request);
            assert_int_equal(hr_limit_set_match(&set, &request.request, &match), HR_OK);
            assert_int_equal(match.count, 1);
            assert_int_equal(match.limits[0], 7);
            assert_int_equal(candidates(&set, &request.request), 1);
            fixture_request("user=ann tenant=nobody route=payments", 1, &request);
            assert_int_equal(candidates(&set, &request.request), 0);
            free(set.names);
        }
    }
}

/* An exact condition that all limits share does not draw them all to itself when each has a rarer one. */
static void limits_are_filed_under_their_rarest_condition(void **state)
{
    (void)state;
    static struct many many;
    static const struct hr_pattern shared = {.kind = HR_MATCH_EXACT, .text = {"api", 3}};
    fill_many(&many, true);
    for (uint32_t i = 0; i < MANY; i++) {
        many.when[i][1] = (struct hr_condition){HR_SPAN("service"), false, 1, &shared};
    }
    struct hr_limit_set set;
    struct fixture_request request;
    build(many.limits, MANY, &set);
    fixture_request("user=ann service=api tenant=t500", 1, &request);
    assert_int_equal(candidates(&set, &request.request), 1);
    free(set.names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_match_finds_what_looking_at_every_limit_finds_in_the_files_order),
        cmocka_unit_test(names_and_values_that_differ_in_one_byte_are_told_apart),
        cmocka_unit_test(as_many_limits_as_may_be_touched_are_touched_and_one_more_is_an_error),
        cmocka_unit_test(too_many_limits_and_too_little_memory_are_errors),
        cmocka_unit_test(an_empty_set_touches_nothing),
        cmocka_unit_test(a_thousand_exact_limits_cost_a_match_no_more_than_ten),
        cmocka_unit_test(limits_are_filed_under_their_rarest_condition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
