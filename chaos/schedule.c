#include "chaos/schedule.h"

#include <inttypes.h>
#include <stdlib.h>

#include "chaos/clock.h"
#include "chaos/dice.h"

const struct hr_strike_form hr_strike_forms[HR_STRIKE_COUNT] = {
#define X(strike, name, places, unit, text) {name, places, unit, text},
    HR_STRIKE_LIST(X)
#undef X
};

bool hr_strike_find(struct hr_span name, enum hr_strike *ret_strike)
{
    for (enum hr_strike strike = 0; strike < HR_STRIKE_COUNT; strike++) {
        if (hr_span_equal(hr_span_of(hr_strike_forms[strike].name), name)) {
            *ret_strike = strike;
            return true;
        }
    }
    return false;
}

enum hr_err hr_schedule_add(struct hr_schedule *schedule, const struct hr_striking *striking)
{
    if (schedule->count == HR_SCHEDULE_MAX) {
        return HR_E_TOO_MANY;
    }
    if (schedule->count == schedule->room) {
        uint32_t room = schedule->room == 0 ? 64 : schedule->room * 2;
        struct hr_striking *all = reallocarray(schedule->all, room, sizeof(*all));
        if (all == NULL) {
            return HR_E_MEMORY;
        }
        schedule->all = all;
        schedule->room = room;
    }
    struct hr_striking whole = *striking; /* in milliseconds, as the text has it */
    whole.from -= whole.from % HR_NS_PER_MS;
    whole.until -= whole.until % HR_NS_PER_MS;
    uint32_t at = schedule->count++;
    for (; at > 0 && schedule->all[at - 1].from > whole.from; at--) {
        schedule->all[at] = schedule->all[at - 1];
    }
    schedule->all[at] = whole;
    return HR_OK;
}

void hr_schedule_deinit(struct hr_schedule *schedule)
{
    free(schedule->all);
    *schedule = (struct hr_schedule){0};
}

/* --- drawn from a seed --- */

#define GAP_MIN_NS HR_NS_PER_S
#define GAP_MAX_NS (60 * HR_NS_PER_S)
#define STRIKES_MIN 8 /* about, of a short run */
#define LASTS_MIN_NS (50 * HR_NS_PER_MS)

/* How hard each strike is, at its least and at its worst. A negative least is drawn on either side of nothing. */
static const int64_t ranges[HR_STRIKE_COUNT][2] = {
    [HR_STRIKE_SLOW] = {100, 200000},      [HR_STRIKE_STEP_WALL] = {-7200000, 7200000},
    [HR_STRIKE_DRIFT] = {-500, 500},       [HR_STRIKE_DISK_SLOW] = {20, 3000},
    [HR_STRIKE_LOSS] = {10000, 500000},    [HR_STRIKE_DELAY] = {5, 2000},
    [HR_STRIKE_TWICE] = {10000, 500000},   [HR_STRIKE_OVERTAKE] = {10000, 500000},
    [HR_STRIKE_NARROW] = {20000, 2000000},
};

/* What this seed is like: runs differ in kind, not only in degree, as some faults are switched off altogether (Groce
 * and others, Swarm Testing, 2012). */
struct swarm {
    struct hr_rng rng;
    struct hr_dice_waits waits;
    uint32_t strikes;
    hr_ns gap, lasts; /* means */
};

static struct swarm draw_swarm(const struct hr_schedule_wish *wish)
{
    struct swarm swarm = {.rng = hr_dice_fork(wish->seed, 1)};
    hr_dice_waits_init(&swarm.waits);
    for (uint32_t i = 0; i < HR_STRIKE_COUNT; i++) {
        swarm.strikes |= hr_rng_chance(&swarm.rng, 1, 2) ? wish->strikes & 1U << i : 0;
    }
    swarm.strikes = swarm.strikes == 0 ? wish->strikes : swarm.strikes;
    hr_ns gap_max = (wish->until - wish->from) / STRIKES_MIN;
    gap_max = gap_max < GAP_MIN_NS ? GAP_MIN_NS : gap_max > GAP_MAX_NS ? GAP_MAX_NS : gap_max;
    swarm.gap = hr_dice_between(&swarm.rng, GAP_MIN_NS, gap_max);
    swarm.lasts = hr_dice_between(&swarm.rng, HR_NS_PER_S, 60 * HR_NS_PER_S);
    return swarm;
}

static enum hr_strike draw_strike(struct swarm *swarm)
{
    for (;;) {
        enum hr_strike strike = (enum hr_strike)hr_rng_below(&swarm->rng, HR_STRIKE_COUNT);
        if ((swarm->strikes & 1U << strike) != 0) {
            return strike;
        }
    }
}

static struct hr_sim_place draw_place(struct swarm *swarm, struct hr_sim_shape shape)
{
    if (hr_rng_chance(&swarm->rng, 1, 4)) {
        return (struct hr_sim_place){HR_SIM_PLACE_REGION, (uint32_t)hr_rng_below(&swarm->rng, shape.regions)};
    }
    uint32_t nodes = shape.regions * shape.nodes;
    return (struct hr_sim_place){HR_SIM_PLACE_NODE, nodes > 1 ? (uint32_t)hr_rng_below(&swarm->rng, nodes) : 0};
}

static struct hr_striking draw_striking(struct swarm *swarm, const struct hr_schedule_wish *wish, hr_ns from)
{
    struct hr_striking striking = {.from = from, .strike = draw_strike(swarm)};
    bool is_short = hr_rng_chance(&swarm->rng, 1, 2); /* over before what it broke has healed by itself */
    hr_ns lasts = LASTS_MIN_NS + hr_dice_wait(&swarm->waits, &swarm->rng, is_short ? swarm->lasts / 32 : swarm->lasts);
    striking.until = from + lasts < wish->until ? from + lasts : wish->until;
    striking.number = hr_dice_between(&swarm->rng, ranges[striking.strike][0], ranges[striking.strike][1]);
    striking.places[0] = draw_place(swarm, wish->shape);
    striking.places[1] =
        hr_rng_chance(&swarm->rng, 1, 4) ? (struct hr_sim_place){HR_SIM_PLACE_ALL, 0} : draw_place(swarm, wish->shape);
    return striking;
}

/* Nothing is cut, lost or delayed within one node. */
static bool is_idle(const struct hr_striking *striking)
{
    const struct hr_sim_place *a = &striking->places[0], *b = &striking->places[1];
    bool is_same = a->kind == b->kind && a->index == b->index;
    return hr_strike_forms[striking->strike].places == 2 && is_same && a->kind == HR_SIM_PLACE_NODE;
}

/* The nodes of one region in turn, each from a moment later, and freed in another order. */
static enum hr_err add_swizzle(struct hr_schedule *schedule, struct swarm *swarm, const struct hr_schedule_wish *wish,
                               const struct hr_striking *model)
{
    uint32_t region = model->places[0].kind == HR_SIM_PLACE_REGION
                          ? model->places[0].index
                          : hr_sim_region_of(wish->shape, model->places[0].index);
    hr_ns lasts = model->until - model->from;
    for (uint32_t i = 0; i < wish->shape.nodes; i++) {
        struct hr_striking one = *model;
        one.places[0] = (struct hr_sim_place){HR_SIM_PLACE_NODE, region * wish->shape.nodes + i};
        one.from += hr_dice_between(&swarm->rng, 0, lasts / 3);
        one.until -= hr_dice_between(&swarm->rng, 0, lasts / 3);
        enum hr_err err = hr_rng_chance(&swarm->rng, 3, 4) ? hr_schedule_add(schedule, &one) : HR_OK;
        if (err != HR_OK) {
            return err;
        }
    }
    return HR_OK;
}

enum hr_err hr_schedule_draw(struct hr_schedule *schedule, const struct hr_schedule_wish *wish)
{
    struct swarm swarm = draw_swarm(wish);
    enum hr_err err = HR_OK;
    hr_ns at = wish->from;
    while (err == HR_OK && wish->strikes != 0) {
        at += HR_NS_PER_MS + hr_dice_wait(&swarm.waits, &swarm.rng, swarm.gap);
        if (at + LASTS_MIN_NS >= wish->until) {
            break;
        }
        struct hr_striking striking = draw_striking(&swarm, wish, at);
        if (striking.strike == HR_STRIKE_SWIZZLE) {
            err = add_swizzle(schedule, &swarm, wish, &striking);
        } else if (!is_idle(&striking)) {
            err = hr_schedule_add(schedule, &striking);
        }
    }
    return err == HR_E_TOO_MANY ? HR_OK : err;
}

/* --- as text --- */

void hr_striking_print(const struct hr_striking *striking, struct hr_sim_shape shape, FILE *out)
{
    const struct hr_strike_form *form = &hr_strike_forms[striking->strike];
    char place[HR_SIM_PLACE_BYTES_MAX];
    (void)fprintf(out, "%8" PRId64 "  %7" PRId64 "  %-11s", striking->from / HR_NS_PER_MS,
                  (striking->until - striking->from) / HR_NS_PER_MS, form->name);
    for (uint32_t i = 0; i < form->places; i++) {
        hr_sim_place_print(striking->places[i], shape, place);
        (void)fprintf(out, "  %s", place);
    }
    if (form->unit[0] != '\0') {
        (void)fprintf(out, "  %" PRId64, striking->number);
    }
    (void)fputc('\n', out);
}

void hr_schedule_print(const struct hr_schedule *schedule, struct hr_sim_shape shape, FILE *out)
{
    (void)fputs("# from_ms   for_ms  kind         where, number\n", out);
    for (uint32_t i = 0; i < schedule->count; i++) {
        hr_striking_print(&schedule->all[i], shape, out);
    }
}

#define WORDS_MAX 6

static struct hr_span take_line(struct hr_span *text)
{
    const char *end = memchr(text->at, '\n', text->bytes);
    struct hr_span line = {text->at, end == NULL ? text->bytes : (size_t)(end - text->at)};
    size_t taken = line.bytes + (end != NULL);
    *text = (struct hr_span){text->at + taken, text->bytes - taken};
    return line;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* How many there are; those beyond WORDS_MAX are counted only. What follows a '#' is a comment. */
static uint32_t split(struct hr_span line, struct hr_span words[WORDS_MAX])
{
    uint32_t count = 0;
    for (size_t i = 0; i < line.bytes && line.at[i] != '#';) {
        size_t begin = i;
        while (i < line.bytes && line.at[i] != '#' && !is_space(line.at[i])) {
            i++;
        }
        if (i == begin) {
            i++;
            continue;
        }
        if (count < WORDS_MAX) {
            words[count] = (struct hr_span){line.at + begin, i - begin};
        }
        count++;
    }
    return count;
}

/* A whole number of at most 15 digits. */
static bool parse_number(struct hr_span word, int64_t *ret_number)
{
    bool is_negative = word.bytes > 0 && word.at[0] == '-';
    size_t begin = is_negative ? 1 : 0;
    int64_t number = 0;
    if (word.bytes == begin || word.bytes > 15 + begin) {
        return false;
    }
    for (size_t i = begin; i < word.bytes; i++) {
        if (word.at[i] < '0' || word.at[i] > '9') {
            return false;
        }
        number = number * 10 + (word.at[i] - '0');
    }
    *ret_number = is_negative ? -number : number;
    return true;
}

/* Milliseconds to nanoseconds; at most some 30 years. */
static bool parse_ms(struct hr_span word, hr_ns *ret_ns)
{
    int64_t ms;
    if (!parse_number(word, &ms) || ms < 0 || ms > INT64_C(1000000000000)) {
        return false;
    }
    *ret_ns = ms * HR_NS_PER_MS;
    return true;
}

/* A number of a file may be harder than any that is drawn, but never so large that a sum could overflow. */
static bool number_is_good(enum hr_strike strike, int64_t number)
{
    const int64_t max = strike == HR_STRIKE_DRIFT ? HR_SIM_DRIFT_PPM_MAX : INT64_C(1000000000);
    int64_t min = ranges[strike][0] < 0 ? -max : 1;
    return number >= min && number <= max;
}

/* NULL, or what is wrong. */
static const char *parse_words(const struct hr_span *words, uint32_t count, struct hr_sim_shape shape,
                               struct hr_striking *ret_striking)
{
    hr_ns lasts;
    if (count < 3 || !parse_ms(words[0], &ret_striking->from) || !parse_ms(words[1], &lasts)) {
        return "expected FROM_MS FOR_MS KIND, then where, then a number where the kind has one";
    }
    ret_striking->until = ret_striking->from + lasts;
    if (!hr_strike_find(words[2], &ret_striking->strike)) {
        return "no such kind of fault: headroom-chaos list shows all";
    }
    const struct hr_strike_form *form = &hr_strike_forms[ret_striking->strike];
    bool has_number = form->unit[0] != '\0';
    if (count != 3 + form->places + (has_number ? 1 : 0)) {
        return "this kind has another number of places, or a number too many or too few";
    }
    for (uint32_t i = 0; i < form->places; i++) {
        if (!hr_sim_place_parse(words[3 + i], shape, &ret_striking->places[i])) {
            return "no such place in this cluster";
        }
    }
    if (has_number && (!parse_number(words[3 + form->places], &ret_striking->number) ||
                       !number_is_good(ret_striking->strike, ret_striking->number))) {
        return "the number is out of range";
    }
    return NULL;
}

bool hr_schedule_parse(struct hr_schedule *schedule, struct hr_span text, const char *path, struct hr_sim_shape shape,
                       struct hr_problem *ret_problem)
{
    struct hr_span words[WORDS_MAX];
    for (uint32_t number = 1; text.bytes > 0; number++) {
        struct hr_striking striking = {0};
        uint32_t count = split(take_line(&text), words);
        if (count == 0) {
            continue;
        }
        const char *what = parse_words(words, count, shape, &striking);
        enum hr_err err = what == NULL ? hr_schedule_add(schedule, &striking) : HR_OK;
        if (what != NULL || err != HR_OK) {
            hr_problem_what(ret_problem, "%s", what != NULL ? what : hr_err_text(err));
            hr_problem_where(ret_problem, "%s:%u", path, number);
            return false;
        }
    }
    return true;
}
