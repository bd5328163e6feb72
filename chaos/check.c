#include "chaos/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "chaos/model.h"

const struct hr_check_form hr_check_forms[HR_CHECK_COUNT] = {
#define X(check, name, text) {name, text},
    HR_CHECK_LIST(X)
#undef X
};

/* What a crash could make a node forget: a charge that its disk has not acknowledged. */
struct charge {
    hr_ns at;
    uint32_t counter;
    uint64_t cost;
    struct hr_id128 lease;
};

/* Charges in the order in which they came; a ring. */
struct charges {
    struct charge *ring;
    uint32_t first, count, room; /* a power of two */
};

#define NEVER INT64_MIN

struct domain {
    struct hr_model *models; /* of each counter */
    struct charges charges;
    hr_ns crashed_at; /* the steady time of its last crash or start after one; NEVER */
    hr_ns stepped_at;
    int64_t latest_wall_ns; /* at any of those; NEVER: there were none */
};

struct hr_checker {
    struct hr_checker_config config;
    struct domain *domains;
    struct hr_verdict verdicts[HR_CHECK_COUNT];
    enum hr_check first;
};

static const struct hr_limit *limit_of(const struct hr_checker *checker, uint32_t counter)
{
    const struct hr_universe *universe = checker->config.universe;
    return &universe->limits->limits[universe->counter_limits[counter]];
}

struct hr_checker *hr_checker_new(const struct hr_checker_config *config)
{
    struct hr_checker *checker = calloc(1, sizeof(*checker));
    struct domain *domains = calloc(config->domains, sizeof(*domains));
    if (checker == NULL || domains == NULL) {
        free(checker);
        free(domains);
        return NULL;
    }
    *checker = (struct hr_checker){.config = *config, .domains = domains, .first = HR_CHECK_COUNT};
    for (uint32_t i = 0; i < config->domains; i++) {
        domains[i] = (struct domain){.crashed_at = NEVER, .stepped_at = NEVER, .latest_wall_ns = NEVER};
        domains[i].models = calloc(config->universe->counter_count + 1, sizeof(struct hr_model));
        if (domains[i].models == NULL) {
            hr_checker_free(checker);
            return NULL;
        }
    }
    return checker;
}

void hr_checker_free(struct hr_checker *checker)
{
    if (checker == NULL) {
        return;
    }
    for (uint32_t i = 0; i < checker->config.domains; i++) {
        struct domain *domain = &checker->domains[i];
        for (uint32_t k = 0; domain->models != NULL && k < checker->config.universe->counter_count; k++) {
            hr_model_deinit(&domain->models[k], &limit_of(checker, k)->rule);
        }
        free(domain->models);
        free(domain->charges.ring);
    }
    free(checker->domains);
    free(checker);
}

const struct hr_verdict *hr_checker_verdicts(const struct hr_checker *checker)
{
    return checker->verdicts;
}

enum hr_check hr_checker_first(const struct hr_checker *checker)
{
    return checker->first;
}

void hr_checker_note(struct hr_checker *checker, enum hr_check check, bool holds, hr_ns at, const char *format, ...)
{
    struct hr_verdict *verdict = &checker->verdicts[check];
    verdict->checked++;
    if (holds || verdict->violated++ > 0) {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(verdict->first, sizeof(verdict->first), format, args); /* a cut text still tells what it is about */
    va_end(args);
    verdict->first_at = at;
    checker->first = checker->first == HR_CHECK_COUNT ? check : checker->first;
}

/* To now, or as far as its node's clock may have taken it. */
static void advance(const struct domain *domain, struct hr_model *model, const struct hr_rule *rule, struct hr_now now)
{
    hr_model_advance(model, rule, now);
    if (domain->latest_wall_ns != NEVER) {
        hr_model_loosen(model, rule, (struct hr_wall){domain->latest_wall_ns});
    }
}

/* --- charges that a crash may forget --- */

static enum hr_err grow(struct charges *charges)
{
    uint32_t room = charges->room == 0 ? 1024 : charges->room * 2;
    struct charge *ring = calloc(room, sizeof(*ring));
    if (ring == NULL) {
        return HR_E_MEMORY;
    }
    for (uint32_t i = 0; i < charges->count; i++) {
        ring[i] = charges->ring[(charges->first + i) & (charges->room - 1)];
    }
    free(charges->ring);
    *charges = (struct charges){ring, 0, charges->count, room};
    return HR_OK;
}

static enum hr_err remember(struct charges *charges, const struct charge *charge)
{
    if (charges->count == charges->room && grow(charges) != HR_OK) {
        return HR_E_MEMORY;
    }
    charges->ring[(charges->first + charges->count++) & (charges->room - 1)] = *charge;
    return HR_OK;
}

void hr_checker_durable(struct hr_checker *checker, uint32_t domain, hr_ns until)
{
    struct charges *charges = &checker->domains[domain].charges;
    while (charges->count > 0 && charges->ring[charges->first].at < until) {
        charges->first = (charges->first + 1) & (charges->room - 1);
        charges->count--;
    }
}

static void forgive_all(struct hr_checker *checker, struct domain *domain)
{
    struct charges *charges = &domain->charges;
    while (charges->count > 0) {
        charges->count--;
        const struct charge *charge = &charges->ring[(charges->first + charges->count) & (charges->room - 1)];
        hr_model_forgive(&domain->models[charge->counter], &limit_of(checker, charge->counter)->rule, charge->cost,
                         charge->lease);
    }
}

static void note_wall(struct domain *domain, struct hr_now now)
{
    domain->latest_wall_ns = now.wall.ns > domain->latest_wall_ns ? now.wall.ns : domain->latest_wall_ns;
}

void hr_checker_crash(struct hr_checker *checker, uint32_t index, struct hr_now now)
{
    struct domain *domain = &checker->domains[index];
    for (uint32_t i = 0; i < checker->config.universe->counter_count; i++) {
        if (limit_of(checker, i)->durability == HR_MEMORY) {
            hr_model_deinit(&domain->models[i], &limit_of(checker, i)->rule);
        } else {
            advance(domain, &domain->models[i], &limit_of(checker, i)->rule, now);
        }
    }
    forgive_all(checker, domain);
    hr_checker_restart(checker, index, now);
}

void hr_checker_restart(struct hr_checker *checker, uint32_t index, struct hr_now now)
{
    struct domain *domain = &checker->domains[index];
    domain->crashed_at = now.steady;
    note_wall(domain, now);
    for (uint32_t i = 0; i < checker->config.universe->counter_count; i++) {
        advance(domain, &domain->models[i], &limit_of(checker, i)->rule, now);
        hr_model_doubt(&domain->models[i], &limit_of(checker, i)->rule);
    }
}

void hr_checker_stepped(struct hr_checker *checker, uint32_t domain, struct hr_now now)
{
    checker->domains[domain].stepped_at = now.steady;
    note_wall(&checker->domains[domain], now);
}

/* --- decisions --- */

static bool is_since(hr_ns event, hr_ns lasts, hr_ns now)
{
    return event != NEVER && (lasts >= HR_TIME_NS_MAX || now - event <= lasts);
}

/* After a crash or a step of the clock a counter may stand in the period that comes next, and be spent there, before
 * the clock comes to it: what was spent stays spent. Only the one after that is certain to have begun afresh. */
static bool is_fresh_period(const struct domain *domain, const struct hr_model *model, const struct hr_rule *rule)
{
    if (domain->latest_wall_ns == NEVER) {
        return true;
    }
    struct hr_period latest = hr_period_at(rule->zone, rule->unit, domain->latest_wall_ns / HR_NS_PER_S);
    return model->quota.first > latest.number;
}

static bool is_exact(const struct domain *domain, const struct hr_model *model, const struct hr_rule *rule,
                     struct hr_now now)
{
    if (rule->algorithm == HR_QUOTA) {
        return is_fresh_period(domain, model, rule);
    }
    return hr_model_is_settled(model, rule) && !is_since(domain->crashed_at, hr_model_drain_ns(rule), now.steady);
}

/* Which promise a counter that admits too much has broken. */
static enum hr_check check_of(const struct domain *domain, const struct hr_rule *rule, struct hr_now now)
{
    hr_ns drain_ns = hr_model_drain_ns(rule);
    if (rule->algorithm == HR_CONCURRENCY) {
        return HR_CHECK_LEASES;
    }
    if (is_since(domain->crashed_at, drain_ns, now.steady)) {
        return HR_CHECK_DURABLE;
    }
    return is_since(domain->stepped_at, drain_ns, now.steady) ? HR_CHECK_CLOCKS : HR_CHECK_ADMITS;
}

static void judge(struct hr_checker *checker, const struct hr_decided *decided, const struct hr_sim_touch *touch,
                  bool is_allowed_rightly)
{
    const struct hr_limit *limit = &checker->config.universe->limits->limits[touch->limit];
    const struct domain *domain = &checker->domains[decided->domain];
    enum hr_check check = check_of(domain, &limit->rule, decided->now);
    if (is_allowed_rightly) {
        checker->verdicts[check].checked++; /* the common case: nothing to be said */
        return;
    }
    hr_checker_note(checker, check, false, decided->at,
                    "%.*s, counter %u of domain %u: a request of cost %" PRIu64 " was admitted with %" PRIu64
                    " of %" PRIu64 " left",
                    (int)limit->name.bytes, limit->name.at, touch->counter, decided->domain, decided->shape->cost,
                    hr_model_remaining(&domain->models[touch->counter], &limit->rule, decided->now),
                    limit->rule.capacity);
}

static struct hr_id128 find_lease(const struct hr_told_decision *told, const struct hr_limit *limit)
{
    for (uint32_t i = 0; i < told->row_count; i++) {
        if (told->rows[i].has_lease && hr_span_equal(told->rows[i].name, limit->name)) {
            return told->rows[i].lease;
        }
    }
    return (struct hr_id128){0, 0};
}

static enum hr_err charge(struct hr_checker *checker, const struct hr_decided *decided,
                          const struct hr_sim_touch *touch, const struct hr_told_decision *told)
{
    struct domain *domain = &checker->domains[decided->domain];
    const struct hr_limit *limit = &checker->config.universe->limits->limits[touch->limit];
    const struct charge charge = {
        .at = decided->now.steady,
        .counter = touch->counter,
        .cost = decided->shape->cost,
        .lease = limit->rule.algorithm == HR_CONCURRENCY ? find_lease(told, limit) : (struct hr_id128){0, 0},
    };
    enum hr_err err =
        hr_model_charge(&domain->models[touch->counter], &limit->rule, charge.cost, decided->now, charge.lease);
    bool may_be_forgotten = limit->durability == HR_PERIODIC && charge.cost > 0;
    return err == HR_OK && may_be_forgotten ? remember(&domain->charges, &charge) : err;
}

static enum hr_err check_admitted(struct hr_checker *checker, const struct hr_decided *decided,
                                  const struct hr_told_decision *told)
{
    const struct hr_shape *shape = decided->shape;
    const struct domain *domain = &checker->domains[decided->domain];
    for (uint32_t i = 0; i < shape->touch_count; i++) {
        const struct hr_sim_touch *touch = &shape->touches[i];
        const struct hr_rule *rule = &checker->config.universe->limits->limits[touch->limit].rule;
        bool fits = hr_model_fits(&domain->models[touch->counter], rule, shape->cost, decided->now);
        judge(checker, decided, touch, fits);
        enum hr_err err = charge(checker, decided, touch, told);
        if (err != HR_OK) {
            return err;
        }
    }
    return HR_OK;
}

/* A denial is right where one counter has no room, or where one may have less than its model knows. */
static void check_denied(struct hr_checker *checker, const struct hr_decided *decided)
{
    const struct hr_shape *shape = decided->shape;
    const struct domain *domain = &checker->domains[decided->domain];
    bool is_right = false;
    for (uint32_t i = 0; i < shape->touch_count && !is_right; i++) {
        const struct hr_model *model = &domain->models[shape->touches[i].counter];
        const struct hr_rule *rule = &checker->config.universe->limits->limits[shape->touches[i].limit].rule;
        is_right =
            !hr_model_fits(model, rule, shape->cost, decided->now) || !is_exact(domain, model, rule, decided->now);
    }
    hr_checker_note(checker, HR_CHECK_DENIES, is_right, decided->at,
                    "domain %u: a request of cost %" PRIu64 " was denied, and each of its %u counters has room",
                    decided->domain, shape->cost, shape->touch_count);
}

enum hr_err hr_checker_decide(struct hr_checker *checker, const struct hr_decided *decided,
                              const struct hr_told_decision *told)
{
    struct domain *domain = &checker->domains[decided->domain];
    for (uint32_t i = 0; i < decided->shape->touch_count; i++) {
        const struct hr_sim_touch *touch = &decided->shape->touches[i];
        hr_model_advance(&domain->models[touch->counter], &checker->config.universe->limits->limits[touch->limit].rule,
                         decided->now);
    }
    if (told->allowed) {
        return check_admitted(checker, decided, told);
    }
    check_denied(checker, decided);
    return HR_OK;
}

/* --- audits --- */

static const struct hr_told_row *find_row(const struct hr_told_decision *told, struct hr_span name)
{
    for (uint32_t i = 0; i < told->row_count; i++) {
        if (hr_span_equal(told->rows[i].name, name)) {
            return &told->rows[i];
        }
    }
    return NULL;
}

/* What a node says is left may never be more than what is; nor less, where that is known exactly. */
static void audit_one(struct hr_checker *checker, const struct hr_decided *decided, const struct hr_sim_touch *touch,
                      const struct hr_told_decision *told, enum hr_check check)
{
    const struct domain *domain = &checker->domains[decided->domain];
    const struct hr_limit *limit = &checker->config.universe->limits->limits[touch->limit];
    struct hr_model model = domain->models[touch->counter]; /* a look must not move it: the list is only read */
    advance(domain, &model, &limit->rule, decided->now);
    uint64_t left = hr_model_remaining(&model, &limit->rule, decided->now);
    const struct hr_told_row *row = find_row(told, limit->name);
    bool holds = row != NULL && row->remaining <= left &&
                 (row->remaining == left || !is_exact(domain, &model, &limit->rule, decided->now));
    hr_checker_note(checker, check, holds, decided->at,
                    "%.*s, counter %u of domain %u: the node says %" PRIu64 " are left, the definition %" PRIu64,
                    (int)limit->name.bytes, limit->name.at, touch->counter, decided->domain,
                    row == NULL ? 0 : row->remaining, left);
}

void hr_checker_audit(struct hr_checker *checker, const struct hr_decided *decided, const struct hr_told_decision *told,
                      enum hr_check check)
{
    for (uint32_t i = 0; i < decided->shape->touch_count; i++) {
        audit_one(checker, decided, &decided->shape->touches[i], told, check);
    }
}

void hr_checker_release(struct hr_checker *checker, const struct hr_decided *decided, struct hr_id128 lease,
                        bool was_there)
{
    struct domain *domain = &checker->domains[decided->domain];
    for (uint32_t i = 0; i < decided->shape->touch_count; i++) {
        const struct hr_sim_touch *touch = &decided->shape->touches[i];
        const struct hr_rule *rule = &checker->config.universe->limits->limits[touch->limit].rule;
        struct hr_model *model = &domain->models[touch->counter];
        if (rule->algorithm != HR_CONCURRENCY) {
            continue;
        }
        advance(domain, model, rule, decided->now);
        if (hr_model_release(model, lease)) {
            bool may_be_gone = !is_exact(domain, model, rule, decided->now);
            hr_checker_note(checker, HR_CHECK_LEASES, was_there || may_be_gone, decided->at,
                            "domain %u: a lease that was held was gone when it was given back", decided->domain);
            return;
        }
    }
}
