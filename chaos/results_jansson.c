#include "chaos/results_jansson.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool copy(const json_t *text, char *ret_text, size_t room)
{
    const char *from = json_string_value(text);
    if (from == NULL || strlen(from) >= room) {
        return false;
    }
    memcpy(ret_text, from, strlen(from) + 1);
    return true;
}

/* Adds the number of that key to *sum. */
static bool add(const json_t *object, const char *key, uint64_t *sum)
{
    const json_t *value = json_object_get(object, key);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number > UINT64_MAX - *sum) {
        return false;
    }
    *sum += (uint64_t)number;
    return true;
}

/* Room for one more of `bytes` each in an array of `count`, which grows by doubling. NULL: there are too many, or there
 * is no memory. */
static void *grow(void *array, uint32_t count, size_t bytes)
{
    if (count == HR_RESULTS_KEPT_MAX) {
        return NULL;
    }
    bool is_full = (count & (count - 1)) == 0;
    return is_full ? realloc(array, (count > 0 ? (size_t)count * 2 : 1) * bytes) : array;
}

/* --- of sim --- */

static enum hr_check find_check(const char *name)
{
    enum hr_check check = 0;
    while (check < HR_CHECK_COUNT && strcmp(hr_check_forms[check].name, name) != 0) {
        check++;
    }
    return check;
}

static bool add_invariants(struct hr_results *results, const json_t *invariants, enum hr_check *ret_first)
{
    size_t i;
    const json_t *invariant;
    *ret_first = HR_CHECK_COUNT;
    json_array_foreach(invariants, i, invariant)
    {
        const char *name = json_string_value(json_object_get(invariant, "name"));
        enum hr_check check = name != NULL ? find_check(name) : HR_CHECK_COUNT;
        uint64_t violated = 0;
        if (check == HR_CHECK_COUNT || !add(invariant, "checked", &results->checked[check]) ||
            !add(invariant, "violated", &violated)) {
            return false;
        }
        results->violated[check] += violated;
        *ret_first = violated > 0 && check < *ret_first ? check : *ret_first;
    }
    return json_is_array(invariants);
}

static bool add_strikes(struct hr_results *results, const json_t *faults)
{
    size_t i;
    const json_t *fault;
    json_array_foreach(faults, i, fault)
    {
        const char *kind = json_string_value(json_object_get(fault, "kind"));
        enum hr_strike strike;
        if (kind == NULL || !hr_strike_find(hr_span_of(kind), &strike)) {
            return false;
        }
        results->strikes[strike]++;
    }
    return json_is_array(faults);
}

static enum hr_err keep_failure(struct hr_results *results, const json_t *run, enum hr_check first)
{
    struct hr_results_failure *grown = grow(results->failures, results->failure_count, sizeof(*grown));
    if (grown == NULL) {
        return HR_E_TOO_MANY;
    }
    results->failures = grown;
    struct hr_results_failure *failure = &grown[results->failure_count];
    const char *check = first < HR_CHECK_COUNT ? hr_check_forms[first].name : "";
    (void)snprintf(failure->check, sizeof(failure->check), "%s", check);
    if (!copy(json_object_get(run, "command"), failure->command, sizeof(failure->command))) {
        return HR_E_INVALID;
    }
    results->failure_count++;
    return HR_OK;
}

static enum hr_err add_sim(struct hr_results *results, const json_t *run)
{
    const json_t *passed = json_object_get(run, "passed");
    enum hr_check first;
    bool is_good = json_is_boolean(passed) && add(run, "seconds", &results->seconds) &&
                   add(run, "asked", &results->asked) && add(run, "admitted", &results->admitted) &&
                   add(run, "denied", &results->denied) && add(run, "refused", &results->refused) &&
                   add(run, "lost", &results->lost) && add(run, "crashes", &results->crashes) &&
                   add_invariants(results, json_object_get(run, "invariants"), &first) &&
                   add_strikes(results, json_object_get(run, "faults"));
    if (!is_good) {
        return HR_E_INVALID;
    }
    results->sims++;
    results->sims_failed += json_is_false(passed);
    return json_is_true(passed) ? HR_OK : keep_failure(results, run, first);
}

/* --- of run --- */

static bool read_check(const json_t *check, struct hr_results_check *ret_check)
{
    const json_t *held = json_object_get(check, "held");
    ret_check->is_held = json_is_true(held);
    return json_is_boolean(held) && copy(json_object_get(check, "check"), ret_check->name, sizeof(ret_check->name)) &&
           copy(json_object_get(check, "bound"), ret_check->bound, sizeof(ret_check->bound)) &&
           copy(json_object_get(check, "measured"), ret_check->measured, sizeof(ret_check->measured));
}

static bool read_scenario(const json_t *run, struct hr_results_scenario *ret_scenario)
{
    const json_t *held = json_object_get(run, "held"), *checks = json_object_get(run, "checks");
    ret_scenario->is_held = json_is_true(held);
    ret_scenario->check_count = (uint32_t)json_array_size(checks);
    bool is_good = json_is_boolean(held) && json_array_size(checks) <= HR_RESULTS_CHECKS_MAX &&
                   copy(json_object_get(run, "scenario"), ret_scenario->name, sizeof(ret_scenario->name));
    for (uint32_t i = 0; is_good && i < ret_scenario->check_count; i++) {
        is_good = read_check(json_array_get(checks, i), &ret_scenario->checks[i]);
    }
    return is_good && json_is_array(checks);
}

static enum hr_err add_scenario(struct hr_results *results, const json_t *run)
{
    struct hr_results_scenario *grown = grow(results->scenarios, results->scenario_count, sizeof(*grown));
    if (grown == NULL) {
        return HR_E_TOO_MANY;
    }
    results->scenarios = grown;
    if (!read_scenario(run, &grown[results->scenario_count])) {
        return HR_E_INVALID;
    }
    results->scenario_count++;
    return HR_OK;
}

/* --- both --- */

enum hr_err hr_results_add(struct hr_results *results, struct hr_span line)
{
    json_t *run = json_loadb(line.at, line.bytes, JSON_REJECT_DUPLICATES, NULL);
    if (run == NULL) {
        return HR_E_INVALID;
    }
    bool is_scenario = json_object_get(run, "scenario") != NULL;
    enum hr_err err = is_scenario ? add_scenario(results, run) : add_sim(results, run);
    json_decref(run);
    return err;
}

bool hr_results_held(const struct hr_results *results)
{
    bool has_held = results->sims_failed == 0;
    for (uint32_t i = 0; i < results->scenario_count; i++) {
        has_held = has_held && results->scenarios[i].is_held;
    }
    return has_held;
}

void hr_results_deinit(struct hr_results *results)
{
    free(results->failures);
    free(results->scenarios);
    *results = (struct hr_results){0};
}
