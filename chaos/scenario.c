#include "chaos/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/doc_yaml.h"

#define MILLION 1000000

#define COUNT_OF(array) (uint32_t)(sizeof(array) / sizeof((array)[0]))

/* What a reader works on. Each read_ function is false with *problem filled in. */
struct reader {
    const struct hr_doc *doc;
    struct hr_scenario *scenario;
    struct hr_problem *problem;
};

static const char *const deeds[HR_DEED_COUNT] = {"cut",  "mute", "deaf",  "delay", "loss",
                                                 "kill", "stop", "pause", "fill",  "clock"};

const char *hr_deed_name(enum hr_deed deed)
{
    return deeds[deed];
}

/* --- single values --- */

/* Where node is 0 the default stays. */
static bool read_text(const struct reader *r, hr_doc_node node, const char *what, size_t room, char *text)
{
    struct hr_span span;
    if (node == 0) {
        return true;
    }
    if (!hr_doc_scalar(r->doc, node, what, &span, r->problem)) {
        return false;
    }
    if (span.bytes == 0 || span.bytes >= room) {
        return hr_doc_fault(r->doc, node, r->problem, "%s must be 1 to %zu bytes", what, room - 1);
    }
    memcpy(text, span.at, span.bytes);
    text[span.bytes] = '\0';
    return true;
}

/* "30s"; "0s" too, which no limits file may say. */
static bool read_time(const struct reader *r, hr_doc_node node, const char *what, hr_ns *ret_ns)
{
    struct hr_span text;
    uint64_t ns = 0;
    if (node == 0) {
        return true;
    }
    if (!hr_doc_scalar(r->doc, node, what, &text, r->problem)) {
        return false;
    }
    bool is_zero = hr_span_equal(text, HR_SPAN("0s"));
    if ((!is_zero && hr_period_parse(text, &ns) != HR_OK) || ns > (uint64_t)HR_SCENARIO_LASTS_NS_MAX) {
        return hr_doc_fault(r->doc, node, r->problem, "%s must be a time as 500ms or 30s, 1h at most", what);
    }
    *ret_ns = (hr_ns)ns;
    return true;
}

/* "5s" or "-5s", in milliseconds. */
static bool read_offset(const struct reader *r, hr_doc_node node, const char *what, int64_t *ret_ms)
{
    struct hr_span text;
    uint64_t ns = 0;
    if (node == 0) {
        return true;
    }
    if (!hr_doc_scalar(r->doc, node, what, &text, r->problem)) {
        return false;
    }
    bool is_back = text.bytes > 0 && text.at[0] == '-';
    struct hr_span amount = {text.at + is_back, text.bytes - is_back};
    if (hr_period_parse(amount, &ns) != HR_OK) {
        return hr_doc_fault(r->doc, node, r->problem, "%s must be a time as 5s or -1h", what);
    }
    int64_t ms = (int64_t)ns / HR_NS_PER_MS;
    *ret_ms = is_back ? -ms : ms;
    return true;
}

/* "200ppm" or "-200ppm". */
static bool read_drift(const struct reader *r, hr_doc_node node, int32_t *ret_ppm)
{
    struct hr_span text;
    char number[16], *end = NULL;
    if (node == 0) {
        return true;
    }
    if (!hr_doc_scalar(r->doc, node, "drift", &text, r->problem)) {
        return false;
    }
    size_t used = text.bytes < sizeof(number) ? text.bytes : sizeof(number) - 1;
    memcpy(number, text.at, used);
    number[used] = '\0';
    long ppm = strtol(number, &end, 10);
    bool is_number = (number[0] >= '0' && number[0] <= '9') || (number[0] == '-' && end != number);
    if (!is_number || strcmp(end, "ppm") != 0 || labs(ppm) > HR_SCENARIO_DRIFT_PPM_MAX) {
        return hr_doc_fault(r->doc, node, r->problem, "drift must be as 200ppm or -200ppm, %dppm at most",
                            HR_SCENARIO_DRIFT_PPM_MAX);
    }
    *ret_ppm = (int32_t)ppm;
    return true;
}

static bool read_percent(const struct reader *r, hr_doc_node node, const char *what, uint32_t *ret_ppm)
{
    struct hr_span text;
    if (node == 0) {
        return true;
    }
    if (!hr_doc_scalar(r->doc, node, what, &text, r->problem)) {
        return false;
    }
    return hr_percent_parse(text, ret_ppm) == HR_OK ||
           hr_doc_fault(r->doc, node, r->problem, "%s must be a percentage from 0%% to 100%%", what);
}

/* "600/s": per second alone, for it is a rate of real requests. */
static bool read_rate(const struct reader *r, hr_doc_node node, const char *what, uint64_t *ret_per_second)
{
    struct hr_rate rate;
    struct hr_span text;
    if (node == 0) {
        return true;
    }
    if (!hr_doc_scalar(r->doc, node, what, &text, r->problem)) {
        return false;
    }
    if (hr_rate_parse(text, &rate) != HR_OK || rate.period_ns != (uint64_t)HR_NS_PER_S || rate.amount > 100000) {
        return hr_doc_fault(r->doc, node, r->problem, "%s must be a rate as 900/s, 100k/s at most", what);
    }
    *ret_per_second = rate.amount;
    return true;
}

/* --- the parts --- */

static bool add_region(const struct reader *r, hr_doc_node node)
{
    struct hr_span name;
    char *regions = r->scenario->regions;
    size_t used = strlen(regions);
    if (!hr_doc_scalar(r->doc, node, "a region", &name, r->problem)) {
        return false;
    }
    if (used + 1 + name.bytes >= sizeof(r->scenario->regions)) {
        return hr_doc_fault(r->doc, node, r->problem, "too many regions");
    }
    (void)snprintf(regions + used, sizeof(r->scenario->regions) - used, "%s%.*s", used > 0 ? "," : "", (int)name.bytes,
                   name.at);
    return true;
}

static bool read_regions(const struct reader *r, hr_doc_node list)
{
    if (list == 0) {
        return true;
    }
    if (!hr_doc_expect(r->doc, list, HR_DOC_LIST, "regions", r->problem)) {
        return false;
    }
    r->scenario->regions[0] = '\0';
    for (hr_doc_node node = hr_doc_first(r->doc, list); node != 0; node = hr_doc_next(r->doc, node)) {
        if (!add_region(r, node)) {
            return false;
        }
    }
    return true;
}

/* That the regions and nodes are possible, the plan itself is asked. */
static bool read_cluster(const struct reader *r, hr_doc_node map)
{
    static const char *const names[] = {"regions", "nodes", "delay"};
    static const struct hr_doc_keys keys = {"cluster", COUNT_OF(names), names};
    static struct hr_local_plan plan;
    hr_doc_node values[COUNT_OF(names)];
    uint64_t nodes = r->scenario->nodes_each;
    hr_ns delay = 0;
    if (!hr_doc_fields(r->doc, map, &keys, values, r->problem) || !read_regions(r, values[0]) ||
        (values[1] != 0 && !hr_doc_number(r->doc, values[1], "nodes", HR_LOCAL_NODES_MAX, &nodes, r->problem)) ||
        !read_time(r, values[2], "delay", &delay) ||
        !read_text(r, values[2], "delay", sizeof(r->scenario->delay), r->scenario->delay)) {
        return false;
    }
    r->scenario->nodes_each = (uint32_t)nodes;
    if (!hr_local_plan_init(&plan, r->scenario->regions, r->scenario->nodes_each, r->problem)) {
        hr_doc_where(r->doc, map, r->problem);
        return false;
    }
    return true;
}

static bool read_cap(const struct reader *r, hr_doc_node map)
{
    static const char *const names[] = {"rate", "burst", "reserve"};
    static const struct hr_doc_keys keys = {"cap", COUNT_OF(names), names};
    struct hr_scenario *scenario = r->scenario;
    hr_doc_node values[COUNT_OF(names)];
    if (!hr_doc_fields(r->doc, map, &keys, values, r->problem) ||
        !read_rate(r, values[0], "rate", &scenario->cap_per_second) ||
        !read_percent(r, values[2], "reserve", &scenario->reserve_ppm)) {
        return false;
    }
    scenario->burst = scenario->cap_per_second;
    return values[1] == 0 || hr_doc_number(r->doc, values[1], "burst", 1000000, &scenario->burst, r->problem);
}

static bool read_expect(const struct reader *r, hr_doc_node map)
{
    static const char *const names[] = {"reserve", "answers", "heals"};
    static const struct hr_doc_keys keys = {"expect", COUNT_OF(names), names};
    hr_doc_node values[COUNT_OF(names)];
    return hr_doc_fields(r->doc, map, &keys, values, r->problem) &&
           read_percent(r, values[0], "reserve", &r->scenario->reserve_part_ppm) &&
           read_percent(r, values[1], "answers", &r->scenario->answers_ppm) &&
           read_time(r, values[2], "heals", &r->scenario->heals);
}

/* --- faults --- */

static bool is_of(struct hr_span regions, struct hr_span region)
{
    while (regions.bytes > 0) {
        const char *comma = memchr(regions.at, ',', regions.bytes);
        size_t bytes = comma == NULL ? regions.bytes : (size_t)(comma - regions.at);
        if (hr_span_equal((struct hr_span){regions.at, bytes}, region)) {
            return true;
        }
        bytes += comma != NULL;
        regions = (struct hr_span){regions.at + bytes, regions.bytes - bytes};
    }
    return false;
}

/* "us-1" or "us-owner". */
static bool is_node(const struct hr_scenario *scenario, const char *name)
{
    const char *dash = strrchr(name, '-');
    if (dash == NULL || !is_of(hr_span_of(scenario->regions), (struct hr_span){name, (size_t)(dash - name)})) {
        return false;
    }
    char *end = NULL;
    unsigned long number = strtoul(dash + 1, &end, 10);
    return strcmp(dash, "-owner") == 0 ||
           (dash[1] >= '1' && dash[1] <= '9' && *end == '\0' && number <= scenario->nodes_each);
}

static bool check_subject(const struct reader *r, hr_doc_node node, const struct hr_fault_plan *fault)
{
    hr_ns delay;
    uint32_t ppm;
    if (fault->deed == HR_DEED_DELAY) {
        return read_time(r, node, "delay", &delay);
    }
    if (fault->deed == HR_DEED_LOSS) {
        return read_percent(r, node, "loss", &ppm);
    }
    bool is_region = fault->deed <= HR_DEED_DEAF;
    bool is_known = is_region ? is_of(hr_span_of(r->scenario->regions), hr_span_of(fault->subject))
                              : is_node(r->scenario, fault->subject);
    return is_known || hr_doc_fault(r->doc, node, r->problem, "%s needs %s of the cluster", deeds[fault->deed],
                                    is_region ? "a region" : "a node, as us-1 or us-owner,");
}

static bool read_clock(const struct reader *r, hr_doc_node map, struct hr_fault_plan *fault)
{
    static const char *const names[] = {"node", "steady", "wall", "drift"};
    static const struct hr_doc_keys keys = {"clock", COUNT_OF(names), names};
    hr_doc_node values[COUNT_OF(names)];
    if (!hr_doc_fields(r->doc, map, &keys, values, r->problem)) {
        return false;
    }
    if (values[0] == 0) {
        return hr_doc_fault(r->doc, map, r->problem, "clock needs a node");
    }
    return read_text(r, values[0], "node", sizeof(fault->subject), fault->subject) &&
           check_subject(r, values[0], fault) && read_offset(r, values[1], "steady", &fault->steady_ms) &&
           read_offset(r, values[2], "wall", &fault->wall_ms) && read_drift(r, values[3], &fault->drift_ppm);
}

/* The one deed among the values: deeds come first in them. */
static bool read_deed(const struct reader *r, hr_doc_node map, const hr_doc_node *values, struct hr_fault_plan *fault)
{
    uint32_t count = 0;
    for (enum hr_deed deed = HR_DEED_CUT; deed <= HR_DEED_CLOCK; deed++) {
        fault->deed = values[deed] != 0 ? deed : fault->deed;
        count += values[deed] != 0;
    }
    if (count != 1) {
        return hr_doc_fault(r->doc, map, r->problem,
                            "a fault needs one of cut, mute, deaf, delay, loss, kill, stop, pause, fill and clock");
    }
    hr_doc_node node = values[fault->deed];
    if (fault->deed == HR_DEED_CLOCK) {
        return read_clock(r, node, fault);
    }
    return read_text(r, node, deeds[fault->deed], sizeof(fault->subject), fault->subject) &&
           check_subject(r, node, fault);
}

static bool check_times(const struct reader *r, hr_doc_node map, const struct hr_fault_plan *fault)
{
    if (fault->every == 0) {
        return fault->until == 0 || hr_doc_fault(r->doc, map, r->problem, "until needs every");
    }
    if (fault->every < 100 * HR_NS_PER_MS || fault->until <= fault->at) {
        return hr_doc_fault(r->doc, map, r->problem, "every must be 100ms or more, and until later than at");
    }
    return (fault->lasts > 0 && fault->lasts < fault->every) ||
           hr_doc_fault(r->doc, map, r->problem, "a fault that repeats needs a for that is shorter than every");
}

static bool read_fault(const struct reader *r, hr_doc_node map)
{
    static const char *const names[] = {"cut",   "mute", "deaf",  "delay", "loss", "kill",  "stop",
                                        "pause", "fill", "clock", "at",    "for",  "every", "until"};
    static const struct hr_doc_keys keys = {"a fault", COUNT_OF(names), names};
    hr_doc_node values[COUNT_OF(names)];
    if (r->scenario->fault_count == HR_SCENARIO_FAULTS_MAX) {
        return hr_doc_fault(r->doc, map, r->problem, "at most %d faults", HR_SCENARIO_FAULTS_MAX);
    }
    struct hr_fault_plan *fault = &r->scenario->faults[r->scenario->fault_count++];
    return hr_doc_fields(r->doc, map, &keys, values, r->problem) && read_deed(r, map, values, fault) &&
           read_time(r, values[10], "at", &fault->at) && read_time(r, values[11], "for", &fault->lasts) &&
           read_time(r, values[12], "every", &fault->every) && read_time(r, values[13], "until", &fault->until) &&
           check_times(r, map, fault);
}

static bool read_faults(const struct reader *r, hr_doc_node list)
{
    if (!hr_doc_expect(r->doc, list, HR_DOC_LIST, "faults", r->problem)) {
        return false;
    }
    for (hr_doc_node node = hr_doc_first(r->doc, list); node != 0; node = hr_doc_next(r->doc, node)) {
        if (!read_fault(r, node)) {
            return false;
        }
    }
    return true;
}

static bool read_all(const struct reader *r)
{
    static const char *const names[] = {"name", "about", "cluster", "cap", "load", "lasts", "faults", "expect"};
    static const struct hr_doc_keys keys = {"a scenario", COUNT_OF(names), names};
    struct hr_scenario *scenario = r->scenario;
    hr_doc_node values[COUNT_OF(names)], root = hr_doc_root(r->doc);
    if (!hr_doc_fields(r->doc, root, &keys, values, r->problem) ||
        !read_text(r, values[0], "name", sizeof(scenario->name), scenario->name) ||
        !read_text(r, values[1], "about", sizeof(scenario->about), scenario->about) ||
        (values[2] != 0 && !read_cluster(r, values[2])) || (values[3] != 0 && !read_cap(r, values[3])) ||
        !read_rate(r, values[4], "load", &scenario->load_per_second) ||
        !read_time(r, values[5], "lasts", &scenario->lasts) || (values[6] != 0 && !read_faults(r, values[6])) ||
        (values[7] != 0 && !read_expect(r, values[7]))) {
        return false;
    }
    return scenario->lasts >= HR_NS_PER_S || hr_doc_fault(r->doc, root, r->problem, "lasts must be 1s or more");
}

static const struct hr_scenario defaults = {.name = "own",
                                            .regions = "eu,us,ap",
                                            .nodes_each = 2,
                                            .delay = "80ms",
                                            .cap_per_second = 900,
                                            .burst = 900,
                                            .reserve_ppm = 200000,
                                            .load_per_second = 600,
                                            .lasts = 60 * HR_NS_PER_S};

static bool read_doc(struct hr_doc *doc, struct hr_scenario *ret_scenario, struct hr_problem *problem)
{
    if (doc == NULL) {
        return false;
    }
    *ret_scenario = defaults;
    const struct reader reader = {doc, ret_scenario, problem};
    bool is_read = read_all(&reader);
    hr_doc_free(doc);
    return is_read;
}

bool hr_scenario_load(const char *path, struct hr_scenario *ret_scenario, struct hr_problem *ret_problem)
{
    return read_doc(hr_doc_load(path, ret_problem), ret_scenario, ret_problem);
}

bool hr_scenario_parse(struct hr_span text, const char *path, struct hr_scenario *ret_scenario,
                       struct hr_problem *ret_problem)
{
    return read_doc(hr_doc_parse(text, path, ret_problem), ret_scenario, ret_problem);
}

/* --- in time --- */

/* Both are an hour at most: in milliseconds, no product is too large. */
static hr_ns scaled(hr_ns time, hr_ns from, hr_ns to)
{
    return time / HR_NS_PER_MS * (to / HR_NS_PER_MS) / (from / HR_NS_PER_MS) * HR_NS_PER_MS;
}

void hr_scenario_scale(struct hr_scenario *scenario, hr_ns lasts)
{
    for (uint32_t i = 0; i < scenario->fault_count; i++) {
        struct hr_fault_plan *fault = &scenario->faults[i];
        fault->at = scaled(fault->at, scenario->lasts, lasts);
        fault->until = scaled(fault->until, scenario->lasts, lasts);
        fault->lasts = fault->every > 0 ? fault->lasts : scaled(fault->lasts, scenario->lasts, lasts);
    }
    scenario->lasts = lasts;
}

static int compare_strikes(const void *a, const void *b)
{
    const struct hr_strike_plan *one = a, *two = b;
    if (one->at != two->at) {
        return one->at < two->at ? -1 : 1;
    }
    return (one->strike > two->strike) - (one->strike < two->strike);
}

/* Between a strike that sets a clock adrift and its end, steps; returns the new count. */
static uint32_t add_drift(const struct hr_fault_plan *plan, struct hr_strike_plan begin, hr_ns end, uint32_t count,
                          struct hr_strike_plan *strikes)
{
    hr_ns every = plan->drift_ppm == 0 ? 0 : HR_SCENARIO_DRIFT_STEP_MS * HR_NS_PER_MS * MILLION / labs(plan->drift_ppm);
    for (hr_ns at = begin.at + every; every > 0 && at < end && count < HR_SCENARIO_STRIKES_MAX; at += every) {
        begin.drifted_ms += plan->drift_ppm > 0 ? HR_SCENARIO_DRIFT_STEP_MS : -HR_SCENARIO_DRIFT_STEP_MS;
        strikes[count] = begin;
        strikes[count++].at = at;
    }
    return count;
}

static uint32_t add_strikes(const struct hr_scenario *scenario, uint32_t fault, uint32_t count,
                            struct hr_strike_plan *strikes)
{
    const struct hr_fault_plan *plan = &scenario->faults[fault];
    hr_ns at = plan->at;
    do {
        if (at >= scenario->lasts || count + 2 > HR_SCENARIO_STRIKES_MAX) {
            break;
        }
        uint32_t strike = count;
        hr_ns end = plan->lasts > 0 && at + plan->lasts < scenario->lasts ? at + plan->lasts : scenario->lasts;
        const struct hr_strike_plan begin = {at, fault, false, strike, 0};
        strikes[count++] = begin;
        strikes[count++] = (struct hr_strike_plan){end, fault, true, strike, 0};
        count = add_drift(plan, begin, end, count, strikes);
        at += plan->every;
    } while (plan->every > 0 && at < plan->until);
    return count;
}

uint32_t hr_scenario_strikes(const struct hr_scenario *scenario, struct hr_strike_plan *ret_strikes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < scenario->fault_count; i++) {
        count = add_strikes(scenario, i, count, ret_strikes);
    }
    qsort(ret_strikes, count, sizeof(*ret_strikes), compare_strikes);
    return count;
}
