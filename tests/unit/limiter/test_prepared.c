/* Prepared requests: decided in two steps they get, number for number, what one call each gives, over random streams of
 * all algorithms, with reloads, sweeps and full tables in between. And the short way that most requests take, against
 * the general one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tests/lib/limiter_fixture.h"

#define LIMITS_DRAWN_MAX 8
#define BATCH_MAX 40

/* --- comparing --- */

static bool row_is_same(const struct hr_row *a, const struct hr_row *b, bool brief)
{
    return hr_span_equal(a->limit->name, b->limit->name) && a->allowed == b->allowed && a->has_lease == b->has_lease &&
           hr_id128_equal(a->counter, b->counter) && a->retry_after_ms == b->retry_after_ms &&
           (brief || (a->remaining == b->remaining && a->reset_after_ms == b->reset_after_ms)) &&
           (!a->has_lease || hr_id128_equal(a->lease, b->lease));
}

static bool verdict_is_same(const struct hr_decision *a, const struct hr_decision *b)
{
    bool both = a->decided_by != NULL && b->decided_by != NULL;
    return a->allowed == b->allowed && a->action == b->action && a->retry_after_ms == b->retry_after_ms &&
           a->delay_ms == b->delay_ms && (a->decided_by == NULL) == (b->decided_by == NULL) &&
           (!both || hr_span_equal(a->decided_by->name, b->decided_by->name));
}

static bool decision_is_same(const struct hr_decision *a, const struct hr_decision *b, bool brief)
{
    bool is_same = verdict_is_same(a, b) && a->row_count == b->row_count;
    for (uint32_t i = 0; i < a->row_count && is_same; i++) {
        is_same = row_is_same(&a->rows[i], &b->rows[i], brief);
    }
    return is_same;
}

static void expect_same_state(struct fixture *a, struct fixture *b, size_t limits, uint64_t seed)
{
    struct hr_limiter_usage x = hr_limiter_usage(a->limiter), y = hr_limiter_usage(b->limiter);
    if (x.counters != y.counters || x.leases != y.leases || x.log_blocks != y.log_blocks) {
        fail_msg("seed %llu: not the same in use", (unsigned long long)seed);
    }
    for (uint32_t i = 0; i < limits; i++) {
        struct hr_tally of_a = hr_limiter_tally(a->limiter, i), of_b = hr_limiter_tally(b->limiter, i);
        if (of_a.admitted != of_b.admitted || of_a.denied != of_b.denied) {
            fail_msg("seed %llu: limit %u has not the same tally", (unsigned long long)seed, i);
        }
    }
}

/* --- drawing --- */

static size_t draw_limits(struct hr_rng *rng, struct fixture_limit *limits)
{
    static const char *const limit_names[LIMITS_DRAWN_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    static const char *const keys[] = {NULL, "user", "plan", "user plan", "user plan route", "route"};
    static const char *const whens[] = {NULL, NULL, "route=r1", "plan=!p0", "route=r* plan=p1"};
    size_t count = 1 + hr_rng_below(rng, hr_rng_chance(rng, 1, 2) ? 1 : LIMITS_DRAWN_MAX);
    for (size_t i = 0; i < count; i++) {
        enum hr_algorithm algorithm = (enum hr_algorithm)hr_rng_below(rng, ALGORITHM_COUNT);
        limits[i] = (struct fixture_limit){
            .name = limit_names[i],
            .key = keys[hr_rng_below(rng, COUNT(keys))],
            .when = whens[hr_rng_below(rng, COUNT(whens))],
            .rule = any_rule(algorithm, 1 + hr_rng_below(rng, 20)),
            .mode = hr_rng_chance(rng, 1, 4) ? HR_SHADOW : HR_ENFORCE,
        };
    }
    return count;
}

struct drawn_request {
    char text[64];
    struct fixture_request parsed;
};

static void draw_request(struct hr_rng *rng, uint64_t serial, struct drawn_request *drawn)
{
    unsigned user = (unsigned)hr_rng_below(rng, 4), plan = (unsigned)hr_rng_below(rng, 2);
    unsigned route = (unsigned)hr_rng_below(rng, 3);
    (void)snprintf(drawn->text, sizeof(drawn->text), "user=u%u plan=p%u route=r%u", user, plan, route);
    fixture_request(drawn->text, hr_rng_below(rng, 5), &drawn->parsed);
    struct hr_request *request = &drawn->parsed.request;
    request->attribute_count -= (uint32_t)hr_rng_below(rng, 2); /* now and then without a route */
    request->peek = hr_rng_chance(rng, 1, 8);
    request->brief = hr_rng_chance(rng, 1, 8);
    request->serial = serial;
    if (hr_rng_chance(rng, 1, 20)) {
        request->cost = 1000; /* more than any limit holds */
    }
}

/* --- one stream through two limiters --- */

struct stream {
    struct fixture one_by_one, in_batches;
    struct hr_rng rng;
    uint64_t seed, serial;
    struct fixture_limit limits[LIMITS_DRAWN_MAX];
    size_t limit_count;
    struct drawn_request requests[BATCH_MAX];
    struct hr_prepared prepared[BATCH_MAX];
};

static void load_both(struct stream *stream)
{
    stream->limit_count = draw_limits(&stream->rng, stream->limits);
    fixture_load(&stream->one_by_one, stream->limits, stream->limit_count);
    fixture_load(&stream->in_batches, stream->limits, stream->limit_count);
}

static void disturb(struct stream *stream)
{
    if (hr_rng_chance(&stream->rng, 1, 60)) {
        load_both(stream);
    }
    if (hr_rng_chance(&stream->rng, 1, 30)) {
        fixture_sweep(&stream->one_by_one);
        fixture_sweep(&stream->in_batches);
    }
    int64_t ns = (int64_t)hr_rng_below(&stream->rng, SECONDS(hr_rng_chance(&stream->rng, 1, 30) ? 500 : 5));
    fixture_pass(&stream->one_by_one, ns);
    fixture_pass(&stream->in_batches, ns);
}

static void decide_both(struct stream *stream, size_t i)
{
    struct fixture *one = &stream->one_by_one, *batch = &stream->in_batches;
    const struct hr_request *request = &stream->requests[i].parsed.request;
    enum hr_err err = hr_limiter_check(one->limiter, request, one->now, &one->decision);
    enum hr_err err_prepared =
        hr_limiter_check_prepared(batch->limiter, request, &stream->prepared[i], batch->now, &batch->decision);
    if (err != err_prepared || (err == HR_OK && !decision_is_same(&one->decision, &batch->decision, request->brief))) {
        fail_msg("seed %llu: request %zu of a batch, %s, is decided otherwise", (unsigned long long)stream->seed, i,
                 stream->requests[i].text);
    }
}

static void run_batch(struct stream *stream)
{
    size_t count = 1 + hr_rng_below(&stream->rng, BATCH_MAX);
    size_t decided = hr_rng_chance(&stream->rng, 1, 8) ? count / 2 : count;
    for (size_t i = 0; i < count; i++) {
        draw_request(&stream->rng, ++stream->serial, &stream->requests[i]);
        memset(&stream->prepared[i], hr_rng_chance(&stream->rng, 1, 2) ? 0xa5 : 0, sizeof(stream->prepared[i]));
        hr_limiter_prepare(stream->in_batches.limiter, &stream->requests[i].parsed.request, &stream->prepared[i]);
    }
    for (size_t i = 0; i < decided; i++) {
        disturb(stream);
        decide_both(stream, i);
    }
}

static void a_stream_in_batches_is_decided_as_it_is_one_by_one(void **state)
{
    (void)state;
    static struct stream stream;
    const struct hr_limiter_sizes ample = {
        .counters_max = 4096, .leases_max = 4096, .log_blocks_max = 4096, .limits_max = 16};
    const struct hr_limiter_sizes scarce = {.counters_max = 6, .leases_max = 4, .log_blocks_max = 3, .limits_max = 16};
    print_message("seeds 0 to 299\n");
    for (uint64_t seed = 0; seed < 300; seed++) {
        stream = (struct stream){.seed = seed, .rng = {seed}};
        fixture_open(&stream.one_by_one, seed % 3 == 0 ? scarce : ample);
        fixture_open(&stream.in_batches, seed % 3 == 0 ? scarce : ample);
        load_both(&stream);
        for (int batch = 0; batch < 20; batch++) {
            run_batch(&stream);
            expect_same_state(&stream.one_by_one, &stream.in_batches, stream.limit_count, seed);
        }
        fixture_close(&stream.one_by_one);
        fixture_close(&stream.in_batches);
    }
}

/* --- its edges --- */

static void what_was_never_prepared_and_what_was_before_a_load_is_decided_afresh(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_request request;
    struct hr_prepared prepared = {0};
    const struct fixture_limit limit = {.name = "one", .key = "user", .rule = any_rule(HR_TOKEN_BUCKET, 5)};
    const struct fixture_limit others[] = {{.name = "two", .rule = any_rule(HR_FIXED_WINDOW, 5)},
                                           {.name = "one", .key = "plan", .rule = any_rule(HR_TOKEN_BUCKET, 5)}};
    fixture_request("user=ann plan=pro", 1, &request);
    fixture_open_ample(&fixture);
    for (int step = 0; step < 3; step++) { /* no limits yet; limits that the zeroes know nothing of; other limits */
        if (step > 0) {
            fixture_load(&fixture, step == 1 ? &limit : others, step == 1 ? 1 : 2);
        }
        assert_int_equal(
            hr_limiter_check_prepared(fixture.limiter, &request.request, &prepared, fixture.now, &fixture.decision),
            HR_OK);
        assert_int_equal(fixture.decision.row_count, step);
        if (step == 1) {
            hr_limiter_prepare(fixture.limiter, &request.request, &prepared);
            assert_true(prepared.is_known);
        }
    }
    fixture_close(&fixture);
}

static void a_request_that_touches_too_many_limits_is_prepared_and_then_the_error(void **state)
{
    (void)state;
    static struct fixture_limit limits[HR_TOUCHED_MAX + 1];
    static char names[HR_TOUCHED_MAX + 1][8];
    struct fixture fixture;
    struct fixture_request request;
    struct hr_prepared prepared;
    fixture_request("user=ann", 1, &request);
    fixture_open(&fixture, (struct hr_limiter_sizes){.counters_max = 4096, .limits_max = 256});
    for (size_t i = 0; i < COUNT(limits); i++) {
        (void)snprintf(names[i], sizeof(names[i]), "l%zu", i);
        limits[i] = (struct fixture_limit){.name = names[i], .rule = any_rule(HR_TOKEN_BUCKET, 5)};
    }
    for (size_t count = HR_TOUCHED_MAX; count <= COUNT(limits); count++) {
        fixture_load(&fixture, limits, count);
        hr_limiter_prepare(fixture.limiter, &request.request, &prepared);
        enum hr_err err =
            hr_limiter_check_prepared(fixture.limiter, &request.request, &prepared, fixture.now, &fixture.decision);
        assert_int_equal(err, count > HR_TOUCHED_MAX ? HR_E_TOO_MANY : HR_OK);
    }
    fixture_close(&fixture);
}

/* --- the short way --- */

/* Beside the limit, one in shadow that always fits: the request then goes the general way. */
static void load_beside(struct fixture *alone, struct fixture *beside, const struct fixture_limit *limit)
{
    const struct fixture_limit two[] = {
        *limit, {.name = "beside", .rule = any_rule(HR_FIXED_WINDOW, HR_COST_MAX), .mode = HR_SHADOW}};
    fixture_load(alone, limit, 1);
    fixture_load(beside, two, 2);
}

static struct hr_rule draw_bucket(struct hr_rng *rng)
{
    uint64_t rate = 1 + hr_rng_below(rng, hr_rng_chance(rng, 1, 8) ? HR_COST_MAX : 100);
    uint64_t burst = 1 + hr_rng_below(rng, hr_rng_chance(rng, 1, 8) ? HR_COST_MAX : 100);
    int64_t period_ns = 1 + (int64_t)hr_rng_below(rng, hr_rng_chance(rng, 1, 8) ? HR_PERIOD_NS_MAX : SECONDS(10));
    return bucket(hr_rng_chance(rng, 1, 2) ? HR_TOKEN_BUCKET : HR_GCRA, rate, period_ns, burst);
}

static void compare_ways(struct fixture *alone, struct fixture *beside, struct hr_rng *rng, uint64_t seed)
{
    struct drawn_request drawn;
    draw_request(rng, 1, &drawn);
    struct hr_request *request = &drawn.parsed.request;
    if (hr_rng_chance(rng, 1, 10)) {
        request->cost = hr_rng_below(rng, HR_COST_MAX + 1);
    }
    assert_int_equal(hr_limiter_check(alone->limiter, request, alone->now, &alone->decision), HR_OK);
    assert_int_equal(hr_limiter_check(beside->limiter, request, beside->now, &beside->decision), HR_OK);
    assert_int_equal(alone->decision.row_count, 1);
    assert_int_equal(beside->decision.row_count, 2);
    if (!verdict_is_same(&alone->decision, &beside->decision) ||
        !row_is_same(&alone->decision.rows[0], &beside->decision.rows[0], request->brief)) {
        fail_msg("seed %llu: %s, cost %llu", (unsigned long long)seed, drawn.text, (unsigned long long)request->cost);
    }
}

static void one_bucket_alone_is_decided_as_it_is_beside_another_limit(void **state)
{
    (void)state;
    print_message("seeds 0 to 199\n");
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct fixture alone, beside;
        struct hr_rng rng = {seed};
        fixture_open_ample(&alone);
        fixture_open_ample(&beside);
        struct fixture_limit limit = {.name = "one", .key = "user"};
        for (int step = 0; step < 400; step++) {
            if (step % 100 == 0) {
                limit.rule = draw_bucket(&rng);
                limit.mode = hr_rng_chance(&rng, 1, 4) ? HR_SHADOW : HR_ENFORCE;
                load_beside(&alone, &beside, &limit);
            }
            compare_ways(&alone, &beside, &rng, seed);
            int64_t ns = (int64_t)hr_rng_below(&rng, hr_rng_chance(&rng, 1, 20) ? SECONDS(1000) : SECONDS(1));
            fixture_pass(&alone, ns);
            fixture_pass(&beside, ns);
        }
        struct hr_tally of_alone = hr_limiter_tally(alone.limiter, 0), of_beside = hr_limiter_tally(beside.limiter, 0);
        assert_int_equal(of_alone.admitted, of_beside.admitted);
        assert_int_equal(of_alone.denied, of_beside.denied);
        fixture_close(&alone);
        fixture_close(&beside);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_in_batches_is_decided_as_it_is_one_by_one),
        cmocka_unit_test(what_was_never_prepared_and_what_was_before_a_load_is_decided_afresh),
        cmocka_unit_test(a_request_that_touches_too_many_limits_is_prepared_and_then_the_error),
        cmocka_unit_test(one_bucket_alone_is_decided_as_it_is_beside_another_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
